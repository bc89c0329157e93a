import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect } from "chai";
import fc from "fast-check";
import type { CounterSpec, Decision } from "../../../src/policy/types.ts";
import type { HistoryEntry, MissingHistory } from "../../../src/state/counters/log-history.ts";
import { VelocityWindows } from "../../../src/state/counters/windows.ts";
import { AGENTS, counterSpec, DEPARTMENTS, membershipOf, naiveCount, naiveHistory, naiveReset } from "./naive-log.ts";

const SPECS: readonly CounterSpec[] = [
  counterSpec(),
  counterSpec({ windowMs: 300 }),
  counterSpec({ scope: "department" }),
  counterSpec({ scope: "department", departmentId: "y", windowMs: 700 }),
  counterSpec({ scope: "workspace", windowMs: 500 }),
  counterSpec({ scope: "workspace", key: "pay* allow", countDecisions: ["allow"] }),
];

const ENTRY = {
  agentId: fc.constantFrom(...AGENTS),
  principalId: fc.constantFrom(undefined, undefined, ...AGENTS),
  actionType: fc.constantFrom("pay", "pay.send", "read"),
  decision: fc.constantFrom<Decision>("allow", "block", "escalate"),
};
const STEP = fc.oneof(
  { weight: 12, arbitrary: fc.record({ kind: fc.constant("decide"), ...ENTRY }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("catch up"), ...ENTRY }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("roll back"), ...ENTRY }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("move"), ...ENTRY }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("publish"), ...ENTRY }) },
);
const LIFE = fc.array(
  fc.record({
    step: STEP,
    waits: fc.oneof({ weight: 9, arbitrary: fc.nat(60) }, { weight: 1, arbitrary: fc.nat(1500) }),
  }),
  { maxLength: 120 },
);

/** Bounds so small that every window soon holds more than it may keep, and the bounds of the product. */
const BOUNDS = [
  { kept: 1, minKept: 1, page: 1 },
  { kept: 8, minKept: 2, page: 3 },
  { kept: 30, minKept: 5, page: 4 },
  { kept: 524_288, minKept: 4_096, page: 8_192 },
];

/** A workspace that lives: a log on one side, and windows that read it back on the other. */
class Workspace {
  readonly log: HistoryEntry[] = [];
  readonly departments = { ...DEPARTMENTS };
  readonly membership = membershipOf(this.departments);
  readonly windows: VelocityWindows;
  readonly page: number;
  now = 10_000;
  /** Limits that were asked when they have room again, and those for which that was not known. */
  told = 0;
  unknown = 0;
  specs: readonly CounterSpec[] = SPECS;

  constructor({ kept, minKept, page }: (typeof BOUNDS)[number]) {
    this.page = page;
    this.windows = new VelocityWindows(this.membership, "workspace-1", { kept, minKept });
    this.windows.require(this.specs, 0);
  }

  complete(): void {
    const { windows, log, now } = this;
    for (let missing = windows.missing(now, log.length); missing; missing = windows.missing(now, log.length)) {
      windows.load(missing, naiveHistory(log, missing, this.page));
    }
  }

  assertCounts(agentId: string, past = this.log): void {
    for (const spec of this.specs) {
      const { count } = this.windows.read(spec, agentId, this.now);
      expect(count).to.equal(naiveCount(past, spec, this.membership, agentId, this.now));
    }
  }

