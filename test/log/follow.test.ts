import { expect } from "chai";
import type { Pool } from "pg";
import { catchUp } from "../../src/log/catch-up.ts";
import type { LedgerEvent } from "../../src/log/events.ts";
import type { AppendedBatch } from "../../src/log/follow.ts";
import { followBatch } from "../../src/log/follow.ts";
import type { DecisionPeers } from "../../src/log/peers.ts";
import type { WorkspaceState } from "../../src/state/workspace.ts";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { coldState, comparable, foldedState } from "./comparable.ts";
import { startRandomHistory } from "./random-history.ts";

const STEPS = 40;
const BURSTS = 8;
const BURST = 40;

/** A pool that counts the entries that are read through it. */
function countingPool(pool: Pool): { readonly pool: Pool; readonly read: () => number } {
  let read = 0;
  const query = async (...args: Parameters<Pool["query"]>): Promise<unknown> => {
    const result = (await pool.query(...args)) as unknown as { rows: unknown[] };
    read += result.rows.length;
    return result;
  };
  return { pool: { query } as unknown as Pool, read: () => read };
}

describe("following a process that appends", () => {
  let told: AppendedBatch[];
  let workspace: TestWorkspace;
  let state: WorkspaceState;
  let heard: LedgerEvent[];
  let counting: ReturnType<typeof countingPool>;

  const hear = (events: readonly LedgerEvent[]): void => void heard.push(...events);
  const follow = (batch: AppendedBatch): Promise<void> => followBatch(counting.pool, state, batch, hear);

  /** The second replica appends and tells of it. */
  const act = async (count: number): Promise<void> => {
    const [, far] = workspace.replicas;
    const [agentId] = state.agents.keys();
    const init = { agentId: agentId ?? "", actionType: "pay" };
    await Promise.all(Array.from({ length: count }, () => far?.enforcement.intercept(init)));
  };

  beforeEach(async () => {
    told = [];
    heard = [];
    const peers: DecisionPeers = { decide: () => undefined, tell: (_, batch) => void told.push(batch()) };
    workspace = await openWorkspace({ replicas: 3, surroundings: { peers } });
    await workspace.agent();
    const { pool } = workspace.database;
    counting = countingPool(pool);
    state = await coldState(pool);
  });
  afterEach(() => workspace.close());

  for (const seed of [21, 22]) {
    it(`comes to the state that the entries give, whatever is lost on the way (history ${seed}).`, async () => {
      const below = seededBelow(seed);
      const { pool } = workspace.database;
      const history = await startRandomHistory({ ...workspace, replicas: workspace.replicas.slice(1) }, below);
      for (let step = 0; step < STEPS; step++) await history.step();
      for (let burst = 0; burst < BURSTS; burst++) {
        await Promise.all([...Array.from({ length: BURST }, () => history.intercept()), history.step()]);
      }
      for (const batch of told) if (below(10) > 0) await follow(batch);
      const followed = state.seq;
      await catchUp(pool, state, hear);
      expect(followed).to.be.above(BURSTS * BURST);
      // What is new to a state that follows comes from the log once, however often it is told.
      expect(heard.map(({ seq }) => seq)).to.deep.equal(heard.map((_, index) => (heard[0]?.seq ?? 0) + index));
      const folded = await foldedState(pool);
      const asOf = folded.lastAtMs + 500;
      expect(await comparable(pool, state, asOf)).to.deep.equal(await comparable(pool, folded, asOf));
    });
  }

  it("reads nothing of what it is told.", async () => {
    await act(30);
    const before = state.seq;
    for (const batch of told) await follow(batch);
    expect(state.seq).to.equal(before + 30);
    expect(counting.read()).to.equal(0);
    expect(heard).to.have.length(30);
    expect(state.frontier).to.deep.equal((await foldedState(workspace.database.pool)).frontier);
  });

  it("reads what it was not told before it folds what came behind.", async () => {
    await act(5);
    told.length = 0;
    await act(5);
    for (const batch of told) await follow(batch);
    expect(heard.map(({ seq }) => seq)).to.deep.equal(heard.map((_, index) => state.seq - 10 + index));
    expect(counting.read()).to.be.within(5, 10);
  });

  it("changes nothing for what it has folded already.", async () => {
    await act(5);
    for (const batch of told) await follow(batch);
    const { seq, frontier } = state;
    for (const batch of told) await follow(batch);
    expect({ seq: state.seq, frontier: state.frontier }).to.deep.equal({ seq, frontier });
    expect(heard).to.have.length(5);
  });

  it("changes nothing when what it is told does not fit the log.", async () => {
    await act(5);
    const { seq, frontier } = state;
    const [first] = told as [AppendedBatch];
    const failure = await follow({ ...first, frontier: "" }).catch((error: Error) => error.message);
    expect(failure).to.match(/a tree of \d+ leaves has \d+ roots, not 0/);
    expect({ seq: state.seq, frontier: state.frontier, heard }).to.deep.equal({ seq, frontier, heard: [] });
  });
});
