import { execFile } from "node:child_process";
import { cpSync } from "node:fs";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { parse } from "yaml";
import { describeWithPackages } from "../support/debian.ts";
import "../support/scratch.ts";

const DEPLOY = join(import.meta.dirname, "../../src/deploy");
const run = promisify(execFile);

interface ComposeService {
  readonly environment?: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly read_only?: boolean;
  readonly command?: readonly string[];
}

describeWithPackages("the compose file", ["docker-compose"], () => {
  let dir: string;
  let folder: string;
  let services: Readonly<Record<string, ComposeService>>;

  const compose = (...args: readonly string[]) =>
    run("docker-compose", ["--project-directory", folder, "-f", join(folder, "compose.yaml"), ...args]);

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), "acp-compose-"));
    folder = join(dir, "deploy/compose");
    cpSync(DEPLOY, join(dir, "deploy"), { recursive: true, filter: (path) => !path.includes(".data") });
  });
  after(() => rm(dir, { recursive: true, force: true }));

  it("says without keys how to make them.", async () => {
    const { stderr } = await compose("config").then(
      () => ({ stderr: "" }),
      (error) => error as { stderr: string },
    );
    expect(stderr).to.include("run make-keys.sh, then add --env-file .data/keys.env");
  });

  it("gets keys by one command, which nobody else reads and which makes no second set.", async () => {
    await run(join(folder, "make-keys.sh"));
    const made = await readFile(join(folder, ".data/keys.env"), "utf8");
    expect((await stat(join(folder, ".data"))).mode & 0o777).to.equal(0o700);
    expect((await stat(join(folder, ".data/keys.env"))).mode & 0o777).to.equal(0o600);
    const values = [...made.matchAll(/^[A-Z_]+=([0-9a-f]+)$/gm)].map(([, value]) => value);
    expect(new Set(values).size).to.equal(8);
    const again = await run(join(folder, "make-keys.sh")).catch((error) => error as { stderr: string });
    expect(again.stderr).to.include("a second set would lock the database");
    expect(await readFile(join(folder, ".data/keys.env"), "utf8")).to.equal(made);
  });

  it("is accepted by docker-compose.", async () => {
    const { stdout } = await compose("--env-file", join(folder, ".data/keys.env"), "config");
    services = (parse(stdout) as { services: typeof services }).services;
    expect(Object.keys(services).sort()).to.deep.equal(
      ["acp-1", "acp-2", "grafana", "migrate", "postgres", "prometheus", "redis"].sort(),
    );
  });

  it("gives the owner's password to the migration alone, and no password to what does not need it.", () => {
    for (const [name, { environment = {} }] of Object.entries(services)) {
      const names = Object.keys(environment);
      expect(names.includes("ACP_DATABASE_OWNER_URL"), name).to.equal(name === "migrate");
      if (!["acp-1", "acp-2", "migrate"].includes(name))
        expect(
          names.filter((each) => each.startsWith("ACP_")),
          name,
        ).to.deep.equal([]);
    }
  });

  it("publishes ports on loopback alone, and none of the database or of Redis.", () => {
    for (const [name, { ports = [] }] of Object.entries(services)) {
      expect(
        ports.filter((port) => !port.startsWith("127.0.0.1:")),
        name,
      ).to.deep.equal([]);
    }
    expect(services.postgres?.ports).to.equal(undefined);
    expect(services.redis?.ports).to.equal(undefined);
  });

  it("mounts only files that are there.", async () => {
    for (const { volumes = [] } of Object.values(services)) {
      for (const volume of volumes) {
        const [source = ""] = volume.split(":");
        if (source.startsWith("/")) await stat(source);
      }
    }
  });

  it("runs replicas on a file system that they cannot change.", () => {
    expect(services["acp-1"]?.read_only).to.equal(true);
    expect(services["acp-2"]?.read_only).to.equal(true);
  });
});
