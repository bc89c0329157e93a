import { execFile } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { versionOf } from "../../src/version.ts";
import { codeOf, ROOT } from "../architecture/source-files.ts";
import { startService, type TestService } from "../support/service.ts";

const run = promisify(execFile);
const NPM = ["--no-audit", "--no-fund", "--loglevel=error"] as const;

describe("agentctl, installed from the package", function () {
  this.timeout(600_000);
  const tarball = join(ROOT, `.generated/agent-control-plane-${versionOf()}.tgz`);
  let work: string;
  let service: TestService;
  before(async () => {
    work = await mkdtemp(join(tmpdir(), "acp-installed-"));
    await run("npm", ["run", "--silent", "build"], { cwd: ROOT });
    const prefix = join(work, "prefix");
    await run("npm", ["install", "--global", "--prefix", prefix, "--prefer-offline", tarball, ...NPM], { cwd: work });
    await mkdir(join(work, "empty"));
    service = await startService();
  });
  after(async () => {
    await service?.stop();
    await rm(work, { recursive: true, force: true });
  });

  const agentctl = (...args: readonly string[]) =>
    run(join(work, "prefix/bin/agentctl"), args, {
      cwd: join(work, "empty"),
      env: { PATH: process.env.PATH, AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey },
    });

  it("says its version in an empty directory, and brings the schema of mandates.", async () => {
    expect((await agentctl("--version")).stdout).to.equal(`agentctl ${versionOf()}\n`);
    const { title } = JSON.parse((await agentctl("schema", "mandate")).stdout) as { title: string };
    expect(title).to.equal("Mandates of an Agent Control Plane");
  });

  it("runs where it is unpacked, with exactly the packages of the lock file, and brings the files of a deployment.", async () => {
    const installed = join(work, "unpacked");
    await mkdir(installed);
    await run("tar", ["-xzf", tarball, "--strip-components=1", "-C", installed]);
    await run("npm", ["ci", "--prefix", installed, "--omit=dev", "--prefer-offline", ...NPM], { cwd: work });
    const { stdout } = await run(join(installed, "node_modules/.bin/node"), ["dist/src/cli/agentctl.js", "--version"], {
      cwd: installed,
    });
    expect(stdout).to.equal(`agentctl ${versionOf()}\n`);
    const { packages } = JSON.parse(await readFile(join(ROOT, "package-lock.json"), "utf8")) as {
      packages: Readonly<Record<string, { readonly version: string; readonly dev?: boolean }>>;
    };
    const paths = globSync(["node_modules/*/package.json", "node_modules/@*/*/package.json"], { cwd: installed });
    expect(paths.length).to.be.above(100);
    for (const path of paths) {
      const { version } = JSON.parse(await readFile(join(installed, path), "utf8")) as { version: string };
      const locked = packages[dirname(path)];
      expect(locked?.version, path).to.equal(version);
      expect(locked?.dev ?? false, path).to.equal(false);
    }
    const deploy = join(installed, "dist/src/deploy");
    expect(globSync("{systemd/*.service,nginx/*.conf,prometheus/*.yaml}", { cwd: deploy })).to.have.length(5);
    expect(globSync("**/.data", { cwd: deploy })).to.deep.equal([]);
  });

  it("has every file and package that a running service loads later.", async () => {
    const installed = join(work, "unpacked");
    const calls = globSync("dist/src/**/*.js", { cwd: installed, exclude: ["dist/src/{cli,client}/**"] }).flatMap(
      (file) =>
        [...codeOf(readFileSync(join(installed, file), "utf8")).matchAll(/\bimport\("([^"]+)"\)/g)].map(
          ([, to = ""]) => (to.startsWith(".") ? `./${join(dirname(file), to)}` : to),
        ),
    );
    expect(calls).to.include.members([
      "undici",
      "./dist/src/gateway/upstreams.js",
      "./dist/src/server/docs/docs-route.js",
    ]);
    const program = calls.map((to) => `await import(${JSON.stringify(to)});`).join("\n");
    await run(join(installed, "node_modules/.bin/node"), ["--input-type=module", "--eval", program], {
      cwd: installed,
    });
  });

  it("lists, changes and verifies at a running service.", async () => {
    await agentctl("agents", "create", "clerk");
    expect((await agentctl("agents", "list")).stdout).to.match(/^ID .*\nagt_\S+ +clerk +active/);
    expect((await agentctl("vault", "verify")).stdout).to.match(/^VERIFIED: /);
    expect((await agentctl("help", "backup")).stdout).to.include("backup check");
  });
});
