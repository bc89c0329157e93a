import { expect } from "chai";
import fc from "fast-check";
import type { Decision, OrderedSpec } from "../../../src/policy/types.ts";
import type { HistoryEntry } from "../../../src/state/counters/log-history.ts";
import { OrderedSequences } from "../../../src/state/counters/ordered.ts";
import type { Membership } from "../../../src/state/counters/windows.ts";

const AGENTS = ["a", "b", "c", "d"];
const WINDOW_MS = 300;

/** Departments that agents may move between. */
function createMembership() {
  const departments = new Map([
    ["x", new Set(["a", "b"])],
    ["y", new Set(["b", "c"])],
  ]);
  const membership: Membership = {
    agentCount: () => AGENTS.length,
    departmentsOf: (agentId) => [...departments].flatMap(([id, members]) => (members.has(agentId) ? [id] : [])),
    membersOfAny: (ids) => new Set(ids.flatMap((id) => [...(departments.get(id) ?? [])])),
  };
  const toggle = (departmentId: string, agentId: string): void => {
    const members = departments.get(departmentId);
    if (!members?.delete(agentId)) members?.add(agentId);
  };
  return { membership, toggle };
}

function spec(steps: readonly string[], change: Partial<OrderedSpec> = {}): OrderedSpec {
  const whole = { steps, excluded: [], countDecisions: [], windowMs: WINDOW_MS, scope: "agent" as const, ...change };
  return { key: JSON.stringify([whole.steps, whole.countDecisions, whole.scope, ...whole.excluded]), ...whole };
}

const SPECS: readonly OrderedSpec[] = [
  spec(["read", "send"]),
  spec(["read", "*", "send"]),
  spec(["read", "read", "read", "send"], { windowMs: 200 }),
  spec(["read", "re*", "write", "send"], { countDecisions: ["allow", "escalate"] }),
  spec(["read", "write", "send"], { scope: "department" }),
  spec(["read", "write", "send"], { scope: "department", departmentId: "y", windowMs: 150 }),
  spec(["write", "read", "write", "send"], { scope: "workspace" }),
  spec(["*e*", "send"], { excluded: ["write", "re*d"] }),
];

const stepMatches = (pattern: string, type: string): boolean =>
  new RegExp(`^${pattern.replaceAll("*", ".*")}$`).test(type);

/** Tries every way to pick actions in order for the steps but the last, and gives the latest beginning of any. */
function naiveStart(past: readonly HistoryEntry[], steps: readonly string[]): number | undefined {
  const startOf = (at: number, step: number): number | undefined => {
    const starts: number[] = [];
    for (let index = at - 1; index >= 0; index--) {
      const entry = past[index] as HistoryEntry;
      if (!stepMatches(steps[step] as string, entry.actionType)) continue;
      const start = step === 0 ? entry.at : startOf(index, step - 1);
      if (start !== undefined) starts.push(start);
    }
    return starts.length === 0 ? undefined : Math.max(...starts);
  };
  return startOf(past.length, steps.length - 2);
}

function naiveRead(
  past: readonly HistoryEntry[],
  membership: Membership,
  { steps, excluded, scope, departmentId, countDecisions, windowMs }: OrderedSpec,
  agentId: string,
  now: number,
): number | undefined {
  const departmentIds = departmentId === undefined ? membership.departmentsOf(agentId) : [departmentId];
  const isCounted = (entry: HistoryEntry): boolean => {
    if (entry.at <= now - windowMs || excluded.some((each) => stepMatches(each, entry.actionType))) return false;
    if (countDecisions.length > 0 && !countDecisions.includes(entry.decision)) return false;
    if (scope === "workspace") return true;
    if (scope === "agent" || departmentIds.length === 0) return entry.agentId === agentId;
    return membership.membersOfAny(departmentIds).has(entry.agentId);
  };
  return naiveStart(past.filter(isCounted), steps);
}

const entry = fc.record({
  agentId: fc.constantFrom(...AGENTS),
  actionType: fc.constantFrom("read", "write", "send", "other"),
  decision: fc.constantFrom<Decision>("allow", "block", "escalate"),
  /** Often none: entries of one millisecond are told apart by their order alone. */
  step: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 90 })),
});
const move = fc.record({ departmentId: fc.constantFrom("x", "y"), agentId: fc.constantFrom(...AGENTS) });
const stretch = fc.record({
  kept: fc.array(entry, { maxLength: 8 }),
  undone: fc.array(entry, { maxLength: 5 }),
  moves: fc.array(move, { maxLength: 1 }),
});

function createSequences(membership: Membership, specs = SPECS) {
  const sequences = new OrderedSequences(membership);
  sequences.require(specs);
  sequences.replay().finish();
  return sequences;
}

