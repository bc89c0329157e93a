import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { ArgumentStep } from "../notation/argument-path.ts";
import { fold } from "../text/fold.ts";
import { amountFrom, millionthsFrom } from "./decimal.ts";
import { isJsonObject, ownValue } from "./json-value.ts";
import type { OutcomeStatus } from "./outcome-status.ts";
import type { FindingCode, ReasonCode } from "./reason-codes.ts";
import type { CompiledPatterns, ScopeWord } from "./types.ts";

/** Largest amount of one action, in millionths: that of one number (`millionthsFrom`). */
const MAX_MILLIONTHS = 999_999_999_000_000;
/** Maximum characters of a currency. */
const MAX_CURRENCY = 64;
/** Maximum number of elements that are looked at to add the amounts of one action. */
const MAX_ELEMENTS = 10_000;

/** An argument whose amounts a budget adds. */
export interface BudgetSum {
  /** The tool, as `toolKey` gives it. */
  readonly tool: string;
  /** Path of the argument: `lines[].amount`. */
  readonly field: string;
  readonly steps: readonly ArgumentStep[];
  /** Number of steps to the object that has the currency. */
  readonly holder: number;
  /** Members of that object that may have the currency. */
  readonly currencies: readonly string[];
  /** True if the tool's schema admits whole numbers alone. */
  readonly isInteger: boolean;
}

/**
 * Pot that allowed actions pay into: everything that says which amounts are added, and nothing that says how much is allowed. The
 * object is the same for the life of the compiled rule.
 */
export interface PotSpec {
  /** Digest of the sums in any order, the currency, the scope, the department and the outcomes that count; of a count, of its patterns. */
  readonly key: string;
  /** Statuses with which an amount counts, sorted; undefined for those of a budget that names none. */
  readonly outcomes?: readonly OutcomeStatus[];
  /** Set for a pot that counts actions instead of adding amounts: the action types, each action being a millionth. */
  readonly counted?: CompiledPatterns;
  readonly sums: readonly BudgetSum[];
  /** As it is compared. */
  readonly currency: string;
  readonly scope: ScopeWord;
  /** With scope `department`: the department whose members pay together, instead of the acting agent's. */
  readonly departmentId?: string;
}

/** The budget part of a compiled rule. */
export interface CompiledBudget {
  readonly pot: PotSpec;
  /** The rule fires if the total of the window, the action at hand included, is above this: millionths. */
  readonly maxTotal: number;
  /** As it is shown: `EUR`. */
  readonly currency: string;
  /** Length of the sliding window in milliseconds. */
  readonly windowMs: number;
  /** True if the rule leaves amounts in other currencies alone. */
  readonly ignoresOthers: boolean;
  /** True if an amount is given back only by a report of the gateway or an operator. */
  readonly confirmsRelease: boolean;
}

/** Sliding window over a pot. */
export type BudgetWindow = Pick<CompiledBudget, "pot" | "windowMs">;

/** Past amounts of a group in the window of a budget, in millionths. */
export interface PotReading {
  /** Agent id, department ids joined by `+`, or workspace id. */
  readonly group: string;
  /** Number of agents in the group. */
  readonly members: number;
  /** Amounts of allowed actions whose outcome is open. */
  readonly reserved: bigint;
  /** Amounts that were paid. */
  readonly captured: bigint;
  /** The principal whose group it is. Undefined: the group of the acting agent. */
  readonly principalId?: string;
}

/** Amounts that one action pays into a pot. */
export interface Payment {
  /** Millionths that are added; undefined if no amount is. */
  readonly millionths: number | undefined;
  /** The first amount that cannot be added. */
  readonly fault: PaymentFault | undefined;
  /** Path of the first amount in another currency, which is not added. */
  readonly other: string | undefined;
}

const PAYMENT_FAULTS = [
  "AMOUNT_INVALID",
  "ARGUMENT_MISSING",
  "ARGUMENT_WRONG_TYPE",
  "CURRENCY_DIFFERS",
  "CURRENCY_MISSING",
] as const satisfies readonly FindingCode[];

/** An amount that cannot be added, and its place. */
export interface PaymentFault {
  readonly code: (typeof PAYMENT_FAULTS)[number];
  readonly field: string;
}

/** Tests whether a code of a reason is that of an amount that cannot be added. */
export const isPaymentFault = (code: ReasonCode): boolean => PAYMENT_FAULTS.some((fault) => fault === code);

/** Adds the amounts that a call of a tool pays into a pot; undefined if the pot does not add amounts of the tool. */
export function paymentOf(
  { sums, currency }: PotSpec,
  tool: string,
  args: JsonObject | undefined,
): Payment | undefined {
  const own = sums.filter((sum) => sum.tool === tool);
  if (own.length === 0) return undefined;
  const tally = new Tally(currency);
  for (const sum of own) tally.add(sum, 0, args, args);
  return tally.payment();
}

