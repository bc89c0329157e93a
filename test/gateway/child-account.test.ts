import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { ChildAccounts } from "../../src/gateway/child-account.ts";
import "../support/scratch.ts";

const FIRST = 65_000 + 2 * randomInt(200);
const range = { from: FIRST, to: FIRST + 1 };

describe("accounts of MCP servers that are commands", () => {
  before(function () {
    if (process.geteuid?.() !== 0) this.skip();
  });

  it("are not ended when another service has returned them since they were listed.", async () => {
    const leases = await mkdtemp(join(tmpdir(), "acp-leases-"));
    for (const uid of [range.from, range.to]) {
      const gone = { pid: 1, started: "never", boot: "another", home: `/home of ${uid}` };
      await writeFile(join(leases, String(uid)), JSON.stringify(gone));
    }
    const except = async () => [];
    const other = new ChildAccounts({ range, leases, except, closeHome: async () => undefined });
    let running: ReturnType<typeof spawn> | undefined;
    const closeHome = async (): Promise<void> => {
      if (running !== undefined) return;
      await other.recover();
      running = spawn("/bin/sleep", ["60"], { uid: range.to, gid: range.to, cwd: "/", env: {}, stdio: "ignore" });
      await once(running, "spawn");
    };
    await new ChildAccounts({ range, leases, except, closeHome }).recover();
    expect(running?.exitCode, "exit code").to.equal(null);
    expect(running?.signalCode, "signal").to.equal(null);
    running?.kill("SIGKILL");
  });
});
