import { expect } from "chai";
import { coldState, comparable, foldedState } from "../log/comparable.ts";
import { startRandomHistory } from "../log/random-history.ts";
import { assertIntact, readLog } from "../log/stored-log.ts";
import { withWorkspace } from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";

const STEPS = 250;
const AT_ONCE = 8;

describe("a cold start", () => {
  for (const seed of [1, 2, 3]) {
    it(`gives the state that the log folds to, whatever snapshots two replicas wrote (history ${seed}).`, () =>
      withWorkspace({ replicas: 2 }, async (workspace) => {
        const { pool } = workspace.database;
        const below = seededBelow(seed);
        const history = await startRandomHistory(workspace, below);
        const lives = Array.from({ length: AT_ONCE }, async () => {
          for (let count = 0; count < STEPS / AT_ONCE; count++) {
            await history.step();
            if (below(100) < 15) await workspace.replicas[below(2)]?.log.saveTrust();
          }
        });
        await Promise.all(lives);
        const { lastAtMs } = await workspace.log.caughtUp();
        const folded = await comparable(pool, await foldedState(pool), lastAtMs + 500);
        expect(await comparable(pool, await coldState(pool), lastAtMs + 500)).to.deep.equal(folded);
        for (const { log } of workspace.replicas) {
          expect(await comparable(pool, await log.caughtUp(), lastAtMs + 500)).to.deep.equal(folded);
          await log.saveTrust();
          expect(await comparable(pool, await coldState(pool), lastAtMs + 500)).to.deep.equal(folded);
        }
        assertIntact(await readLog(workspace.url));
      }));
  }

  it("reads no more of the log than what came after the snapshot.", () =>
    withWorkspace({}, async (workspace) => {
      const agentId = await workspace.agent();
      for (let count = 0; count < 20; count++) await workspace.intercept({ agentId, actionType: "read" });
      await workspace.log.saveTrust();
      await workspace.intercept({ agentId, actionType: "read" });
      const state = await coldState(workspace.database.pool);
      expect(state.agents.get(agentId)?.trustTenths).to.equal(500 + 21 * 2);
      expect(state.trustChangedAt).to.deep.equal(new Map([[agentId, state.seq]]));
      const { rows } = await workspace.database.pool.query("select trust_seq::int as seq from workspace");
      expect(rows).to.deep.equal([{ seq: state.seq - 1 }]);
    }));
});
