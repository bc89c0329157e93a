import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Pool } from "pg";
import { Decision, OutcomeStatus } from "../../gen/agentcontrol/v1/resources_pb.js";
import { LogFeed } from "../../src/log/log-feed.ts";
import { type DecisionRow, watchDecisions, watchFollowed } from "../../src/registry/decisions.ts";
import { until } from "../log/gate.ts";
import { actionRule, openWorkspace, type Replica, reasonOf, type TestWorkspace } from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";

type Filter = Parameters<typeof watchDecisions>[1];
const CALLERS = 4;
const EACH = 60;

describe("watching decisions", () => {
  let workspace: TestWorkspace;
  let agents: string[];
  let feeds: Map<Replica, LogFeed<DecisionRow>>;

  beforeEach("opens two replicas with two agents, one kind of action blocked", async () => {
    workspace = await openWorkspace({ replicas: 2 });
    agents = await workspace.newAgents(2);
    await workspace.mandate([actionRule(Decision.BLOCK, "danger")]);
    feeds = new Map(workspace.replicas.map((replica) => [replica, new LogFeed(replica.log, { isNotified: false })]));
  });
  afterEach(() => workspace.close());

  const first = (): Replica => workspace.replicas[0] as Replica;
  const contextOf = (replica: Replica, signal: AbortSignal, heartbeatMs = 20, pool = replica.database.pool) => ({
    pool,
    log: replica.log,
    feed: feeds.get(replica) as LogFeed<DecisionRow>,
    heartbeatMs,
    signal,
  });
  const attempt = (replica: Replica, agentId: string, actionType: string) =>
    replica.enforcement.intercept({ agentId, actionType });

  /** The ids that the log has, of the decisions that a filter lets through, in its order. */
  async function fromLog({ agentId, decision }: Filter): Promise<string[]> {
    const { rows } = await workspace.database.pool.query<{ id: string; agent: string; body: string }>(
      "select entry_id as id, agent_id as agent, body from ledger_entry where kind = 0 order by seq",
    );
    const isMeant = (row: { agent: string; body: string }): boolean =>
      (agentId === undefined || row.agent === agentId) &&
      (decision === undefined || JSON.parse(row.body).decision === decision);
    return rows.filter(isMeant).map(({ id }) => id);
  }

  it("leaves the event loop its turns, however many begin together and take a while with each decision.", async () => {
    const [agentId = ""] = agents;
    await Promise.all(Array.from({ length: 40 }, () => attempt(first(), agentId, "read")));
    const leaving = new AbortController();
    let turns = 0;
    const count = (): void => {
      turns += 1;
      if (!leaving.signal.aborted) setImmediate(count);
    };
    count();
    let [shown, most, shownBefore, turnsBefore] = [0, 0, 0, 0];
    const watch = async (): Promise<void> => {
      let left = 40;
      for await (const next of watchDecisions(contextOf(first(), leaving.signal, 60_000), {}, "0")) {
        if ("isBeat" in next) continue;
        for (const until = performance.now() + 0.5; performance.now() < until; );
        if (turns !== turnsBefore) [shownBefore, turnsBefore] = [shown, turns];
        shown += 1;
        most = Math.max(most, shown - shownBefore);
        if (--left === 0) return;
      }
    };
    await Promise.all(Array.from({ length: 30 }, watch));
    leaving.abort();
    expect(shown).to.equal(30 * 40);
    // Half a millisecond each.
    expect(most).to.be.lessThan(60);
  });

  it("resumed from a cursor again and again on two replicas, loses nothing and doubles nothing, whatever the filter.", async () => {
    const below = seededBelow(7);
    const replicaOf = (index: number): Replica => workspace.replicas[index % 2] as Replica;
    let isOver = false;
    const busy = async (caller: number): Promise<void> => {
      for (let count = 0; count < EACH; count++) {
        const agentId = agents[below(2)] as string;
        await attempt(replicaOf(caller), agentId, below(3) === 0 ? "danger" : "read");
      }
    };
    const follow = async (filter: Filter): Promise<string[]> => {
      const seen: string[] = [];
      for (let [turn, cursor, isDone] = [0, "0", false]; !isDone; turn++) {
        const leaving = new AbortController();
        let left = 1 + below(20);
        for await (const next of watchDecisions(contextOf(replicaOf(turn), leaving.signal), filter, cursor)) {
          if ("isBeat" in next) isDone = isOver && seen.length >= (await fromLog(filter)).length;
          else seen.push(next.body.decision_id);
          cursor = String("isBeat" in next ? next.seq : next.body.seq);
          if (isDone || --left <= 0) break;
        }
      }
      return seen;
    };
    const filters: Filter[] = [
      {},
      { decision: "block" },
      { agentId: agents[0] },
      { agentId: agents[1], decision: "allow" },
    ];
    const following = Promise.all(filters.map(follow));
    await Promise.all(Array.from({ length: CALLERS }, (_, caller) => busy(caller)));
    isOver = true;
    const seen = await following;
    for (const [index, filter] of filters.entries()) expect(seen[index]).to.deep.equal(await fromLog(filter));
    expect(seen[0]).to.have.length(CALLERS * EACH);
    expect(workspace.replicas.map(({ log }) => log.listeners)).to.deep.equal([0, 0]);
  });

  it("shows within a second what another replica decides.", async () => {
    const leaving = new AbortController();
    const watching = watchDecisions(contextOf(first(), leaving.signal, 60_000), {}, "");
    await watching.next();
    const { decisionId } = await attempt(workspace.replicas[1] as Replica, agents[0] as string, "read");
    const since = performance.now();
    expect((await watching.next()).value).to.have.nested.property("body.decision_id", decisionId);
    expect(performance.now() - since).to.be.below(2_000);
    await watching.return(undefined);
  });

  it("begins with a heartbeat whose cursor is the end of the log, so that nothing after it is missed.", async () => {
    await attempt(first(), agents[0] as string, "read");
    const leaving = new AbortController();
    const watching = watchDecisions(contextOf(first(), leaving.signal, 60_000), {}, "");
    const { value: beat } = await watching.next();
    await watching.return(undefined);
    const { decisionId } = await attempt(first(), agents[0] as string, "read");
    const resumed = watchDecisions(contextOf(first(), leaving.signal), {}, String((beat as { seq: number }).seq));
    expect((await resumed.next()).value).to.have.nested.property("body.decision_id", decisionId);
    await resumed.return(undefined);
  });

  it("shows by heartbeats how far it has searched for rare decisions.", async () => {
    for (let count = 0; count < 5; count++) await attempt(first(), agents[0] as string, "read");
    const { decisionId } = await attempt(first(), agents[1] as string, "read");
    const feed = new LogFeed<DecisionRow>(first().log, { isNotified: false, stretch: 2 });
    const context = { ...contextOf(first(), new AbortController().signal, 0), feed };
    const cursors: number[] = [];
    for await (const next of watchDecisions(context, { agentId: agents[1] }, "0")) {
      if (!("isBeat" in next)) {
        expect(next.body.decision_id).to.equal(decisionId);
        break;
      }
      cursors.push(next.seq);
    }
    expect(cursors).to.deep.equal([2, 4, 6, 8].slice(0, cursors.length)).and.to.have.length.above(2);
  });

  it("of many watchers uses one database connection at a time, and one query for all that wait at the same place.", async () => {
    let [inFlight, most, queries] = [0, 0, 0];
    const { pool } = first().database;
    const counted = {
      async query(...given: [never]) {
        inFlight += 1;
        queries += 1;
        most = Math.max(most, inFlight);
        try {
          return await (pool.query(...given) as unknown as Promise<unknown>);
        } finally {
          inFlight -= 1;
        }
      },
    } as unknown as Pool;
    const leaving = new AbortController();
    const seen = Array.from({ length: 50 }, () => 0);
    const filters: Filter[] = [{}, { agentId: agents[0] }];
    const watching = seen.map(async (_, index) => {
      const context = contextOf(first(), leaving.signal, 60_000, counted);
      for await (const next of watchDecisions(context, filters[index % 2] as Filter, "")) {
        seen[index] = (seen[index] ?? 0) + 1;
        if (!("isBeat" in next) && seen[index] === 11) return;
      }
    });
    await until(() => seen.every((count) => count === 1));
    for (let count = 0; count < 10; count++) await attempt(first(), agents[0] as string, "read");
    await Promise.all(watching);
    expect(most).to.equal(1);
    expect(queries).to.be.at.most(2 * 10 * 2);
  });

  it("a reader that stops reading is not waited for, and reads on where it was.", async () => {
    const leaving = new AbortController();
    const watching = watchDecisions(contextOf(first(), leaving.signal), {}, "0");
    const made = [await attempt(first(), agents[0] as string, "read")];
    await watching.next();
    for (let count = 0; count < 1_200; count += 100) {
      made.push(
        ...(await Promise.all(Array.from({ length: 100 }, () => attempt(first(), agents[0] as string, "read")))),
      );
    }
    for (let count = 1; count < made.length; count++)
      expect((await watching.next()).value).to.have.nested.property("body.type", "decision");
    expect((await watching.next()).value).to.have.property("isBeat");
    await watching.return(undefined);
  });

  it("refuses a cursor that no stream gave, or beyond the end of the log.", async () => {
    const { signal } = new AbortController();
    for (const cursor of ["-1", "x", "1.5", "1".repeat(16), "1000"]) {
      const watching = watchDecisions(contextOf(first(), signal), {}, cursor);
      expect(await reasonOf(watching.next())).to.equal("INVALID_FIELD");
    }
    expect(first().log.listeners).to.equal(0);
  });

  it("shows claims and outcomes among the decisions to those that ask, in the order of the log.", async () => {
    const [agentId, other] = agents as [string, string];
    const cursor = String((await first().log.caughtUp()).seq - 1);
    const { decisionId } = await attempt(first(), agentId, "read");
    await attempt(first(), agentId, "danger");
    await first().enforcement.claimDecision({ decisionId, claimId: randomUUID() });
    const report = { decisionId, status: OutcomeStatus.SUCCEEDED };
    await (workspace.replicas[1] as Replica).enforcement.reportOutcome(report);
    const leaving = new AbortController();
    const shown = async (filter: Filter): Promise<string[]> => {
      const seen: string[] = [];
      for await (const next of watchFollowed(contextOf(first(), leaving.signal), filter, cursor)) {
        if ("isBeat" in next) break;
        seen.push("type" in next ? next.type : next.body.decision);
      }
      return seen;
    };
    expect(await shown({})).to.deep.equal(["allow", "block", "claim", "outcome"]);
    expect(await shown({ agentId })).to.deep.equal(["allow", "block", "claim", "outcome"]);
    expect(await shown({ decision: "allow" })).to.deep.equal(["allow", "claim", "outcome"]);
    expect(await shown({ decision: "block" })).to.deep.equal(["block"]);
    expect(await shown({ agentId: other })).to.deep.equal([]);
  });
});