  /**
   * Compares when limits around the present count have room again with the definition, at that time and a millisecond before. With
   * small bounds, the windows may not know it.
   */
  assertResets(entry: Omit<HistoryEntry, "at">, past = this.log): void {
    const { now, membership, windows } = this;
    for (const agentId of [entry.agentId, ...(entry.principalId === undefined ? [] : [entry.principalId])]) {
      const departmentIds = membership.departmentsOf(agentId);
      // A rule on one department covers no other agent.
      const isCovered = ({ departmentId }: CounterSpec): boolean =>
        departmentId === undefined || departmentIds.includes(departmentId);
      for (const spec of this.specs.filter(isCovered)) {
        const isCounted = spec.countDecisions.length === 0 || spec.countDecisions.includes(entry.decision);
        const { count } = windows.read(spec, agentId, now);
        for (const maxCount of [0, 1, 2, Math.ceil(count / 2), count - 1, count, count + 1]) {
          const own = { ...entry, actionType: "pay", at: now };
          const log = isCounted ? [...past, own] : past;
          const want = naiveReset(log, spec, membership, agentId, { now, maxCount });
          const reset = windows.resetsAt(spec, agentId, now, { maxCount, isCounted });
          if (reset === undefined && this.page < 8_192) this.unknown += want === undefined ? 0 : 1;
          else expect(reset, JSON.stringify([spec, maxCount, count, isCounted])).to.equal(want);
          this.told += 1;
        }
      }
    }
  }

  decide(entry: Omit<HistoryEntry, "at">): void {
    this.complete();
    this.assertCounts(entry.agentId);
    this.assertResets(entry);
    this.append(entry);
  }

  append({ agentId, principalId, actionType, decision }: Omit<HistoryEntry, "at">): void {
    const entry = { agentId, principalId, actionType, decision, at: this.now };
    this.log.push(entry);
    this.windows.record(entry);
  }

  rollBack({ agentId, principalId, actionType, decision }: Omit<HistoryEntry, "at">): void {
    this.complete();
    const undo: (() => void)[] = [];
    const tentative = [...this.log];
    for (const other of [agentId, ...AGENTS]) {
      this.assertCounts(other, tentative);
      this.assertResets({ agentId: other, principalId, actionType, decision }, tentative);
      const entry = { agentId: other, principalId, actionType, decision, at: this.now };
      tentative.push(entry);
      this.windows.record(entry, undo);
    }
    for (const rollback of undo.reverse()) rollback();
    for (const other of AGENTS) this.assertCounts(other);
  }

  move({ agentId }: Omit<HistoryEntry, "at">): void {
    const own = this.departments[agentId] ?? [];
    this.departments[agentId] = own.includes("y") ? own.filter((id) => id !== "y") : [...own, "y"].sort();
    this.windows.forgetDepartment("y");
  }

  publish({ decision }: Omit<HistoryEntry, "at">): void {
    const windowMs = decision === "allow" ? 1_700 : 90;
    this.specs = decision === "block" ? SPECS : [...SPECS, counterSpec({ scope: "workspace", windowMs })];
    this.windows.require(this.specs, this.log.length);
  }
}

const STEPS: Readonly<Record<string, (workspace: Workspace, entry: Omit<HistoryEntry, "at">) => void>> = {
  decide: (workspace, entry) => workspace.decide(entry),
  "catch up": (workspace, entry) => workspace.append(entry),
  "roll back": (workspace, entry) => workspace.rollBack(entry),
  move: (workspace, entry) => workspace.move(entry),
  publish: (workspace, entry) => workspace.publish(entry),
};

/** Bytes of rings that are still referred to. */
function heldBytes(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  return process.memoryUsage().arrayBuffers;
}

