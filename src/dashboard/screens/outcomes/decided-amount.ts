import type { JsonObject } from "@bufbuild/protobuf";
import { actionPartsOf } from "../../../verify/decision.ts";
import { listAt, numberAt, textAt } from "../../../verify/json.ts";
import { moneyText } from "../../kit/money.ts";
import { largestAmount } from "../escalations/fired-argument.ts";

/** Amount of an action, as it was decided. */
export interface DecidedAmount {
  readonly value: number;
  /** Undefined if neither a budget nor an argument names one. */
  readonly currency: string | undefined;
  /** True if budgets reserved it; false for an amount of the arguments. */
  readonly isReserved: boolean;
}

const MILLION = 1_000_000;

/**
 * Returns the amounts of a sealed decision: each that budgets reserved once, else the largest of its arguments. Empty for an action
 * without an amount.
 */
export function decidedAmounts(body: JsonObject): readonly DecidedAmount[] {
  const reserved = new Set(listAt(body, "reserved").flatMap((each) => numberAt(each, "millionths") ?? []));
  if (reserved.size > 0) {
    const limits = listAt(body, "authorisation.collective_limits");
    const currencies = new Set(limits.map((limit) => textAt(limit, "budget.currency")).filter((each) => each !== ""));
    // The text does not say which pot is of which currency.
    const currency = currencies.size === 1 ? [...currencies][0] : undefined;
    return [...reserved].map((millionths) => ({ value: millionths / MILLION, currency, isReserved: true }));
  }
  const asked = largestAmount((actionPartsOf(body).arguments ?? {}) as JsonObject);
  return typeof asked?.value === "number" ? [{ value: asked.value, currency: asked.currency, isReserved: false }] : [];
}

/** Writes an amount with its currency, if one is known. */
export const amountText = (value: number, currency: string | undefined): string =>
  currency === undefined ? value.toLocaleString("en", { maximumFractionDigits: 20 }) : moneyText(value, currency);

/** Writes the amounts that budgets reserved; undefined if none did. */
export function reservedText(amounts: readonly DecidedAmount[]): string | undefined {
  const texts = amounts
    .filter(({ isReserved }) => isReserved)
    .map(({ value, currency }) => amountText(value, currency));
  return texts.length === 0 ? undefined : texts.join(" and ");
}
