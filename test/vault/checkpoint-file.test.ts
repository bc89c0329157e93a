import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { CheckpointFile } from "../../src/log/checkpoint-file.ts";
import { CheckpointKeeper } from "../../src/log/checkpoint-keeper.ts";
import { agentctl } from "../cli/harness.ts";
import { newKey } from "../cli/written-log.ts";
import { until } from "../gateway/until.ts";
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
