import type { JsonObject } from "@bufbuild/protobuf";

/** A value that is neither plain JSON nor a `Map`. */
abstract class Special {
  /** The name of its type in CEL. */
  abstract readonly type: string;
}

/** A point in time. */
export class Timestamp extends Special {
  readonly type = "google.protobuf.Timestamp";
  /** Nanoseconds since 1970. */
  readonly nanos: bigint;

  constructor(nanos: bigint) {
    super();
    this.nanos = nanos;
  }
}

/** A length of time. */
export class Duration extends Special {
  readonly type = "google.protobuf.Duration";
  readonly nanos: bigint;

  constructor(nanos: bigint) {
    super();
    this.nanos = nanos;
  }
}

/** A type as a value, which `type(x)` gives. */
export class TypeName extends Special {
  readonly type = "type";
  readonly name: string;

  constructor(name: string) {
    super();
    this.name = name;
  }
}

/** Error of an evaluation. A value, since `&&`, `||`, `all` and `exists` go on past it. */
export class Fault extends Special {
  readonly type = "error";
  /** The part of the expression at fault, in its own words. */
  readonly subject: string;
  /** The rest of a sentence about it. Holds no value of the action. */
  readonly problem: string;
  /** The argument that is missing or wrong, as a path of its members. */
  readonly argument: string | undefined;

  constructor(subject: string, problem: string, argument?: string) {
    super();
    this.subject = subject;
    this.problem = problem;
    this.argument = argument;
  }

  /** One sentence. */
  get message(): string {
    return `\`${this.subject}\` ${this.problem}`;
  }
}

/** A list: of an action's JSON, or made by the expression. */
export type ListValue = readonly Value[];
/** A key of a map. */
export type MapKey = string | bigint | boolean;
/** A map: an object of the action's JSON, or one that the expression writes. */
export type MapValue = JsonObject | ReadonlyMap<MapKey, Value>;

/** Any value of an expression. A number is a CEL double, and a bigint a CEL int. */
export type Value =
  | boolean
  | bigint
  | number
  | string
  | null
  | ListValue
  | MapValue
  | Timestamp
  | Duration
  | TypeName
  | Fault;

/** Narrows a value to a list. */
export const isList = (value: Value): value is ListValue => Array.isArray(value);

/** Narrows a value to a map. */
export const isMap = (value: Value): value is MapValue =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Special);

/** Narrows a map to one that the expression writes. */
export const isWritten = (map: MapValue): map is ReadonlyMap<MapKey, Value> => map instanceof Map;

/** Returns a member of a map; undefined if it is missing. A null member of the action's JSON is missing. */
export function memberOf(map: MapValue, key: Value): Value | undefined {
  if (isWritten(map)) {
    const whole = typeof key === "number" && Number.isInteger(key) ? BigInt(key) : key;
    return map.get(whole as MapKey);
  }
  if (typeof key !== "string" || !Object.hasOwn(map, key)) return undefined;
  return map[key] ?? undefined;
}

/** Lists the keys of a map, those of null members left out. */
export function keysOf(map: MapValue): readonly MapKey[] {
  if (isWritten(map)) return [...map.keys()];
  return Object.keys(map).filter((name) => map[name] != null);
}

/** Returns the name of a value's type in CEL. */
export function typeNameOf(value: Value): string {
  switch (typeof value) {
    case "boolean":
      return "bool";
    case "bigint":
      return "int";
    case "number":
      return "double";
    case "string":
      return "string";
    default:
      if (value === null) return "null_type";
      if (value instanceof Special) return value.type;
      return Array.isArray(value) ? "list" : "map";
  }
}

const WORDS: Readonly<Record<string, string>> = {
  bool: "a boolean",
  int: "a number",
  double: "a number",
  string: "text",
  null_type: "null",
  list: "a list",
  map: "an object",
  type: "a type",
  "google.protobuf.Timestamp": "a time",
  "google.protobuf.Duration": "a duration",
};

/** Names the type of a value for people. */
export const wordOf = (value: Value): string => WORDS[typeNameOf(value)] ?? "an error";
