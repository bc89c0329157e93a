import { expect } from "chai";
import { ObservationSource } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EndedSessions } from "../../src/observation/ended-sessions.ts";
import { SILENT_LOG } from "../support/database.ts";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";

describe("what ended sessions observed", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  it("is gone with the key after the next sweep, and what others observed stays.", async () => {
    const agentId = await test.agent("a");
    const begin = async (ttlSeconds?: bigint) => {
      const { session } = await test.authority.createSession({ agentId, ...(ttlSeconds && { ttlSeconds }) });
      const sessionId = session?.sessionId ?? "";
      await test.enforcement.observe({ sessionId, source: ObservationSource.PROMPT, content: "mail bob" });
      return sessionId;
    };
    const [open, ended, expiring] = [await begin(), await begin(), await begin(60n)];
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
});
