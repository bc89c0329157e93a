import { nameFault, normaliseName } from "./names.ts";
import type { CompiledPatterns } from "./types.ts";

/** Finds why a text is no action-type pattern, as the rest of a sentence about it; undefined for a pattern. */
export function patternFault(text: string): string | undefined {
  const pattern = normaliseName(text);
  if (pattern === "") return "must not be blank";
  const star = pattern.indexOf("*");
  if (star !== -1 && star !== pattern.length - 1) return "may have `*` at its end only";
  return nameFault(text);
}

/** Tells if a text is an action-type pattern. */
export function isActionPattern(text: string): boolean {
  return patternFault(text) === undefined;
}

/** Matches one pattern, however it is written, against a normalised action type. A trailing `*` stands for any rest. */
export function matchesPattern(pattern: string, normalised: string): boolean {
  const own = normaliseName(pattern);
  return own.endsWith("*") ? normalised.startsWith(own.slice(0, -1)) : own === normalised;
}

/** Normalises, sorts and deduplicates patterns, so that lists of the same patterns become equal. */
export function normalisePatterns(patterns: readonly string[]): readonly string[] {
  return [...new Set(patterns.map(normaliseName))].sort();
}

/**
 * Compiles patterns for many tests. An empty list matches nothing. The cost of a test does not grow with the number of
 * exact patterns.
 */
export function compilePatterns(patterns: readonly string[]): CompiledPatterns {
  const all = normalisePatterns(patterns);
  const exact = new Set(all.filter((pattern) => !pattern.endsWith("*")));
  const prefixes = all.filter((pattern) => pattern.endsWith("*")).map((pattern) => pattern.slice(0, -1));
  return {
    matches: (normalised) => exact.has(normalised) || prefixes.some((prefix) => normalised.startsWith(prefix)),
  };
}
