import { expect } from "chai";
import { ObservationSource } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EndedSessions } from "../../src/observation/ended-sessions.ts";
import { forgetExpired } from "../../src/state/workspace.ts";
import { SILENT_LOG } from "../support/database.ts";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";

describe("what ended sessions observed", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  const begin = async (agentId: string, ttlSeconds?: bigint) => {
    const { session } = await test.authority.createSession({ agentId, ...(ttlSeconds && { ttlSeconds }) });
    const sessionId = session?.sessionId ?? "";
    await test.enforcement.observe({ sessionId, source: ObservationSource.PROMPT, content: "mail bob" });
    return sessionId;
  };

  it("is gone with the key after the next sweep, and what others observed stays.", async () => {
    const agentId = await test.agent("a");
    const [open, ended, expiring] = [await begin(agentId), await begin(agentId), await begin(agentId, 60n)];
    await test.authority.endSession({ sessionId: ended });
    const { pool } = test.database;
    const left = async () => {
      const { rows } = await pool.query(
        "select session_id as id from session_key union all select session_id from session_observation",
      );
      return rows.map(({ id }) => id).sort();
    };
    const sweep = (inMs: number) =>
      new EndedSessions({ pool, now: () => test.logs.clock.now() + inMs, log: SILENT_LOG }).sweep();
    await sweep(0);
    expect(await left()).to.deep.equal([open, open, expiring, expiring].sort());
    await sweep(90_000);
    expect(await left()).to.deep.equal([open, open]);
  });

  const ENDS: Readonly<Record<string, (sessionId: string, agentId: string) => Promise<unknown>>> = {
    "are ended": (sessionId) => test.authority.endSession({ sessionId }),
    "expire, at the next sweep": async () => forgetExpired(await test.log.caughtUp(), test.logs.clock.now() + 90_000),
    "are those of a revoked agent": (_, agentId) => test.revoke(agentId),
  };
  for (const [ending, end] of Object.entries(ENDS)) {
    it(`leaves memory when they ${ending}, and what others observed stays.`, async () => {
      const [agentId = "", other = ""] = await test.newAgents(2);
      const [open, ended] = [await begin(other), await begin(agentId, 60n)];
      const { sessions } = await test.log.caughtUp();
      expect([open, ended].map((id) => sessions.knows(id))).to.deep.equal([true, true]);
      await end(ended, agentId);
      expect([open, ended].map((id) => sessions.knows(id))).to.deep.equal([true, false]);
    });
  }
});
