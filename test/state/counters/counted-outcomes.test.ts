import { expect } from "chai";
import fc from "fast-check";
import { followUpEntry } from "../../../src/log/follow-up.ts";
import type { DecisionReceipt } from "../../../src/log/receipts.ts";
import { compilePatterns } from "../../../src/policy/action-patterns.ts";
import type { BudgetWindow } from "../../../src/policy/budget.ts";
import type { OutcomeStatus } from "../../../src/policy/outcome-status.ts";
import { BudgetPots, type PotAmount, type Reservation } from "../../../src/state/counters/budget-pots.ts";
import { amountChangesOf, type SealedOutcome, type SealedStatus } from "../../../src/state/outcomes.ts";
import { AGENTS, DEPARTMENTS, membershipOf } from "./naive-log.ts";
import { budgetOf } from "./naive-pots.ts";

const STATUSES: readonly OutcomeStatus[] = ["pending", "succeeded", "failed", "cancelled", "unknown"];
const MILLION = 1_000_000;
const WINDOW_MS = 1_000;

/** An action of the history, with its outcome so far. */
interface Past {
  readonly agentId: string;
  readonly at: number;
  readonly amount: number;
  status: OutcomeStatus;
  paid: number | undefined;
  /** The agent's report that the budget holds the amount for until the gateway confirms it. */
  unconfirmed: SealedOutcome | undefined;
}

const STEP = fc.record({
  kind: fc.constantFrom("act", "act", "act", "report", "report", "settle", "roll back", "start cold"),
  agentId: fc.constantFrom(...AGENTS),
  waits: fc.oneof(fc.constant(0), fc.nat(400)),
  amount: fc.nat(3_000),
  status: fc.constantFrom<SealedStatus>("succeeded", "failed", "cancelled", "unknown"),
  paid: fc.option(fc.nat(3_000), { nil: undefined }),
  source: fc.constantFrom("agent" as const, "agent" as const, "gateway" as const),
  pick: fc.nat(1_000),
});
type Step = typeof STEP extends fc.Arbitrary<infer T> ? T : never;

/** A workspace that lives, with pots that are changed entry by entry on one side, and a list of its actions on the other. */
class Life {
  readonly #outcomes: readonly OutcomeStatus[];
  readonly #isConfirmed: boolean;
  readonly #sum: BudgetWindow;
  readonly #count: BudgetWindow;
  #pots: BudgetPots;
  #past: Past[] = [];
  #now = 10_000;

  /** `isConfirmed`: the budget gives amounts back only by the gateway's or an operator's report. */
  constructor(outcomes: readonly OutcomeStatus[], scope: "agent" | "department" | "workspace", isConfirmed: boolean) {
    this.#outcomes = outcomes;
    this.#isConfirmed = isConfirmed;
    this.#sum = budgetOf("sum", { scope, outcomes }, WINDOW_MS);
    this.#count = budgetOf("count", { scope, outcomes, sums: [], counted: compilePatterns(["pay"], []) }, WINDOW_MS);
    this.#pots = this.#start();
  }

  take(step: Step): void {
    this.#now += step.waits;
    if (step.kind === "act") this.#act(step);
    else if (step.kind === "start cold") this.#pots = this.#start();
    else if (step.kind === "roll back") this.#rollBack(step);
    else this.#report(step, step.kind === "settle");
    for (const agentId of AGENTS) this.#assertTotals(agentId);
  }

  /** Loads what a table of amounts would hold: of each action what counts of it now, 0 included. */
  #start(): BudgetPots {
    const pots = new BudgetPots(membershipOf(DEPARTMENTS), "workspace-1");
    pots.require([this.#sum, this.#count]);
    for (let missing = pots.missing(this.#now); missing !== undefined; missing = pots.missing(this.#now)) {
      const { pot, from } = missing;
      const rows = this.#past.filter(({ at }) => at >= from);
      const oldest = rows.map((past): PotAmount => {
        const held = this.#held(past, pot === "count");
        const isPaid = this.#statusIn(past, pot === "count") === "succeeded";
        return { agentId: past.agentId, at: past.at, reserved: isPaid ? 0 : held, captured: isPaid ? held : 0 };
      });
      pots.load(missing, { oldest, left: undefined, rest: [], newest: [] });
    }
    return pots;
  }

  /** The status with which an action counts: the reported one, but pending in a budget that waits for its confirmation. */
  #statusIn({ status, unconfirmed }: Past, isCount: boolean): OutcomeStatus {
    return unconfirmed !== undefined && !isCount ? "pending" : status;
  }

  /** What counts of an action, from the definition: nothing, or one action; of a budget what it paid or reserved. */
  #held(past: Past, isCount: boolean): number {
    const status = this.#statusIn(past, isCount);
    if (!this.#outcomes.includes(status)) return 0;
    if (isCount) return 1;
    return status === "succeeded" && past.paid !== undefined ? past.paid : past.amount;
  }

  #reserved(amount: number): readonly Reservation[] {
    const outcomes = this.#outcomes;
    return [
      { pot: "sum", millionths: amount, outcomes },
      { pot: "count", millionths: 1, unit: "action", outcomes },
    ];
  }

