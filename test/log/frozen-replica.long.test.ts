import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect } from "chai";
import { withWorkspace } from "../support/harness.ts";
import { assertIntact, decisionsOf, readLog } from "./stored-log.ts";

/** Longest time that a frozen replica may stop the others, milliseconds. */
const BOUND_MS = 9_500;

describe("a replica that is frozen while it holds the end of a log", () => {
  it("stops the others for seconds only: what they were asked meanwhile is decided.", () =>
    withWorkspace({}, async (workspace) => {
      const agentId = await workspace.agent();
      await workspace.intercept({ agentId, actionType: "read" });
      const child = spawn(process.execPath, [join(import.meta.dirname, "lock-holder.ts"), workspace.url]);
      child.stderr.pipe(process.stderr);
      await once(child.stdout, "data");
      child.kill("SIGSTOP");
      try {
        const askedAt = performance.now();
        const asked = [1, 2, 3].map(() => workspace.intercept({ agentId, actionType: "read" }));
        const change = workspace.agent();
        await Promise.all([...asked, change]);
        expect(performance.now() - askedAt).to.be.below(BOUND_MS);
        const log = await readLog(workspace.url);
        assertIntact(log);
        expect(decisionsOf(log)).to.have.length(4);
      } finally {
        child.kill("SIGKILL");
        await once(child, "exit");
      }
    }));
});
