/** A parsed JSON object. */
export type JsonMembers = { readonly [name: string]: unknown };

function stringText(text: string): string {
  // I-JSON (RFC 7493) has no lone surrogates, and JSON.parse makes them from escapes.
  if (!text.isWellFormed()) throw new SyntaxError("a lone surrogate");
  return JSON.stringify(text);
}

function textOf(value: unknown): string {
  if (typeof value === "string") return stringText(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(textOf).join(",")}]`;
  const members = value as JsonMembers;
  // RFC 8785 §3.2.3: by UTF-16 code units, as sort() does by itself.
  const names = Object.keys(members).sort();
  return `{${names.map((name) => `${stringText(name)}:${textOf(members[name])}`).join(",")}}`;
}

/**
 * Reads an object from its RFC 8785 text; undefined for any other text. RFC 8785 takes its numbers and strings from
 * ECMAScript, so what was parsed and written again is the same text only if it was canonical: another order, white space,
 * another spelling of a number or a string, a name that comes twice and a number that a double cannot hold all differ.
 */
export function objectFromCanonical(text: string): JsonMembers | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    return textOf(value) === text ? (value as JsonMembers) : undefined;
  } catch {
    // No JSON, or nested deeper than can be read.
    return undefined;
  }
}
