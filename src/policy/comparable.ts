import type { JsonValue } from "@bufbuild/protobuf";

/** A value that rules compare as one: numbers and booleans as they are, strings as `comparableText` gives them. */
export type Comparable = string | number | boolean;

/** The form in which strings are compared: trimmed and lower-cased. */
export function comparableText(text: string): string {
  return text.trim().toLowerCase();
}

/** The form in which a value is compared; undefined for null, arrays and objects, which equal nothing. */
export function comparableFrom(value: JsonValue): Comparable | undefined {
  if (typeof value === "string") return comparableText(value);
  return typeof value === "number" || typeof value === "boolean" ? value : undefined;
}

/**
 * Any value as text, the way rules without a schema compare what has another type than they do. Strings are given as
 * they are; arrays and objects as JSON, or as nothing where they are nested too deep to write.
 */
export function textFrom(value: JsonValue): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return String(value);
  try {
    return JSON.stringify(value);
  } catch {
    return "";
  }
}

/** Any value as text to compare. */
export function comparableTextFrom(value: JsonValue): string {
  return comparableText(textFrom(value));
}

/** How many Unicode code points a text has. */
export function codePointLength(text: string): number {
  let length = text.length;
  for (let index = 0; index < text.length - 1; index++) {
    const isPair = (text.charCodeAt(index) & 0xfc00) === 0xd800 && (text.charCodeAt(index + 1) & 0xfc00) === 0xdc00;
    if (isPair) length--;
  }
  return length;
}
