import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { CheckpointFile } from "../../src/log/checkpoint-file.ts";
import { CheckpointKeeper } from "../../src/log/checkpoint-keeper.ts";
import { agentctl } from "../cli/harness.ts";
import { newKey } from "../cli/written-log.ts";
import { until } from "../gateway/until.ts";
import { createTestDatabase } from "../support/database.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";
import { startService, type TestService } from "../support/service.ts";

const SIGNING_KEY = newKey().privateKey.export({ type: "pkcs8", format: "pem" }).toString();

describe("the file of kept checkpoints", () => {
  let folder: string;
  let path: string;
  let service: TestService;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "acp-kept-"));
    path = join(folder, "checkpoints");
    service = await startService({ env: { ACP_CHECKPOINT_FILE: path, ACP_SIGNING_KEY: SIGNING_KEY } });
  });
  after(async () => {
    await service?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const verify = ({ http, adminKey }: TestService = service) =>
    agentctl(["vault", "verify", "--url", http, "--json", "--against", path], { AGENTCTL_KEY: adminKey });
  const textOf = () => readFile(path, "utf8");

  it("gets a checkpoint of the log at the start, which the log contains later, and only its owner reads it.", async () => {
    await until(async () => (await textOf()).includes("/vault/default\n"));
    expect((await stat(path)).mode & 0o777).to.equal(0o600);
    await service.agent();
    const { code, stdout } = await verify();
    expect(code, stdout).to.equal(0);
  });

  it("finds another log that the service serves in its place, signed with its own key.", async () => {
    await until(async () => (await textOf()).includes("/vault/default\n"));
    const forked = await startService({ env: { ACP_SIGNING_KEY: SIGNING_KEY } });
    try {
      for (let at = 0; at < 5; at += 1) await forked.agent();
      const { code, stdout } = await verify(forked);
      expect(code, stdout).to.equal(1);
      expect(JSON.parse(stdout)).to.include({ verified: false, fault: "rewritten" });
      expect(stdout).to.match(/checkpoint \d of `[^`]*checkpoints`, of size \d+, says/);
    } finally {
      await forked.stop();
    }
  });

  it("is whole at each of two replicas that keep one, whichever of them decides, ends and starts again.", async () => {
    const database = await createTestDatabase();
    const secrets = { ACP_SIGNING_KEY: SIGNING_KEY, ACP_ADMIN_KEY: "an-admin-key-of-the-test" };
    const files = ["first", "second"].map((name) => join(folder, name));
    const replicas: (ServedHere | undefined)[] = [];
    const start = async (at: number): Promise<void> => {
      const env = { ...secrets, ACP_CHECKPOINT_FILE: files[at] ?? "" };
      replicas[at] = await serveHere({ databaseUrl: database.url, env });
    };
    const stop = async (at: number): Promise<void> => {
      await replicas[at]?.stop();
      replicas[at] = undefined;
    };
    const register = async (at: number): Promise<void> => {
      const headers = { "x-api-key": secrets.ACP_ADMIN_KEY, "content-type": "application/json" };
      const body = JSON.stringify({ name: `agent of ${at}` });
      const response = await fetch(`${replicas[at]?.http}/v1/enforce/agents`, { method: "POST", headers, body });
      expect(response.status).to.equal(200);
    };
    const lastSizes = async (): Promise<readonly number[]> => {
      const texts = await Promise.all(files.map((file) => readFile(file, "utf8")));
      return texts.map((text) => Number([...text.matchAll(/\/vault\/default\n(\d+)\n/g)].at(-1)?.[1]));
    };
    try {
      await start(0);
      await start(1);
      await register(0);
      await register(1);
      await stop(1);
      await register(0);
      await start(1);
      await register(1);
      await stop(0);
      const [whole = 0] = await lastSizes();
      await until(async () => (await lastSizes())[1] === whole - 1);
      for (const file of files) {
        const args = ["vault", "verify", "--url", replicas[1]?.http ?? "", "--json", "--against", file];
        const { code, stdout } = await agentctl(args, { AGENTCTL_KEY: secrets.ACP_ADMIN_KEY });
        expect(code, stdout).to.equal(0);
      }
      await stop(1);
      expect(await lastSizes()).to.deep.equal([whole, whole]);
    } finally {
      for (const at of [0, 1]) await stop(at);
      await database.drop();
    }
  });

  it("goes on where it ended, begins a new one when it is full, and says that it cannot be written.", async () => {
    const own = join(folder, "own");
    let size = 3;
    const note = (of: number): string => `log.example/vault/w\n${of}\nAAAA\n\n\u2014 log.example/vault/w BBBB\n`;
    const warnings: string[] = [];
    const options = {
      store: new CheckpointFile(own),
      pool: { query: async () => ({ rows: [{ workspaceId: "w", size }] }) } as never,
      vault: { checkpoint: async () => ({ treeSize: size, note: note(size) }) as never },
      log: { warn: (_details: object, message: string) => void warnings.push(message) },
      everyMs: 3_600_000,
    };
    await writeFile(own, `${note(3)}\n`);
    const kept = new CheckpointKeeper(options);
    await kept.start();
    await kept.keep();
    expect(await readFile(own, "utf8")).to.equal(`${note(3)}\n`);
    size = 5;
    await kept.keep();
    expect(await readFile(own, "utf8")).to.equal(`${note(3)}\n${note(5)}\n`);
    await kept.close();
    const full = new CheckpointKeeper({ ...options, store: new CheckpointFile(own, 100) });
    size = 9;
    await full.start();
    await full.close();
    expect(await readFile(`${own}.1`, "utf8")).to.include("\n5\n");
    expect(warnings).to.deep.equal([]);
    const nowhere = new CheckpointKeeper({ ...options, store: new CheckpointFile(join(folder, "no", "where")) });
    expect(await nowhere.start().catch((error) => error.code)).to.equal("ENOENT");
  });
});
