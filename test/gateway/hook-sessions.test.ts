import { expect } from "chai";
import type { McpCaller } from "../../src/gateway/caller.ts";
import { HookSessions } from "../../src/gateway/hook-sessions.ts";
import { SILENT_LOG } from "../support/database.ts";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";

describe("sessions of coding agents", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace({ replicas: 2 });
  });
  after(() => test.close());

  it("are the same on every replica and after a restart, also if both begin one at once.", async () => {
    const caller = { workspaceId: test.workspaceId, agentId: await test.agent("a"), keyId: "key_a" } as McpCaller;
    const { pool } = test.database;
    const open = (replica: number) => {
      const logs = test.replicas[replica]?.logs;
      if (logs === undefined) throw new Error("no replica");
      return new HookSessions({ pool, logs, log: SILENT_LOG });
    };
    const both = [open(0), open(1)];
    const session = { client: "codex", id: "s" };
    const begun = await Promise.all([...both, ...both].map((each) => each.sessionOf(caller, session)));
    expect(new Set(begun).size).to.equal(1);
    expect(await open(1).sessionOf(caller, session)).to.equal(begun[0]);
    expect(await open(0).sessionOf(caller, { client: "claude-code", id: "s" })).not.to.equal(begun[0]);
    const { sessions } = await test.authority.listSessions({ agentId: caller.agentId });
    expect(sessions.filter(({ status }) => status === 1)).to.have.length(2);
  });
});
