import { expect } from "chai";
import fc from "fast-check";
import type { BudgetWindow } from "../../../src/policy/budget.ts";
import { BudgetPots } from "../../../src/state/counters/budget-pots.ts";
import { AGENTS, DEPARTMENTS, membershipOf } from "./naive-log.ts";
import { budgetOf, type LoggedAmount, naiveAmounts, naivePotResetsAt, naiveTotal } from "./naive-pots.ts";

const BUDGETS: readonly BudgetWindow[] = [
  budgetOf("p"),
  budgetOf("p", {}, 300),
  budgetOf("q", { scope: "department" }),
  budgetOf("r", { scope: "department", departmentId: "y" }, 700),
  budgetOf("s", { scope: "workspace" }, 500),
];
/** In force from time to time. */
const LATER = budgetOf("t", { scope: "workspace" }, 1_700);

/** Millionths around the bounds of what one number holds exactly. */
const MILLIONTHS = fc.oneof(
  fc.constantFrom(0, 1, 999_999, 1_000_000, 999_999_999_000_000, 123_456_789_012_345),
  fc.nat(50_000_000),
);
const PAYMENT = {
  agentId: fc.constantFrom(...AGENTS),
  principalId: fc.constantFrom(undefined, undefined, ...AGENTS),
  millionths: MILLIONTHS,
  pots: fc.subarray(["p", "q", "r", "s", "t"]),
};
const STEP = fc.oneof(
  { weight: 12, arbitrary: fc.record({ kind: fc.constant("pay"), ...PAYMENT }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("settle"), ...PAYMENT }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("catch up"), ...PAYMENT }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("roll back"), ...PAYMENT }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("move"), ...PAYMENT }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("publish"), ...PAYMENT }) },
);
const LIFE = fc.array(
  fc.record({
    step: STEP,
    waits: fc.oneof(
      { weight: 6, arbitrary: fc.nat(60) },
      { weight: 3, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.nat(1_500) },
    ),
  }),
  { maxLength: 60 },
);

/** A payment of a step. */
interface Payment {
  readonly agentId: string;
  readonly principalId: string | undefined;
  readonly millionths: number;
  readonly pots: readonly string[];
}

/** Bounds so small that every window soon holds more than it may keep, and the bounds of the product. */
const BOUNDS = [
  { kept: 1, minKept: 1, page: 1 },
  { kept: 8, minKept: 2, page: 3 },
  { kept: 30, minKept: 5, page: 4 },
  { kept: 524_288, minKept: 4_096, page: 4_096 },
];

/** A workspace that lives: amounts in a log on one side, and pots that read them back on the other. */
class Workspace {
  log: LoggedAmount[] = [];
  lastAt = 0;
  readonly departments = { ...DEPARTMENTS };
  readonly membership = membershipOf(this.departments);
  readonly pots: BudgetPots;
  readonly page: number;
  now = 10_000;
  budgets: readonly BudgetWindow[] = BUDGETS;

  constructor({ kept, minKept, page }: (typeof BOUNDS)[number]) {
    this.page = page;
    this.pots = new BudgetPots(this.membership, "workspace-1", { kept, minKept });
    this.pots.require(this.budgets);
  }

  get inForce(): readonly string[] {
    return this.budgets.map(({ pot }) => pot.key);
  }

  complete(): void {
    for (let missing = this.pots.missing(this.now); missing; missing = this.pots.missing(this.now)) {
      this.pots.load(missing, naiveAmounts(this.log, missing, this.lastAt, this.page));
    }
    expect(this.pots.isReady(this.now)).to.equal(true);
  }

  assertTotals(agentId: string): void {
    for (const budget of this.budgets) {
      const { reserved, captured } = this.pots.read(budget, agentId, this.now);
      const wanted = naiveTotal(this.log, budget, this.membership, agentId, this.now);
      expect({ reserved, captured }).to.deep.equal(wanted);
      this.assertReset(budget, agentId, wanted.reserved + wanted.captured);
    }
  }

  /** Asserts when a part of a total is left. A window that holds few amounts may not know, but never tells another time. */
  assertReset(budget: BudgetWindow, agentId: string, total: bigint): void {
    for (const most of [0n, total / 3n, total - 1n, total]) {
      const at = this.pots.resetsAt(budget, agentId, this.now, most);
      const wanted =
        most < 0n ? undefined : naivePotResetsAt(this.log, budget, this.membership, agentId, this.now, most);
      if (at !== undefined || this.page === 4_096) expect(at).to.equal(wanted);
    }
  }

  pay(payment: Payment): void {
    this.complete();
    this.assertTotals(payment.agentId);
    this.append(payment);
    this.assertTotals(payment.principalId ?? payment.agentId);
  }

  append({ agentId, principalId, millionths, pots }: Payment, undo?: (() => void)[]): void {
    const reserved = pots.filter((pot) => this.inForce.includes(pot));
    for (const pot of reserved) {
      this.log.push({ pot, agentId, principalId, at: this.now, reserved: millionths, captured: 0 });
    }
    this.lastAt = this.now;
    const reservations = reserved.map((pot) => ({ pot, millionths }));
    this.pots.record(reservations, { agentId, principalId }, this.now, undo);
  }

  /** An outcome of an action of the log, whose amount it captures in full or in part, overdraws or releases. */
  settle({ millionths, pots }: Payment, undo?: (() => void)[]): void {
    const open = this.log.filter(({ reserved }) => reserved > 0);
    const amount = open[millionths % Math.max(1, open.length)];
    if (amount === undefined) return;
    const captured = [0, amount.reserved, Math.floor(amount.reserved / 3), millionths][pots.length % 4] as number;
    const { pot, agentId, principalId, at, reserved } = amount;
    this.log = this.log.map((each) => (each === amount ? { ...each, reserved: 0, captured } : each));
    this.pots.settle([{ pot, reserved: -reserved, captured }], { agentId, principalId }, at, undo);
  }

