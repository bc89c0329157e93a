import type { CompiledMandate, Decision } from "./types.ts";

/** Severity of each decision: the higher one wins. */
export const SEVERITY: Readonly<Record<Decision, number>> = { allow: 1, escalate: 2, block: 3 };

/**
 * Orders mandates that decide alike: the higher priority first, then by their names, folded, then by their ids. So the same policies
 * name the same mandate in every workspace, whatever the ids are.
 */
export function compareMandates(a: CompiledMandate, b: CompiledMandate): number {
  return b.priority - a.priority || compareTexts(a.foldedName, b.foldedName) || compareTexts(a.id, b.id);
}

const compareTexts = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
