import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { Scope } from "../../../gen/agentcontrol/v1/resources_pb.js";
import {
  completeWindows,
  type HistoryCount,
  type HistoryEntry,
  loadHistory,
} from "../../../src/state/counters/log-history.ts";
import { VelocityWindows } from "../../../src/state/counters/windows.ts";
import { coldState } from "../../log/comparable.ts";
import { decisionsOf, readLog } from "../../log/stored-log.ts";
import { openWorkspace, type TestWorkspace, velocityRule } from "../../support/harness.ts";
import { seededBelow } from "../../support/seeded-below.ts";
import { counterSpec, naiveCount } from "./naive-log.ts";

const ACTIONS = 160;
const ACTION_TYPES = ["pay", "pay.send", "read"];

/** An entry as the log stores it; null for one that is no decision. */
type Stored = HistoryEntry | null;

describe("the history of windows", () => {
  let workspace: TestWorkspace;
  let agentIds: string[];
  let stored: Stored[];

  before(async () => {
    workspace = await openWorkspace();
    agentIds = [await workspace.agent(), await workspace.agent(), await workspace.agent()];
    await workspace.department(...agentIds.slice(0, 2));
    const [grantorAgentId = "", ...delegates] = agentIds;
    for (const granteeAgentId of delegates) {
      await workspace.authority.createGrant({ grantorAgentId, granteeAgentId, actionTypes: ["pay*"] });
    }
    await workspace.mandate([
      velocityRule(60, { scope: Scope.WORKSPACE, windowSeconds: 1n }),
      velocityRule(60, { scope: Scope.DEPARTMENT, windowSeconds: 3_600n }),
    ]);
    const below = seededBelow(7);
    for (let count = 0; count < ACTIONS; count++) {
      const actionType = ACTION_TYPES[below(3)] as string;
      const agentId = agentIds[below(3)] as string;
      // Under a grant, or with a claim that no grant bears out.
      const under = below(3) === 0 ? { onBehalfOf: agentIds[below(2)] as string } : {};
      await workspace.intercept({ agentId, actionType, ...under });
      if (below(4) === 0) await delay(below(30));
      if (below(20) === 0) await workspace.agent();
    }
    const log = await readLog(workspace.url);
    const decisions = new Map(decisionsOf(log).map((decision) => [decision.seq, decision]));
    stored = log.entries.map(({ seq, atMs }) => {
      const found = decisions.get(seq);
      if (found === undefined) return null;
      const { action, decision, decision_path, on_behalf_of } = found;
      const principalId = decision_path === "delegation" ? undefined : on_behalf_of;
      return { at: atMs, agentId: action.agent_id, principalId, actionType: action.action_type, decision };
    });
  });
  after(() => workspace.close());

  const between = (from: number, before: number): HistoryEntry[] =>
    stored.slice(from, before).filter((entry) => entry !== null);
  const textOf = ({ agentId, principalId, actionType, decision }: Omit<HistoryCount, "count">): string =>
    `${agentId} ${principalId} ${actionType} ${decision}`;
  const tally = (entries: readonly HistoryEntry[]): Map<string, number> =>
    new Map([...Map.groupBy(entries, textOf)].map(([kind, those]) => [kind, those.length]));
  const tallied = (counts: readonly HistoryCount[]): Map<string, number> =>
    new Map(counts.map((each) => [textOf(each), each.count]));
  const firstAfter = (after: number, before: number): number => {
    const first = stored.findIndex((entry, index) => index < before && entry !== null && entry.at > after);
    return first < 0 ? before : first;
  };

  it("is read as it was written, from any place and in pages of any size.", async () => {
    const { pool } = workspace.database;
    const below = seededBelow(3);
    const end = stored.length;
    for (let round = 0; round < 200; round++) {
      const before = below(end + 1);
      const page = 1 + below(40);
      const after = between(0, end)[below(ACTIONS)]?.at ?? 0;
      const from = round % 2 === 0 ? undefined : below(before + 1);
      const history = await loadHistory(pool, "default", { from, before, after, windowMs: 1_000 }, page);
      const first = Math.max(from ?? 0, firstAfter(after, before));
      const later = between(first, before);
      expect(history.entries).to.deep.equal(later.slice(0, page));
      expect(tallied(history.expired)).to.deep.equal(tally(from === undefined ? [] : between(from, first)));
      expect(between(history.nextIndex, before)).to.deep.equal(later.slice(page));
      expect(tallied(history.rest)).to.deep.equal(tally(from === undefined ? later.slice(page) : []));
    }
  });

  it("gives windows that keep next to nothing the counts of the log at any time.", async () => {
    const { pool } = workspace.database;
    const entries = between(0, stored.length);
    const [start, end] = [entries[0]?.at ?? 0, entries.at(-1)?.at ?? 0];
    const specs = [
      counterSpec({ scope: "workspace", windowMs: end - start }),
      counterSpec({ scope: "department", windowMs: Math.floor((end - start) / 2) }),
      counterSpec({ windowMs: 90 }),
    ];
    const state = await coldState(pool);
    const windows = new VelocityWindows(state.departments, "default", { kept: 3, minKept: 3 });
    windows.require(specs, stored.length);
    const load = async (now: number): Promise<void> => {
      for (let missing = windows.missing(now, stored.length); missing; missing = windows.missing(now, stored.length)) {
        windows.load(missing, await loadHistory(pool, "default", missing, 4));
      }
    };
    for (let now = end; now <= end + (end - start) + 20; now += 37) {
      await load(now);
      for (const agentId of agentIds) {
        for (const spec of specs) {
          const want = naiveCount(entries, spec, state.departments, agentId, now);
          expect(windows.read(spec, agentId, now).count).to.equal(want);
        }
      }
    }
  });

  it("is complete as of the time that the clock then tells.", async () => {
    const { pool } = workspace.database;
    const state = await coldState(pool);
    let now = state.lastAtMs;
    const told = await completeWindows(pool, state, { now: () => (now += 50) });
    expect(told).to.equal(now);
    for (const spec of state.policies.counters())
      expect(state.windows.read(spec, agentIds[0] as string, told)).to.be.ok;
  });
});
