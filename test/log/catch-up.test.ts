import { expect } from "chai";
import type { Pool } from "pg";
import { catchUp } from "../../src/log/catch-up.ts";
import { createWorkspaceState } from "../../src/state/workspace.ts";
import { EMPTY_FRONTIER } from "../../src/tree/merkle.ts";
import { openWorkspace, withWorkspace } from "../support/harness.ts";

const DECISIONS = 5_100;

/** The pool, of which the n-th query from now on fails as if the connection broke. */
function poolThatFails(pool: Pool, nth: number): Pool {
  let queries = 0;
  const query = (...args: Parameters<Pool["query"]>): unknown => {
    queries += 1;
    if (queries === nth) return Promise.reject(new Error("Connection terminated unexpectedly"));
    return pool.query(...args);
  };
  return { query } as unknown as Pool;
}

describe("catching up with other replicas", () => {
  it("tells of every entry once and in order, also when the connection breaks between two pages.", () =>
    withWorkspace({}, async (test) => {
      const { pool } = test.database;
      const agentId = await test.agent();
      const asked = Array.from({ length: DECISIONS }, () => test.intercept({ agentId, actionType: "read" }));
      await Promise.all(asked);
      const { settings, seq, frontier } = await test.log.caughtUp();
      const state = createWorkspaceState(settings, { seq: 0, lastAtMs: 0, frontier: EMPTY_FRONTIER });
      const heard: number[] = [];
      const hear = (events: readonly { readonly seq: number }[]) =>
        void heard.push(...events.map((event) => event.seq));
      const failure = await catchUp(poolThatFails(pool, 2), state, hear).catch((error: Error) => error.message);
      expect(failure).to.equal("Connection terminated unexpectedly");
      expect(state.seq).to.equal(heard.length);
      await catchUp(pool, state, hear);
      expect(heard).to.deep.equal(Array.from({ length: seq }, (_, index) => index));
      expect(state.frontier).to.deep.equal(frontier);
    }));

  it("needs no second connection inside a change, which others may all be waiting for.", async () => {
    // Without wake-ups, so that only the change finds what the other replica appended.
    const workspace = await openWorkspace({ hearsWakeUps: false });
    try {
      const other = await workspace.replica();
      const register = ({ agents }: typeof other) => agents.registerAgent({ name: "agent" });
      await register(workspace);
      await register(workspace);
      await register(other);
      const { pool } = workspace.database;
      const most = pool.options.max ?? 0;
      const held = await Promise.all(Array.from({ length: most - 1 }, () => pool.connect()));
      const changed = workspace.log.change("key_test", async ({ state }) => state.seq);
      const seq = await changed.finally(() => {
        for (const client of held) client.release();
      });
      expect(seq).to.equal((await other.log.caughtUp()).seq);
    } finally {
      await workspace.close();
    }
  });
});