describe("ordered sequences", () => {
  it("find what trying every way finds, through batches that are rolled back and agents that move", () => {
    let found = 0;
    fc.assert(
      fc.property(fc.array(stretch, { maxLength: 6 }), (stretches) => {
        const { membership, toggle } = createMembership();
        const sequences = createSequences(membership);
        const past: HistoryEntry[] = [];
        let now = 10_000;
        const check = (undo?: (() => void)[]): void => {
          for (const each of SPECS) {
            for (const agentId of AGENTS) {
              const want = naiveRead(past, membership, each, agentId, now);
              expect(sequences.read(each, agentId, now, undo), JSON.stringify({ each, agentId })).to.equal(want);
              if (want !== undefined) found += 1;
            }
          }
        };
        for (const { kept, undone, moves } of stretches) {
          const undo: (() => void)[] = [];
          const before = past.length;
          for (const { step: _, ...each } of undone) {
            sequences.record(each.agentId, each.actionType, now, each.decision, undo);
            past.push({ ...each, at: now });
            check(undo);
          }
          for (const rollback of undo.reverse()) rollback();
          past.length = before;
          for (const { step, ...each } of kept) {
            now += step;
            check();
            sequences.record(each.agentId, each.actionType, now, each.decision);
            past.push({ ...each, at: now });
          }
          for (const { departmentId, agentId } of moves) {
            toggle(departmentId, agentId);
            sequences.forgetDepartment(departmentId);
          }
          check();
        }
      }),
      { numRuns: 150 },
    );
    expect(found).to.be.above(1_000);
  });

  it("know the same when they take in the history in pages as when they saw it happen", () => {
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 30 }), fc.integer({ min: 1, max: 9 }), (entries, page) => {
        const { membership } = createMembership();
        const live = createSequences(membership);
        let now = 10_000;
        const past = entries.map(({ step, ...each }): HistoryEntry => {
          now += step;
          return { ...each, at: now };
        });
        for (const { agentId, actionType, at, decision } of past) live.record(agentId, actionType, at, decision);
        const replayed = new OrderedSequences(membership);
        replayed.require(SPECS);
        // One that broke off in the middle is begun again.
        replayed.replay().add(past.slice(0, 3));
        const replay = replayed.replay();
        for (let at = 0; at < past.length; at += page) replay.add(past.slice(at, at + page));
        replay.finish();
        for (const each of SPECS) {
          for (const agentId of AGENTS) {
            expect(replayed.read(each, agentId, now)).to.equal(live.read(each, agentId, now));
          }
        }
      }),
      { numRuns: 150 },
    );
  });

  it("count an action up to the last millisecond of the window", () => {
    const { membership } = createMembership();
    const [readThenSend] = SPECS as [OrderedSpec];
    const sequences = createSequences(membership);
    sequences.record("a", "read", 1_000, "allow");
    expect(sequences.read(readThenSend, "a", 1_000 + WINDOW_MS - 1)).to.equal(1_000);
    expect(sequences.read(readThenSend, "a", 1_000 + WINDOW_MS)).to.equal(undefined);
  });

  it("do not take one action for two steps", () => {
    const { membership } = createMembership();
    const twice = spec(["read", "read", "send"]);
    const sequences = createSequences(membership, [twice]);
    sequences.record("a", "read", 1_000, "allow");
    expect(sequences.read(twice, "a", 1_000)).to.equal(undefined);
    sequences.record("a", "read", 1_000, "allow");
    expect(sequences.read(twice, "a", 1_000)).to.equal(1_000);
  });

  it("wait for history when a sequence is new or its window grows, and not otherwise", () => {
    const { membership } = createMembership();
    const short = spec(["read", "send"]);
    const long = spec(["read", "send"], { windowMs: 60_000 });
    const sequences = new OrderedSequences(membership);
    expect(sequences.isComplete).to.equal(true);
    sequences.require([short]);
    expect(sequences.isComplete).to.equal(false);
    expect(() => sequences.read(short, "a", 0)).to.throw("no history yet");
    sequences.record("a", "read", 1_000, "allow");
    const replay = sequences.replay();
    expect(replay.windowMs).to.equal(WINDOW_MS);
    replay.finish();
    expect(sequences.read(short, "a", 1_000)).to.equal(undefined);
    sequences.require([short, spec(["read", "send"], { windowMs: 100 })]);
    expect(sequences.isComplete).to.equal(true);
    sequences.require([short, long]);
    expect(sequences.isComplete).to.equal(false);
    expect(sequences.replay().windowMs).to.equal(60_000);
    sequences.require([]);
    expect(sequences.isComplete).to.equal(true);
  });
});
