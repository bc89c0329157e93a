import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** Answers of earlier steps by name. */
export type Known = ReadonlyMap<string, JsonValue>;

const WHOLE = /^\{\{([\w.[\]-]+)\}\}$/;
const PART = /\{\{([\w.[\]-]+)\}\}/g;

function lookUp(known: Known, path: string): JsonValue {
  const [name = "", ...rest] = path.split(/[.[\]]+/).filter((part) => part !== "");
  let value = known.get(name);
  for (const part of rest) value = (value as JsonObject | undefined)?.[part];
  if (value === undefined) throw new Error(`nothing is known as \`${path}\``);
  return value;
}

/** Values too large to be written down: `{"$repeat": ["a", 3]}` is `"aaa"`, `{"$nest": 2}` is `{"a": {"a": 1}}`. */
function generated(object: JsonObject): JsonValue | undefined {
  const { $repeat: repeat, $nest: depth } = object;
  if (Array.isArray(repeat)) return String(repeat[0]).repeat(Number(repeat[1]));
  if (typeof depth !== "number") return undefined;
  let nested: JsonValue = 1;
  for (let level = 0; level < depth; level++) nested = { a: nested };
  return nested;
}

/** Fills in what a case leaves open. Throws for a name that is not known. */
export function filledIn<T extends JsonValue>(value: T, known: Known): T {
  return fill(value, known) as T;
}

function fill(value: JsonValue, known: Known): JsonValue {
  if (typeof value === "string") {
    const whole = WHOLE.exec(value)?.[1];
    if (whole !== undefined) return lookUp(known, whole);
    return value.replace(PART, (_, path: string) => String(lookUp(known, path)));
  }
  if (Array.isArray(value)) return value.map((item) => fill(item, known));
  if (typeof value !== "object" || value === null) return value;
  return (
    generated(value) ?? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, fill(member, known)]))
  );
}
