import type { JsonObject } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "./json-value.ts";
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

/** Returns the arguments that rules read: `metadata.arguments` if it is an object, else the metadata itself. */
export function argumentsFrom(metadata: JsonObject | undefined): JsonObject | undefined {
  if (metadata === undefined) return undefined;
  const nested = ownValue(metadata, "arguments");
  return isJsonObject(nested) ? nested : metadata;
}

/**
 * Returns the name of the tool that an action calls: the request's `tool`, else `metadata.tool`, else the action type if it
 * is a registered tool's name, as written or normalised. Blank names count as missing; undefined if all are missing.
 */
export function toolNameFrom(
  tool: string | undefined,
  metadata: JsonObject | undefined,
  actionType: string,
  isRegistered: (name: string) => boolean,
): string | undefined {
  if (tool !== undefined && tool.trim() !== "") return tool.trim();
  const named = metadata === undefined ? undefined : ownValue(metadata, "tool");
  if (typeof named === "string" && named.trim() !== "") return named.trim();
  const asWritten = actionType.trim();
  if (isRegistered(asWritten)) return asWritten;
  const normalised = normaliseName(actionType);
  return isRegistered(normalised) ? normalised : undefined;
}
