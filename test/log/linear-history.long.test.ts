import { expect } from "chai";
import { type TestWorkspace, withWorkspace } from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { coldState, comparable, foldedState } from "./comparable.ts";
import { replayNaively } from "./naive-log.ts";
import { type RandomHistory, startRandomHistory } from "./random-history.ts";
import { assertIntact, readLog } from "./stored-log.ts";

/** Concurrent steps. The last part of them are all intercepts, so that batches grow and replicas collide. */
const LIVES = 12;
const STEPS = 60;
const BURSTS = 6;
const BURST = 40;

/** The members of a counter that differ between groups. */
const NO_GROUP = { group: "", members: 0, count: 0, remaining: 0, resets_at: "" };

async function live(history: RandomHistory): Promise<void> {
  await Promise.all(
    Array.from({ length: LIVES }, async () => {
      for (let count = 0; count < STEPS; count++) await history.step();
    }),
  );
  for (let burst = 0; burst < BURSTS; burst++) {
    const calls = Array.from({ length: BURST }, () => history.intercept());
    await Promise.all([...calls, history.step(), history.step(), history.step()]);
  }
  await history.actUnderCountForBoth();
}

/** Asserts that replaying the log on one thread gives every decision again. */
async function assertLinear({ url }: TestWorkspace): Promise<number> {
  const log = await readLog(url);
  assertIntact(log);
  const replayed = replayNaively(log.entries.map(({ body }) => body));
  for (const { want, got } of replayed) expect(got).to.deep.equal(want);
  // A rule that counts for the acting agent and its principal has two counters.
  const placesOf = (limits: readonly object[]) => limits.map((limit) => JSON.stringify({ ...limit, ...NO_GROUP }));
  const forBoth = replayed.filter(({ got: { limits } }) => new Set(placesOf(limits)).size < limits.length);
  expect(forBoth).not.to.deep.equal([]);
  return replayed.length;
}

describe("the history of a workspace with several replicas", () => {
  for (const [seed, replicas] of [
    [11, 2],
    [12, 3],
    [13, 3],
  ] as const) {
    it(`is one line: a naive model replays every decision of ${replicas} replicas (history ${seed}).`, () =>
      withWorkspace({ replicas }, async (workspace) => {
        const below = seededBelow(seed);
        await live(await startRandomHistory(workspace, below));
        expect(await assertLinear(workspace)).to.be.above(LIVES * STEPS * 0.6);
        const { pool } = workspace.database;
        const { lastAtMs } = await workspace.log.caughtUp();
        const folded = await comparable(pool, await foldedState(pool), lastAtMs + 500);
        expect(await comparable(pool, await coldState(pool), lastAtMs + 500)).to.deep.equal(folded);
        for (const { log } of workspace.replicas) {
          expect(await comparable(pool, await log.caughtUp(), lastAtMs + 500)).to.deep.equal(folded);
        }
      }));
  }
});