/** Adds the amounts of one action. */
class Tally {
  readonly #currency: string;
  #total = 0;
  #isAdded = false;
  #elements = 0;
  #fault: PaymentFault | undefined;
  #other: string | undefined;

  constructor(currency: string) {
    this.#currency = currency;
  }

  payment(): Payment {
    return { millionths: this.#isAdded ? this.#total : undefined, fault: this.#fault, other: this.#other };
  }

  /** Adds the amounts of a sum below a value, `depth` steps on the way. `holder` is the last object at the currency's place. */
  add(sum: BudgetSum, depth: number, value: JsonValue | undefined, holder: JsonValue | undefined): void {
    const at = depth === sum.holder ? value : holder;
    const step = sum.steps[depth];
    if (value === undefined || value === null) this.#refuse("ARGUMENT_MISSING", sum);
    else if (step === undefined) this.#addAmount(sum, value, at);
    else if (step === null) this.#addElements(sum, depth, value, at);
    else if (isJsonObject(value)) this.add(sum, depth + 1, ownValue(value, step), at);
    else this.#refuse("ARGUMENT_WRONG_TYPE", sum);
  }

  #addElements(sum: BudgetSum, depth: number, value: JsonValue, holder: JsonValue | undefined): void {
    const elements = Array.isArray(value) ? value : [];
    this.#elements += elements.length;
    if (!Array.isArray(value)) this.#refuse("ARGUMENT_WRONG_TYPE", sum);
    else if (elements.length === 0) this.#refuse("ARGUMENT_MISSING", sum);
    else if (this.#elements > MAX_ELEMENTS) this.#refuse("AMOUNT_INVALID", sum);
    else for (const element of elements) this.add(sum, depth + 1, element, holder);
  }

  #addAmount(sum: BudgetSum, value: JsonValue, holder: JsonValue | undefined): void {
    const found = this.#currencyOf(sum, holder);
    const millionths = typeof value === "number" ? millionthsFrom(value) : undefined;
    if (found === "other") this.#other ??= sum.field;
    else if (found !== "own") this.#refuse(found, sum);
    else if (typeof value !== "number") this.#refuse("ARGUMENT_WRONG_TYPE", sum);
    else if (millionths === undefined || millionths < 0 || this.#total + millionths > MAX_MILLIONTHS) {
      this.#refuse("AMOUNT_INVALID", sum);
    } else {
      this.#total += millionths;
      this.#isAdded = true;
    }
  }

  // Every member that is present must be the budget's currency, so that a second one cannot turn a payment into another's.
  #currencyOf({ currencies }: BudgetSum, holder: JsonValue | undefined) {
    const members = currencies.map((name) => (isJsonObject(holder) ? ownValue(holder, name) : undefined));
    const present = members.filter((member) => member !== undefined && member !== null);
    if (present.length === 0) return "CURRENCY_MISSING";
    const isOwn = present.map((member) => this.#isOwn(member));
    if (isOwn.every((own) => own)) return "own";
    const isOther = present.every((member, index) => typeof member === "string" && !isOwn[index]);
    return isOther ? "other" : "CURRENCY_DIFFERS";
  }

  #isOwn(member: JsonValue): boolean {
    return typeof member === "string" && member.length <= MAX_CURRENCY && fold(member) === this.#currency;
  }

  #refuse(code: PaymentFault["code"], { field }: BudgetSum): void {
    this.#fault ??= { code, field };
  }
}

/** A pot as a rule sees it when an action is decided. */
export interface BudgetReading extends PotReading {
  /** Key of the tool that the action calls. */
  readonly tool: string;
  readonly payment: Payment;
}

/** Past amounts of a group under a budget, and what the action at hand adds. */
export interface Spending {
  readonly budget: CompiledBudget;
  /** Millionths. */
  readonly past: bigint;
  readonly payment: Payment;
}

/** Returns the total of a budget with the action at hand, in millionths. */
export function totalOf({ past, payment }: Pick<Spending, "past" | "payment">): bigint {
  return past + BigInt(payment.millionths ?? 0);
}

/** A budget as a decision saw it; the fields of the message `BudgetState`. */
export interface BudgetState {
  /** Key of the pot. */
  readonly pot: string;
  readonly currency: string;
  readonly limit: number;
  readonly total: number;
  readonly reserved: number;
  readonly captured: number;
  readonly remaining: number;
}

/** Describes a budget with what its group has reserved and captured, in millionths. */
export function budgetStateFrom(
  { pot, currency, maxTotal }: Pick<CompiledBudget, "pot" | "currency" | "maxTotal">,
  { reserved, captured }: Pick<PotReading, "reserved" | "captured">,
): BudgetState {
  const limit = BigInt(maxTotal);
  const total = reserved + captured;
  return {
    pot: pot.key,
    currency,
    limit: amountFrom(limit),
    total: amountFrom(total),
    reserved: amountFrom(reserved),
    captured: amountFrom(captured),
    remaining: amountFrom(total > limit ? 0n : limit - total),
  };
}