  rollBack(payment: Payment): void {
    this.complete();
    const [before, lastAt] = [[...this.log], this.lastAt];
    const undo: (() => void)[] = [];
    for (const agentId of AGENTS) {
      this.append({ ...payment, agentId }, undo);
      this.settle(payment, undo);
      this.assertTotals(agentId);
    }
    for (const step of undo.reverse()) step();
    [this.log, this.lastAt] = [before, lastAt];
    for (const agentId of AGENTS) this.assertTotals(agentId);
  }

  move({ agentId }: Payment): void {
    const own = this.departments[agentId] ?? [];
    this.departments[agentId] = own.includes("y") ? own.filter((id) => id !== "y") : [...own, "y"].sort();
    this.pots.forgetDepartment("y");
  }

  publish({ millionths }: Payment): void {
    this.budgets = millionths % 2 === 0 ? BUDGETS : [...BUDGETS, LATER];
    this.pots.require(this.budgets);
  }
}

const STEPS: Readonly<Record<string, (workspace: Workspace, payment: Payment) => void>> = {
  pay: (workspace, payment) => workspace.pay(payment),
  settle: (workspace, payment) => {
    workspace.complete();
    workspace.settle(payment);
    workspace.assertTotals(payment.agentId);
  },
  "catch up": (workspace, payment) => {
    workspace.settle(payment);
    workspace.append(payment);
    workspace.pots.bound();
  },
  "roll back": (workspace, payment) => workspace.rollBack(payment),
  move: (workspace, payment) => workspace.move(payment),
  publish: (workspace, payment) => workspace.publish(payment),
};

const HISTORIES = Number(process.env.HISTORIES ?? 5_000);

describe("pots of budgets", () => {
  for (const bounds of BOUNDS) {
    it(`add as the definition does, whatever happens, while they keep ${bounds.kept} amounts.`, () => {
      fc.assert(
        fc.property(LIFE, (life) => {
          const workspace = new Workspace(bounds);
          for (const { step, waits } of life) {
            workspace.now += waits;
            STEPS[step.kind]?.(workspace, step);
          }
          workspace.complete();
          for (const agentId of AGENTS) workspace.assertTotals(agentId);
        }),
        { numRuns: Math.ceil(HISTORIES / BOUNDS.length) },
      );
    }).timeout(600_000);
  }

  it("tell the time from which a part of them is left over all that memory holds, beyond the numbers of a double.", () => {
    const pots = new BudgetPots(membershipOf(DEPARTMENTS), "workspace-1");
    const budget = budgetOf("p", { scope: "workspace" }, 1_000_000);
    pots.require([budget]);
    const missing = pots.missing(0);
    if (missing !== undefined) pots.load(missing, { oldest: [], left: undefined, rest: [], newest: [] });
    const most = 999_999_999_000_000;
    for (let at = 1; at <= 100; at++) pots.record([{ pot: "p", millionths: most }], { agentId: "a" }, at);
    for (const kept of [0, 1, 50, 99]) {
      const at = pots.resetsAt(budget, "a", 100, BigInt(kept) * BigInt(most));
      expect(at).to.equal(100 - kept + 1_000_000);
      expect(pots.resetsAt(budget, "a", 100, BigInt(kept) * BigInt(most) + 1n)).to.equal(at);
      expect(pots.resetsAt(budget, "a", 100, BigInt(kept) * BigInt(most) - 1n)).to.equal(
        kept === 0 ? undefined : 100 - kept + 1 + 1_000_000,
      );
    }
    expect(pots.resetsAt(budget, "a", 100, 100n * BigInt(most))).to.equal(100);
  });

  it("tell no time where they would look at too many amounts of others.", () => {
    const pots = new BudgetPots(membershipOf(DEPARTMENTS), "workspace-1");
    pots.require([budgetOf("p", {}, 1_000_000)]);
    const missing = pots.missing(0);
    if (missing !== undefined) pots.load(missing, { oldest: [], left: undefined, rest: [], newest: [] });
    const pay = (agentId: string, count: number): void => {
      for (let each = 0; each < count; each++) pots.record([{ pot: "p", millionths: 1 }], { agentId }, 1);
    };
    pay("b", 32_767);
    pay("a", 1);
    expect(pots.resetsAt(budgetOf("p", {}, 1_000_000), "a", 1, 0n)).to.equal(1_000_001);
    pay("c", 1);
    expect(pots.resetsAt(budgetOf("p", {}, 1_000_000), "c", 1, 0n)).to.equal(undefined);
  });

  it("throw for a time whose amounts are not loaded.", () => {
    const pots = new BudgetPots(membershipOf(DEPARTMENTS), "workspace-1");
    pots.require([budgetOf("p")]);
    expect(() => pots.read(budgetOf("p"), "a", 1_500)).to.throw("lacks amounts for this time");
    expect(() => pots.read(budgetOf("q"), "a", 1_500)).to.throw("no window of the pot `q` is in force");
  });

  it("keep the amounts of a pot over versions with the same window, and read those of another window.", () => {
    const workspace = new Workspace({ kept: 8, minKept: 8, page: 8 });
    workspace.pay({ agentId: "a", principalId: undefined, millionths: 5_000_000, pots: ["p", "s"] });
    workspace.budgets = [budgetOf("p", {}, 2_000)];
    workspace.pots.require(workspace.budgets);
    workspace.now += 1_500;
    workspace.complete();
    expect(workspace.pots.read(budgetOf("p", {}, 2_000), "a", workspace.now).reserved).to.equal(5_000_000n);
  });
});
