import { definitionOf, type Written } from "../mandates/mandate-text.ts";
import type { BacktestQuestion } from "./use-backtest.ts";

/** Makes the question of a backtest of one text, in place of a mandate in force or as a new one. */
export function questionOf(definition: Written, replaces: string | undefined): BacktestQuestion {
  return { drafts: [{ ...definitionOf(definition), ...(replaces !== undefined && { replacesMandateId: replaces }) }] };
}
