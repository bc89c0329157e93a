import { type ArgumentTypes, currencySiblings, type Json, valuesAt } from "./naive-conditions.ts";
import { foldNaively } from "./naive-patterns.ts";

/*
 * A second reading of the amounts of a budget, from the text of its description. It shares no code with the compiled one.
 */

/** An argument whose amounts are added. */
export interface NaiveSum {
  readonly tool: string;
  readonly field: string;
}

/** Amounts of one call: their sum in millionths, undefined where nothing is added, and whether a part cannot be added. */
export interface NaivePayment {
  readonly millionths: bigint | undefined;
  readonly isFaulty: boolean;
  /** True if a part is in another currency. */
  readonly hasOther: boolean;
}

const MILLIONTHS_OF_MOST = 999_999_999_000_000n;

/** Reads an amount from the decimal text of a number; undefined for what cannot be added. */
export function naiveMillionths(amount: Json): bigint | undefined {
  const text = typeof amount === "number" ? JSON.stringify(amount) : "";
  const [, wholes, places = ""] = /^([0-9]+)(?:\.([0-9]{1,6}))?$/.exec(text) ?? [];
  if (wholes === undefined) return undefined;
  const millionths = BigInt(wholes + places.padEnd(6, "0"));
  return millionths > MILLIONTHS_OF_MOST ? undefined : millionths;
}

/** Adds the amounts of a call of a tool, in the currency of a budget. */
export function naivePayment(
  sums: readonly NaiveSum[],
  currency: string,
  tool: string,
  types: ArgumentTypes,
  args: Json | undefined,
): NaivePayment {
  const fields = new Set(
    sums.filter((sum) => foldNaively(sum.tool) === foldNaively(tool)).map(({ field }) => field.trim()),
  );
  const wanted = foldNaively(currency);
  let [total, isAdded, isFaulty, hasOther] = [0n, false, false, false];
  for (const field of fields) {
    for (const { value, parent } of valuesAt(field, args, types)) {
      const told = currencySiblings(field, types).map((name) => parent[name] ?? null);
      const codes = told.filter((code) => code !== null);
      const own = codes.filter((code) => typeof code === "string" && foldNaively(code) === wanted).length;
      const isOther = codes.length > 0 && own === 0 && codes.every((code) => typeof code === "string");
      const millionths = value === undefined ? undefined : naiveMillionths(value);
      if (value === undefined || value === null) isFaulty = true;
      else if (isOther) hasOther = true;
      else if (codes.length === 0 || own < codes.length || millionths === undefined) isFaulty = true;
      else if (total + millionths > MILLIONTHS_OF_MOST) isFaulty = true;
      else {
        total += millionths;
        isAdded = true;
      }
    }
  }
  return { millionths: isAdded ? total : undefined, isFaulty, hasOther };
}

/** Report of how an action ended, or `unknown` from the end of the time for one. */
export interface NaiveReport {
  readonly by: "agent" | "gateway" | "operator" | "timeout";
  readonly status: "succeeded" | "failed" | "cancelled" | "unknown";
  /** Millionths, if the report names an amount. */
  readonly amount?: bigint;
}

/** Amounts that one action has in a pot, in millionths. */
export interface NaiveHolding {
  readonly reserved: bigint;
  readonly captured: bigint;
}

/**
 * Returns what an action has in a pot after reports in their order, of which some are refused. `isConfirmed`: the pot gives amounts back
 * by a report of the gateway or an operator alone.
 */
export function naiveHolding(millionths: bigint, isConfirmed: boolean, reports: readonly NaiveReport[]): NaiveHolding {
  let holding: NaiveHolding = { reserved: millionths, captured: 0n };
  let state: "pending" | "said" | "unknown" | "over" = "pending";
  for (const { by, status, amount } of reports) {
    if (state === "over") continue;
    if (status === "unknown") {
      if (state === "pending") state = "unknown";
      continue;
    }
    if (state === "unknown" && by !== "operator") continue;
    if (state === "said" && by === "agent") continue;
    const paid = status === "succeeded" ? (amount ?? millionths) : 0n;
    if (by === "agent" && isConfirmed && paid < millionths) {
      state = "said";
      continue;
    }
    holding = { reserved: 0n, captured: paid };
    state = "over";
  }
  return holding;
}
