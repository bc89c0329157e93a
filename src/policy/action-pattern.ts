import type { CompiledPatterns } from "./types.ts";

/** Converts an action type or pattern to the form in which they are compared: trimmed and lower-cased. */
export function normaliseActionType(text: string): string {
  return text.trim().toLowerCase();
}

/** Tells if a text is an action-type pattern: not blank, and without `*` before its end. */
export function isActionPattern(text: string): boolean {
  const pattern = normaliseActionType(text);
  const star = pattern.indexOf("*");
  return pattern !== "" && (star === -1 || star === pattern.length - 1);
}

/** Matches one pattern, written in any case, against a normalised action type. A trailing `*` stands for any rest. */
export function matchesPattern(pattern: string, normalised: string): boolean {
  const own = normaliseActionType(pattern);
  return own.endsWith("*") ? normalised.startsWith(own.slice(0, -1)) : own === normalised;
}

/** Normalises, sorts and deduplicates patterns, so that lists of the same patterns become equal. */
export function normalisePatterns(patterns: readonly string[]): readonly string[] {
  return [...new Set(patterns.map(normaliseActionType))].sort();
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