  #act({ agentId, amount: given }: Step, undo?: (() => void)[]): void {
    this.#pots.missing(this.#now);
    const amount = given * (MILLION / 100);
    // As a replica reads them back from the log, without what only the entry of the outcome says.
    const read = this.#reserved(amount).map(({ pot, millionths }) => ({ pot, millionths }));
    this.#pots.record(read, { agentId }, this.#now, undo);
    this.#past.push({ agentId, at: this.#now, amount, status: "pending", paid: undefined, unconfirmed: undefined });
  }

  #report({ status, paid: given, pick, source }: Step, settles: boolean, undo?: (() => void)[]): void {
    const isOpen = (past: Past): boolean =>
      settles ? past.status === "unknown" || past.unconfirmed !== undefined : past.status === "pending";
    const open = this.#past.filter(isOpen);
    const past = open[pick % Math.max(1, open.length)];
    if (past === undefined || (settles && status === "unknown")) return;
    const amount = status === "succeeded" && given !== undefined ? given / 100 : undefined;
    const reported = { ...past, status, paid: amount === undefined ? undefined : Math.round(amount * MILLION) };
    const isAgents = !settles && status !== "unknown" && source === "agent";
    const releases = this.#held({ ...reported, unconfirmed: undefined }, false) < this.#held(past, false);
    const isHeld = this.#isConfirmed && isAgents && releases;
    const draft = {
      type: "outcome" as const,
      status,
      amount,
      error: undefined,
      resultDigest: undefined,
      reportedBy: "somebody",
      source: isAgents ? ("agent" as const) : ("gateway" as const),
      settles,
      unknownAt: past.status === "unknown" ? "2026-11-27T14:05:00.000Z" : undefined,
      heldPots: isHeld ? ["sum"] : [],
      confirms: past.unconfirmed,
    };
    const action = { agent_id: past.agentId, action_type: "pay" };
    const body = { action, reserved: this.#reserved(past.amount), authorisation: { collective_limits: [] } };
    const place = { workspaceId: "workspace-1", seq: 1, atMs: this.#now, previousRoot: "", previousSize: 1 };
    const { sealed } = followUpEntry(draft, { body } as unknown as DecisionReceipt, place);
    const outcome = sealed as SealedOutcome;
    this.#pots.settle(amountChangesOf(outcome), { agentId: past.agentId }, past.at, undo);
    Object.assign(past, { ...reported, unconfirmed: isHeld ? outcome : undefined });
  }

  #rollBack(step: Step): void {
    const before = this.#past.map((past) => ({ ...past }));
    const undo: (() => void)[] = [];
    this.#act(step, undo);
    this.#report(step, false, undo);
    this.#report({ ...step, pick: step.pick + 1 }, true, undo);
    for (const each of undo.reverse()) each();
    this.#past = before;
  }

  #assertTotals(agentId: string): void {
    for (const [budget, isCount] of [[this.#sum, false] as const, [this.#count, true] as const]) {
      const departments = DEPARTMENTS[agentId] ?? [];
      const isMember = (other: string): boolean => {
        if (budget.pot.scope === "workspace") return true;
        if (budget.pot.scope === "agent" || departments.length === 0) return other === agentId;
        return (DEPARTMENTS[other] ?? []).some((id) => departments.includes(id));
      };
      const total = this.#past
        .filter((past) => past.at > this.#now - WINDOW_MS && isMember(past.agentId))
        .reduce((sum, past) => sum + this.#held(past, isCount), 0);
      const { reserved, captured } = this.#pots.read(budget, agentId, this.#now);
      expect(Number(reserved + captured)).to.equal(total);
    }
  }
}

const HISTORIES = Number(process.env.HISTORIES ?? 5_000);

describe("pots that count by outcomes", () => {
  it("hold what the definition says, over reports, confirmations, ends of time, settlements, roll-backs and cold starts.", () => {
    const outcomes = fc.subarray([...STATUSES], { minLength: 1 });
    const scope = fc.constantFrom("agent" as const, "department" as const, "workspace" as const);
    fc.assert(
      fc.property(outcomes, scope, fc.boolean(), fc.array(STEP, { maxLength: 40 }), (named, of, isConfirmed, steps) => {
        const life = new Life(named, of, isConfirmed);
        for (const step of steps) life.take(step);
      }),
      { numRuns: HISTORIES },
    );
  }).timeout(600_000);

  it("add nothing for actions where no pot counts.", () => {
    const pots = new BudgetPots(membershipOf(DEPARTMENTS), "workspace-1");
    pots.require([budgetOf("sum")]);
    expect(pots.countsOf("pay")).to.deep.equal([]);
  });
});
