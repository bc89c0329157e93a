import type { JsonMembers } from "../verify/index.ts";

/** The value at the end of a way into a body; undefined where it is not. */
export function at(value: unknown, ...way: readonly string[]): unknown {
  return way.reduce((found, name) => (found as JsonMembers | null | undefined)?.[name], value);
}

/** The text there; empty where there is none. */
export function textAt(value: unknown, ...way: readonly string[]): string {
  const found = at(value, ...way);
  return typeof found === "string" ? found : "";
}

/** The list there; empty where there is none. */
export function listAt(value: unknown, ...way: readonly string[]): readonly unknown[] {
  const found = at(value, ...way);
  return Array.isArray(found) ? found : [];
}

/** The ids that a sentence names in backticks. */
export function idsIn(sentence: string): string[] {
  return [...sentence.matchAll(/`([a-z]{2,3}_[a-z2-7]{26})`/g)].map(([, id = ""]) => id);
}
