import type { Decision } from "./types.ts";

/** Severity of each decision: the higher one wins. */
export const SEVERITY: Readonly<Record<Decision, number>> = { allow: 1, escalate: 2, block: 3 };