describe("velocity windows", () => {
  for (const bounds of BOUNDS) {
    it(`count as the definition does, whatever happens, and tell when a limit has room, with ${bounds.kept} entries kept.`, () => {
      let [told, unknown] = [0, 0];
      fc.assert(
        fc.property(LIFE, (life) => {
          const workspace = new Workspace(bounds);
          for (const { step, waits } of life) {
            workspace.now += waits;
            STEPS[step.kind]?.(workspace, step);
          }
          workspace.complete();
          for (const agentId of AGENTS) workspace.assertCounts(agentId);
          told += workspace.told;
          unknown += workspace.unknown;
        }),
        { numRuns: 300 },
      );
      // Where a page holds most of a window, little is unknown.
      expect(unknown / told).to.be.below(0.5);
    });
  }

  it("read each entry back at most once, page by page, when they hold more than they may keep.", () => {
    const workspace = new Workspace({ kept: 20, minKept: 20, page: 10 });
    workspace.specs = [counterSpec({ scope: "workspace", windowMs: 1_000 })];
    workspace.windows.require(workspace.specs, 0);
    const reads: MissingHistory[] = [];
    for (let count = 0; count < 3_000; count++) {
      workspace.now += 1;
      const { windows, log, now } = workspace;
      for (let missing = windows.missing(now, log.length); missing; missing = windows.missing(now, log.length)) {
        reads.push(missing);
        windows.load(missing, naiveHistory(log, missing, 10));
      }
      workspace.assertCounts("a");
      workspace.append({ agentId: "a", actionType: "pay", decision: "allow" });
    }
    const pages = reads.filter(({ from }) => from !== undefined);
    expect(pages.length).to.be.within(150, 200);
    const starts = pages.map(({ from }) => from as number);
    expect(starts).to.deep.equal(starts.toSorted((one, other) => one - other));
    expect(new Set(starts).size).to.equal(starts.length);
  });

  it("share one read of the log, however many came while nothing was decided.", () => {
    const workspace = new Workspace({ kept: 524_288, minKept: 4_096, page: 8_192 });
    const { windows, log } = workspace;
    workspace.complete();
    const actionTypes = ["pay", "pay.send", "read"];
    for (let count = 0; count < 60; count++) {
      workspace.specs = [...workspace.specs, counterSpec({ scope: "workspace", key: `counter ${count}` })];
      windows.require(workspace.specs, log.length);
      workspace.now += 1;
      workspace.append({ agentId: "a", actionType: actionTypes[count % 3] as string, decision: "allow" });
    }
    const missing = windows.missing(workspace.now, log.length) as MissingHistory;
    expect(missing.before).to.equal(log.length);
    windows.load(missing, naiveHistory(log, missing, 8_192));
    expect(windows.missing(workspace.now, log.length)).to.equal(undefined);
    for (const agentId of AGENTS) workspace.assertCounts(agentId);
  });

  it("keep 25 MB at most, however many actions are in them.", () => {
    const windows = new VelocityWindows(membershipOf(DEPARTMENTS), "workspace-1");
    const specs = [60_000, 70_000, 80_000].map((windowMs) =>
      counterSpec({ scope: "workspace", windowMs: windowMs * 1_000 }),
    );
    windows.require(specs, 0);
    const nothing = { expired: [], entries: [], nextIndex: 0, rest: [], source: "decision_log" } as const;
    windows.load(windows.missing(0, 0) as MissingHistory, nothing);
    const before = heldBytes();
    for (let seq = 0; seq < 2_000_000; seq++) {
      windows.record({ agentId: "a", actionType: "pay", at: seq, decision: "allow" });
      if (seq % 1_000 === 0) windows.settle(seq + 1);
    }
    expect(heldBytes() - before).to.be.below(26_000_000);
    for (const spec of specs) expect(windows.read(spec, "a", 2_000_000).count).to.equal(2_000_001);
  });

  it("throw rather than count when history for the time is missing.", () => {
    const windows = new VelocityWindows(membershipOf(DEPARTMENTS), "workspace-1", { kept: 1, minKept: 1 });
    const spec = counterSpec({ scope: "workspace" });
    windows.require([spec], 5);
    windows.record({ agentId: "b", actionType: "pay", at: 1_400, decision: "allow" });
    expect(() => windows.read(spec, "a", 1_500)).to.throw("no history for this time yet");
    const missing = windows.missing(1_500, 6);
    expect(missing).to.deep.equal({ from: undefined, before: 6, after: 500, windowMs: 1_000 });
    const kind = { agentId: "a", actionType: "pay", decision: "block" } as const;
    windows.load(missing as MissingHistory, {
      expired: [],
      entries: [{ ...kind, at: 600 }],
      nextIndex: 2,
      rest: [
        { ...kind, count: 3 },
        { ...kind, actionType: "read", count: 7 },
      ],
      source: "decision_log",
    });
    expect(windows.read(spec, "a", 1_500)).to.deep.equal({
      group: "workspace-1",
      members: 4,
      count: 5,
      source: "decision_log",
    });
    expect(() => windows.read(spec, "a", 1_600)).to.throw("no history for this time yet");
    expect(windows.missing(1_600, 6)).to.deep.equal({ from: 2, before: 6, after: 600, windowMs: 1_000 });
  });

  it("do not go on when the log does not hold what they counted.", () => {
    const windows = new VelocityWindows(membershipOf(DEPARTMENTS), "workspace-1");
    windows.require([counterSpec()], 9);
    const rest = [{ agentId: "a", actionType: "pay", decision: "allow", count: 4 } as const];
    const nothing = { expired: [], entries: [], rest: [], source: "decision_log" } as const;
    windows.load(windows.missing(1_000, 9) as MissingHistory, { ...nothing, nextIndex: 2, rest });
    const missing = windows.missing(1_000, 9) as MissingHistory;
    expect(() => windows.load(missing, { ...nothing, nextIndex: 9 })).to.throw("4 actions more");
  });

  it("say that history came from the mirror as long as some of it may count.", () => {
    const windows = new VelocityWindows(membershipOf(DEPARTMENTS), "workspace-1");
    windows.require([counterSpec()], 1);
    const entries = [{ at: 900, agentId: "a", actionType: "pay", decision: "allow" } as const];
    const history = { expired: [], entries, nextIndex: 1, rest: [], source: "mirror" } as const;
    windows.load(windows.missing(1_000, 1) as MissingHistory, history);
    expect(windows.read(counterSpec(), "a", 1_000)).to.deep.equal({
      group: "a",
      members: 1,
      count: 2,
      source: "mirror",
    });
    expect(windows.read(counterSpec(), "a", 1_999).source).to.equal("mirror");
    expect(windows.read(counterSpec(), "a", 2_000).source).to.equal("decision_log");
  });

  it("count an action for the agent and for its principal, and once in a group with both.", () => {
    const workspace = new Workspace({ kept: 8, minKept: 8, page: 8 });
    const ofDepartment = counterSpec({ scope: "department" });
    const ofWorkspace = counterSpec({ scope: "workspace", windowMs: 500 });
    const countsOf = (spec: CounterSpec) =>
      AGENTS.map((agentId) => workspace.windows.read(spec, agentId, workspace.now).count - 1);
    workspace.complete();
    for (const spec of SPECS) workspace.windows.read(spec, "b", workspace.now);
    // `a` is in x, `b` in x and y, `c` in y, `d` in none.
    workspace.append({ agentId: "a", principalId: "b", actionType: "pay", decision: "allow" });
    workspace.append({ agentId: "d", principalId: "c", actionType: "pay", decision: "allow" });
    workspace.append({ agentId: "c", principalId: "c", actionType: "pay", decision: "allow" });
    expect(countsOf(counterSpec())).to.deep.equal([1, 1, 2, 1]);
    expect(countsOf(ofDepartment)).to.deep.equal([1, 3, 3, 1]);
    expect(countsOf(ofWorkspace)).to.deep.equal([3, 3, 3, 3]);
    workspace.now += 2_000;
    for (const spec of [counterSpec(), ofDepartment, ofWorkspace]) expect(countsOf(spec)).to.deep.equal([0, 0, 0, 0]);
  });

  it("name the group and its members.", () => {
    const workspace = new Workspace({ kept: 8, minKept: 8, page: 8 });
    workspace.complete();
    const group = (change: Partial<CounterSpec>, agentId: string) => {
      const { group, members } = workspace.windows.read(counterSpec(change), agentId, workspace.now);
      return { group, members };
    };
    expect(group({}, "a")).to.deep.equal({ group: "a", members: 1 });
    expect(group({ scope: "department" }, "b")).to.deep.equal({ group: "x+y", members: 3 });
    expect(group({ scope: "department", departmentId: "y", windowMs: 700 }, "b")).to.deep.equal({
      group: "y",
      members: 2,
    });
    expect(group({ scope: "department" }, "d")).to.deep.equal({ group: "d", members: 1 });
  });
});
