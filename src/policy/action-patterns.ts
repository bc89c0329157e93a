import { nameFault, normaliseName } from "./names.ts";
import type { CompiledPatterns } from "./types.ts";

/* Patterns of action types: a name in which each `*` stands for any characters, also for none. */

/** Maximum `*` of a pattern in a mandate. */
const MAX_STARS = 4;

/** Explains why a text is not a pattern of a mandate, as the rest of a sentence about it; undefined for a pattern. */
export function patternFault(text: string): string | undefined {
  const stars = text.split("*").length - 1;
  if (stars > MAX_STARS) return `may have at most ${MAX_STARS} \`*\`, not ${stars}`;
  return normaliseName(text) === "" ? "must not be blank" : nameFault(text);
}

/**
 * Explains why a text is not a pattern of a permission or a grant, where `*` stands at the end alone, as the rest of a sentence
 * about it; undefined for a pattern.
 */
export function prefixPatternFault(text: string): string | undefined {
  const pattern = normaliseName(text);
  const star = pattern.indexOf("*");
  if (star !== -1 && star !== pattern.length - 1) return "may have `*` at its end only";
  return patternFault(text);
}

/** Tests whether a text is a pattern of a mandate. */
export const isActionPattern = (text: string): boolean => patternFault(text) === undefined;

/** Normalises, sorts and deduplicates patterns, so that lists of the same patterns become equal. */
export function normalisePatterns(patterns: readonly string[]): readonly string[] {
  return [...new Set(patterns.map(normaliseName))].sort();
}

/** Returns the text before the first `*` of a normalised pattern; undefined for an exact one. */
export function prefixOf(pattern: string): string | undefined {
  const star = pattern.indexOf("*");
  return star < 0 ? undefined : pattern.slice(0, star);
}

/** Matches one pattern, however it is written, against a normalised action type. */
export const matchesPattern = (pattern: string, normalised: string): boolean =>
  matchesPieces(normaliseName(pattern).split("*"), normalised);

/** Tests whether a text is made of pieces in their order, with anything between them. Takes the first place of each: linear. */
function matchesPieces(pieces: readonly string[], text: string): boolean {
  const first = pieces[0] as string;
  if (pieces.length === 1) return text === first;
  if (!text.startsWith(first)) return false;
  let end = first.length;
  const atEnd = pieces.length - 1;
  for (let index = 1; index < atEnd; index++) {
    const piece = pieces[index] as string;
    const start = text.indexOf(piece, end);
    if (start < 0) return false;
    end = start + piece.length;
  }
  const last = pieces[atEnd] as string;
  return text.length >= end + last.length && text.endsWith(last);
}

/** Tests whether a normalised pattern matches each action type that another one matches. False if that is not certain. */
export function coversPattern(broad: string, narrow: string): boolean {
  // No name holds U+0000: it stands for anything, so only a `*` matches it.
  return matchesPattern(broad, narrow.replaceAll("*", "\u0000"));
}

/** Creates the test of one list of patterns. Its cost does not grow with the number of exact ones. */
function matcherOf(patterns: readonly string[]): (normalised: string) => boolean {
  const all = normalisePatterns(patterns);
  const exact = new Set(all.filter((pattern) => !pattern.includes("*")));
  const pieces = all.filter((pattern) => pattern.includes("*")).map((pattern) => pattern.split("*"));
  return (normalised) => exact.has(normalised) || pieces.some((each) => matchesPieces(each, normalised));
}

/** Compiles the action types that a rule covers: those that match a pattern, all without one, and none of those excluded. */
export function compileTypes(patterns: readonly string[], excluded: readonly string[]): CompiledPatterns {
  return compilePatterns(patterns.length === 0 ? ["*"] : patterns, excluded);
}

/** Compiles the action types that match a pattern and none of those excluded. An empty list of patterns matches nothing. */
export function compilePatterns(patterns: readonly string[], excluded: readonly string[] = []): CompiledPatterns {
  const isListed = matcherOf(patterns);
  if (excluded.length === 0) return { matches: isListed };
  const isExcluded = matcherOf(excluded);
  return { matches: (normalised) => isListed(normalised) && !isExcluded(normalised) };
}
