import { expect } from "chai";
import fc from "fast-check";
import type { CounterSpec, Decision } from "../../src/policy/index.ts";
import { createVelocityJournal, createVelocityWindows, type Membership } from "../../src/velocity/index.ts";

interface Past {
  readonly agentId: string;
  readonly actionType: string;
  readonly decision: Decision;
  readonly at: number;
}

const AGENTS = ["a", "b", "c", "d"];
const DEPARTMENTS: Readonly<Record<string, readonly string[]>> = { a: ["x"], b: ["x", "y"], c: ["y"], d: [] };

const membership: Membership = {
  agentCount: () => AGENTS.length,
  departmentsOf: (agentId) => DEPARTMENTS[agentId] ?? [],
  membersOfAny: (ids) =>
    new Set(AGENTS.filter((agentId) => (DEPARTMENTS[agentId] ?? []).some((department) => ids.includes(department)))),
};

function spec(change: Partial<CounterSpec>): CounterSpec {
  return { key: "pay*", patterns: ["pay*"], countDecisions: [], windowMs: 1000, scope: "agent", ...change };
}

/** Counts straight from the definition: every matching attempt of the group later than now minus the window, plus this one. */
function naiveCount(past: readonly Past[], counter: CounterSpec, agentId: string, now: number): number {
  const own = membership.departmentsOf(agentId);
  const departments = counter.departmentId === undefined ? own : [counter.departmentId];
  const isMember = (other: string): boolean => {
    if (counter.scope === "workspace") return true;
    if (counter.scope === "agent" || departments.length === 0) return other === agentId;
    return membership.membersOfAny(departments).has(other);
  };
  const counted = past.filter(
    (entry) =>
      isMember(entry.agentId) &&
      entry.actionType.startsWith("pay") &&
      entry.at > now - counter.windowMs &&
      (counter.countDecisions.length === 0 || counter.countDecisions.includes(entry.decision)),
  );
  return counted.length + 1;
}

const specs: readonly CounterSpec[] = [
  spec({}),
  spec({ windowMs: 300 }),
  spec({ scope: "department" }),
  spec({ scope: "department", departmentId: "y", windowMs: 700 }),
  spec({ scope: "workspace", windowMs: 500 }),
  spec({ scope: "workspace", key: "pay* allow", countDecisions: ["allow"] }),
];

const pastArbitrary = fc.array(
  fc.record({
    agentId: fc.constantFrom(...AGENTS),
    actionType: fc.constantFrom("pay", "pay.send", "read"),
    decision: fc.constantFrom<Decision>("allow", "block", "escalate"),
    step: fc.integer({ min: 0, max: 120 }),
  }),
  { maxLength: 60 },
);

function createWindows() {
  const windows = createVelocityWindows(membership, "workspace-1");
  windows.require(specs, 0);
  const missing = windows.missing();
  if (missing !== undefined) windows.load(missing, []);
  return windows;
}

describe("velocity windows", () => {
  it("count as the definition does, for every scope and window", () => {
    fc.assert(
      fc.property(pastArbitrary, (steps) => {
        const windows = createWindows();
        const past: Past[] = [];
        let now = 10_000;
        for (const { step, ...entry } of steps) {
          now += step;
          for (const counter of specs) {
            expect(windows.read(counter, entry.agentId, now).count).to.equal(
              naiveCount(past, counter, entry.agentId, now),
            );
          }
          past.push({ ...entry, at: now });
          windows.record(entry.agentId, entry.actionType, now, entry.decision);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("count the same after a batch was taken back", () => {
    fc.assert(
      fc.property(pastArbitrary, pastArbitrary, (kept, undone) => {
        const windows = createWindows();
        const past: Past[] = [];
        let now = 10_000;
        for (const { step, ...entry } of kept) {
          now += step;
          past.push({ ...entry, at: now });
          windows.record(entry.agentId, entry.actionType, now, entry.decision);
        }
        const journal = createVelocityJournal();
        for (const entry of undone) {
          for (const counter of specs) windows.read(counter, entry.agentId, now, journal);
          windows.record(entry.agentId, entry.actionType, now, entry.decision, journal);
        }
        windows.undo(journal);
        for (const counter of specs) {
          for (const agentId of AGENTS) {
            expect(windows.read(counter, agentId, now).count).to.equal(naiveCount(past, counter, agentId, now));
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  it("take in history that was recorded before the counter was asked for", () => {
    const windows = createVelocityWindows(membership, "workspace-1");
    windows.require([spec({ scope: "workspace" })], 5);
    windows.record("b", "pay", 1_400, "allow");
    const missing = windows.missing();
    expect(missing).to.deep.equal({ before: 5, windowMs: 1000 });
    expect(() => windows.read(spec({ scope: "workspace" }), "a", 1_500)).to.throw("no history yet");
    if (missing === undefined) return;
    windows.load(missing, [
      { agentId: "a", actionType: "pay", decision: "block", times: Float64Array.of(100, 600, 900) },
      { agentId: "a", actionType: "read", decision: "allow", times: Float64Array.of(1_000) },
    ]);
    expect(windows.read(spec({ scope: "workspace" }), "a", 1_500)).to.deep.equal({
      group: "workspace-1",
      members: 4,
      count: 4,
      source: "decision_log",
    });
    expect(windows.missing()).to.equal(undefined);
  });

  it("ask for history again when a longer window over the same actions is required", () => {
    const windows = createWindows();
    windows.require([...specs, spec({ windowMs: 60_000 })], 9);
    expect(windows.missing()).to.deep.equal({ before: 9, windowMs: 60_000 });
  });

  it("name the group and its members", () => {
    const windows = createWindows();
    const group = (change: Partial<CounterSpec>, agentId: string) => {
      const { group, members } = windows.read(spec(change), agentId, 1_000);
      return { group, members };
    };
    expect(group({}, "a")).to.deep.equal({ group: "a", members: 1 });
    expect(group({ scope: "department" }, "b")).to.deep.equal({ group: "x+y", members: 3 });
    expect(group({ scope: "department", departmentId: "y" }, "b")).to.deep.equal({ group: "y", members: 2 });
    expect(group({ scope: "department" }, "d")).to.deep.equal({ group: "d", members: 1 });
  });
});
