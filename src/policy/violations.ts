import type { RuleViolation } from "./types.ts";
import type { RuleViolationReason } from "./violation-reasons.ts";

/** Collects what is wrong while compiling goes on. */
export interface Violations {
  /** Notes one thing wrong; with a suggestion the message ends in `did you mean …?`. */
  readonly add: (path: string, reason: RuleViolationReason, message: string, suggestion?: string) => void;
  readonly count: () => number;
  /** What was noted, by path (numbers in it by value), then reason. */
  readonly sorted: () => readonly RuleViolation[];
}

/** Builds an empty collection. */
export function createViolations(): Violations {
  const noted: RuleViolation[] = [];
  return {
    add: (path, reason, message, suggestion) => {
      if (suggestion === undefined) noted.push({ path, reason, message });
      else noted.push({ path, reason, message: `${message}; did you mean \`${suggestion}\`?`, suggestion });
    },
    count: () => noted.length,
    sorted: () => noted.toSorted(byPathThenReason),
  };
}

function byPathThenReason(a: RuleViolation, b: RuleViolation): number {
  return comparePaths(a.path, b.path) || compareTexts(a.reason, b.reason) || compareTexts(a.message, b.message);
}

/** Compares paths so that `rules[2]` comes before `rules[10]` and a place before what is inside it. */
export function comparePaths(a: string, b: string): number {
  const [left, right] = [pieces(a), pieces(b)];
  for (let index = 0; index < Math.min(left.length, right.length); index++) {
    const [one = "", other = ""] = [left[index], right[index]];
    const difference = Number(one) - Number(other) || compareTexts(one, other);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

function pieces(path: string): readonly string[] {
  return path.match(/\d+|\D+/g) ?? [];
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
