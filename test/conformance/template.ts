import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** Answers of earlier steps by name. */
export type Known = ReadonlyMap<string, JsonValue>;

/** How a text says that something is left open. */
interface Marks {
  /** The whole text is a name: the value keeps its type. */
  readonly whole: RegExp;
  /** A name inside of a text. */
  readonly part: RegExp;
}

/** `{{agent.agent.agent_id}}`: what an earlier answer of the case said. */
const ANSWERS: Marks = { whole: /^\{\{([\w.[\]-]+)\}\}$/, part: /\{\{([\w.[\]-]+)\}\}/g };
/** `[[noun]]`: what differs between the kinds of authority. */
const KINDS: Marks = { whole: /^\[\[(\w+)\]\]$/, part: /\[\[(\w+)\]\]/g };

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
  return fill(value, known, ANSWERS) as T;
}

/** Fills in what a case for every kind leaves open, and leaves alone what answers will fill in. Throws as `filledIn`. */
export function filledForKind<T extends JsonValue>(value: T, row: JsonObject): T {
  return fill(value, new Map(Object.entries(row)), KINDS) as T;
}

function fillText(text: string, known: Known, { part }: Marks): string {
  return text.replace(part, (_, path: string) => String(lookUp(known, path)));
}

function fill(value: JsonValue, known: Known, marks: Marks): JsonValue {
  if (typeof value === "string") {
    const whole = marks.whole.exec(value)?.[1];
    return whole === undefined ? fillText(value, known, marks) : lookUp(known, whole);
  }
  if (Array.isArray(value)) return value.map((item) => fill(item, known, marks));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value);
  return (
    generated(value) ??
    Object.fromEntries(entries.map(([name, member]) => [fillText(name, known, marks), fill(member, known, marks)]))
  );
}
