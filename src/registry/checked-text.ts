import { invalidField } from "../errors.ts";
import { prefixPatternFault } from "../policy/action-patterns.ts";
import { givenNameFault } from "../policy/names.ts";
import type { JsonValue } from "../tree/canonical.ts";

const MAX_PATTERNS = 500;

/** PostgreSQL keeps no U+0000, and half of a surrogate pair has no UTF-8 and so no hash. */
const isStorable = (text: string): boolean => !text.includes("\u0000") && text.isWellFormed();

/** Returns a name that people give, as written but trimmed. Throws INVALID_FIELD, which names the character, for any other text. */
export function checkedName(field: string, text: string): string {
  const fault = givenNameFault(text);
  if (fault !== undefined) throw invalidField(field, fault);
  return text.trim();
}

/** Returns a free text unchanged. Throws INVALID_FIELD for U+0000 and half of a surrogate pair. */
export function checkedText(field: string, text: string): string {
  if (isStorable(text)) return text;
  throw invalidField(field, "must not hold U+0000 or half of a surrogate pair");
}

/** Returns action-type patterns, trimmed. Throws INVALID_FIELD at the first malformed one. */
export function checkedPatterns(field: string, patterns: readonly string[]): string[] {
  if (patterns.length > MAX_PATTERNS) throw invalidField(field, `must have at most ${MAX_PATTERNS} items`);
  return patterns.map((text, index) => {
    const at = `${field}[${index}]`;
    const fault = prefixPatternFault(text);
    if (fault !== undefined) throw invalidField(at, fault);
    return text.trim();
  });
}

/** Tests that PostgreSQL can store a JSON value and that every text in it can be hashed. */
export function isStorableJson(value: JsonValue | undefined): boolean {
  if (typeof value === "string") return isStorable(value);
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, member]) => isStorable(key) && isStorableJson(member));
}
