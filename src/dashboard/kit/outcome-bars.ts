import { rangeText } from "./plot.ts";

/** Outcomes of decisions, from the bottom of a bar to its top. */
export const OUTCOMES = ["allow", "escalate", "block"] as const;
/** An outcome. */
export type Outcome = (typeof OUTCOMES)[number];

/** Numbers of decisions within a range of time. */
export interface OutcomeBar extends Readonly<Record<Outcome, number>> {
  /** Epoch milliseconds, inclusive. */
  readonly fromMs: number;
  /** Epoch milliseconds, exclusive. */
  readonly toMs: number;
}

/** Decisions of a bar, or those with one outcome. */
export interface OutcomePick {
  readonly fromMs: number;
  readonly toMs: number;
  /** Absent for all outcomes. */
  readonly outcome?: Outcome | undefined;
}

/** Words for counts of an outcome: `3 allowed`. */
export const OUTCOME_WORDS: Readonly<Record<Outcome, string>> = {
  allow: "allowed",
  escalate: "escalated",
  block: "blocked",
};

/** Height below which an outcome that happened could not be seen, pixels. */
const MIN_HEIGHT = 3;

/** Part of a bar: distances of its edges from the bottom, pixels. */
export interface Segment {
  readonly outcome: Outcome;
  readonly low: number;
  readonly high: number;
}

/** Stacks the outcomes of a bar that happened. `scale`: pixels of one decision. */
export function segmentsOf(bar: OutcomeBar, scale: number): readonly Segment[] {
  let low = 0;
  return OUTCOMES.filter((outcome) => bar[outcome] > 0).map((outcome) => {
    const high = low + Math.max(MIN_HEIGHT, bar[outcome] * scale);
    const segment = { outcome, low, high };
    low = high;
    return segment;
  });
}

/** Returns the number of decisions of a bar. */
export const totalOf = (bar: OutcomeBar): number => OUTCOMES.reduce((total, outcome) => total + bar[outcome], 0);

/** Writes a bar, or one outcome of it, in words: `27 Nov, 12:00 to 12:30: 3 allowed, 0 escalated, 1 blocked`. */
export function barText(bar: OutcomeBar, outcome: Outcome | undefined): string {
  const shown = outcome === undefined ? OUTCOMES : [outcome];
  const counts = shown.map((each) => `${bar[each].toLocaleString("en")} ${OUTCOME_WORDS[each]}`);
  return `${rangeText(bar.fromMs, bar.toMs)}: ${counts.join(", ")}`;
}
