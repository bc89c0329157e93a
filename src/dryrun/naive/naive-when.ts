import { posix } from "node:path";
import { domainToASCII } from "node:url";
import {
  type CelEnv,
  type CelFunc,
  CelScalar,
  type CelValue,
  celEnv,
  celFunc,
  celList,
  celMap,
  celMethod,
  isCelList,
  isCelMap,
  listType,
  objectType,
  parse,
  plan,
} from "@bufbuild/cel";
import { strings } from "@bufbuild/cel/ext";
import type { Expr } from "@bufbuild/cel-spec/cel/expr/syntax_pb.js";
import { create, type JsonValue } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import { DurationSchema, TimestampSchema, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { foldNaively } from "./naive-patterns.ts";

/*
 * Evaluates expressions with the library. What it does otherwise than the rules promise is replaced here, one function each, and
 * nowhere else.
 */

/** Values of the variables of an expression, as JSON. */
export interface NaiveVariables {
  readonly [name: string]: JsonValue;
}

/** Tests whether a list of the workspace has a text. */
export type NaiveLists = (name: string, text: string) => boolean;

/** Evaluates an expression: true, false, or undefined for an error. */
export type NaiveWhen = (variables: NaiveVariables, nowMs: number) => boolean | undefined;

/** The library with the functions of expressions. */
export class NaiveWhens {
  readonly #env: CelEnv;

  /** `lists` default: no list has any text. */
  constructor(lists: NaiveLists = () => false) {
    this.#env = celEnv({ funcs: [...strings, ...DEVIATIONS, ...ownFunctions(lists)] }) as CelEnv;
  }

  /** Creates the evaluator of an expression. MUST be given one that compiles. */
  of(expression: string): NaiveWhen {
    const { expr } = parse(expression);
    if (expr === undefined) throw new Error("an expression without a tree");
    const evaluate = plan(this.#env, withStrictAccess(expr)) as (values: Record<string, unknown>) => unknown;
    return (variables, nowMs) => {
      const values: Record<string, unknown> = {};
      for (const [name, value] of Object.entries(variables)) values[name] = celFrom(value);
      values.now = timestampFromMs(nowMs);
      const result = evaluate(values);
      return typeof result === "boolean" ? result : undefined;
    };
  }
}

/** Converts JSON to the library's values. A null member is missing. */
export function celFrom(value: JsonValue): CelValue {
  if (Array.isArray(value)) return celList(value.map((element) => celFrom(element)));
  if (typeof value !== "object" || value === null) return value as CelValue;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return celMap(new Map(members.map(([name, member]) => [name, celFrom(member as JsonValue)] as const)));
}

const { BOOL, DOUBLE, DYN, INT, STRING } = CelScalar;
const LIST = listType(DYN);
const TIMESTAMP = objectType(TimestampSchema);
const DURATION = objectType(DurationSchema);

/**
 * `has(x.y)` of an `x` without members is false in the library, and an index that is not whole throws past `||`; both are errors
 * like any other here.
 */
const withStrictAccess = (node: Expr): Expr => rewritten(node) as Expr;

function rewritten(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(rewritten);
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  const copy = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, rewritten(member)]));
  const { exprKind, id } = copy as { exprKind?: Expr["exprKind"]; id?: bigint };
  if (exprKind?.case === "callExpr" && exprKind.value.function === "_[_]") {
    return { ...copy, exprKind: { ...exprKind, value: { ...exprKind.value, function: "@index" } } };
  }
  if (exprKind?.case !== "selectExpr" || !exprKind.value.testOnly) return copy;
  const { operand, field } = exprKind.value;
  const constant = { case: "constExpr", value: { constantKind: { case: "stringValue", value: field } } };
  const args = [operand, { $typeName: "cel.expr.Expr", id, exprKind: constant }];
  return { ...copy, exprKind: { case: "callExpr", value: { function: "@has", args } } };
}

function finite(value: number): number {
  if (!Number.isFinite(value)) throw new Error("not finite");
  return value;
}

type Numeric = number | bigint;

/** Numbers of different types are computed as doubles, and each result is finite. */
function onNumbers(name: string, compute: (left: number, right: number) => number): CelFunc[] {
  const pairs = [
    [DOUBLE, DOUBLE],
    [INT, DOUBLE],
    [DOUBLE, INT],
  ] as const;
  return pairs.map(([left, right]) =>
    celFunc(name, [left, right], DOUBLE, (one: Numeric, other: Numeric) => finite(compute(Number(one), Number(other)))),
  ) as unknown as CelFunc[];
}

function modulo(left: number, right: number): number {
  if (!Number.isInteger(left) || !Number.isInteger(right)) throw new Error("not whole");
  return left % right;
}

function wholeOf(index: Numeric): number {
  const whole = Number(index);
  if (!Number.isInteger(whole)) throw new Error("not whole");
  return whole;
}

function indexWithin(index: Numeric, length: number): number {
  const whole = wholeOf(index);
  if (whole < 0 || whole > length) throw new Error("outside");
  return whole;
}

/** Finds characters in characters. */
function find(text: readonly string[], wanted: readonly string[], places: Iterable<number>): bigint {
  for (const place of places) {
    if (wanted.every((character, offset) => text[place + offset] === character)) return BigInt(place);
  }
  return -1n;
}

function* upwards(from: number, to: number): Generator<number> {
  for (let place = from; place <= to; place++) yield place;
}

function* downwards(from: number): Generator<number> {
  for (let place = from; place >= 0; place--) yield place;
}

type TextMethod = (text: string, ...args: never[]) => unknown;

/** A method of a text whose last argument is a number of either type, or missing. */
function indexed(name: string, texts: number, result: unknown, apply: TextMethod, isOptional = true): CelFunc[] {
  const before = Array.from({ length: texts }, () => STRING);
  const method = (...types: readonly unknown[]) =>
    celMethod(name, STRING, [...before, ...types] as never, result as typeof STRING, function (this: string, ...args) {
      return apply(this, ...(args as never[])) as never;
    }) as unknown as CelFunc;
  return [...(isOptional ? [method()] : []), method(INT), method(DOUBLE)];
}

function substring(text: string, start: Numeric, end?: Numeric): string {
  const characters = [...text];
  const from = indexWithin(start, characters.length);
  const to = end === undefined ? characters.length : indexWithin(end, characters.length);
  if (from > to) throw new Error("outside");
  return characters.slice(from, to).join("");
}

function split(text: string, separator: string, most?: Numeric): readonly string[] {
  const times = most === undefined || wholeOf(most) < 0 ? Number.POSITIVE_INFINITY : wholeOf(most);
  if (times === 0) return [];
  const parts = separator === "" ? [...text] : text.split(separator);
  if (parts.length <= times) return parts;
  return [...parts.slice(0, times - 1), parts.slice(times - 1).join(separator)];
}

function replace(text: string, old: string, by: string, most?: Numeric): string {
  const times = most === undefined || wholeOf(most) < 0 ? Number.POSITIVE_INFINITY : wholeOf(most);
  const parts = old === "" ? ["", ...text, ""] : text.split(old);
  return parts.reduce((whole, piece, index) => whole + (index <= times ? by : old) + piece);
}

function calendarTime(text: string) {
  const [, year, month, day] = /^(\d{4})-(\d{2})-(\d{2})T/.exec(text) ?? [];
  const date = new Date(`${year}-${month}-${day}T00:00:00Z`);
  if (date.toISOString().slice(0, 10) !== `${year}-${month}-${day}`) throw new Error("not in the calendar");
  const match = /^(.{19})(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})$/.exec(text);
  if (match === null || !/T([01]\d|2[0-3])(:[0-5]\d){2}$/.test(match[1] ?? "")) throw new Error("no time");
  const [, local, fraction = "", zone = "Z"] = match;
  if (zone !== "Z" && !/^.([01]\d|2[0-3]):[0-5]\d$/.test(zone)) throw new Error("no zone");
  const ms = Date.parse(`${local}Z`) - (zone === "Z" ? 0 : offsetMs(zone));
  return timestampWith(ms, Number(fraction.padEnd(9, "0")));
}

const offsetMs = (zone: string): number =>
  (Number(zone.slice(1, 3)) * 60 + Number(zone.slice(4))) * 60_000 * (zone.startsWith("-") ? -1 : 1);

function timestampWith(ms: number, nanos: number) {
  if (ms < -62_135_596_800_000 || ms >= 253_402_300_800_000) throw new Error("outside");
  return reflect(TimestampSchema, create(TimestampSchema, { seconds: BigInt(ms) / 1000n, nanos }));
}

function localTime(text: string) {
  const match = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?(\.\d{1,9})?)?$/.exec(text.trim());
  if (match === null || (match[4] !== undefined && match[3] === undefined)) throw new Error("no date");
  return calendarTime(`${match[1]}T${match[2] ?? "00:00"}${match[3] ?? ":00"}${match[4] ?? ""}Z`);
}

const refuses = (): never => {
  throw new Error("not supported");
};

/** The library's own reading of a duration. */
const LIBRARY_DURATION = [...celEnv().funcs].find(({ id }) => id === "duration(string)") as unknown as {
  readonly call: (id: number, target: undefined, args: readonly string[]) => unknown;
};

/** Functions that differ from the library's. Each is named by what the rules promise. */
export const DEVIATIONS: readonly CelFunc[] = [
  // An int with a double gives a double, `%` takes whole doubles, and results are finite.
  ...onNumbers("_+_", (left, right) => left + right),
  ...onNumbers("_-_", (left, right) => left - right),
  ...onNumbers("_*_", (left, right) => left * right),
  ...onNumbers("_/_", (left, right) => left / right),
  ...onNumbers("_%_", modulo),
  // A text is a number only as JSON writes it, and a whole number only in decimal digits.
  celFunc("double", [STRING], DOUBLE, (text: string) => {
    if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) throw new Error("no number");
    return finite(Number(text));
  }),
  celFunc("int", [STRING], INT, (text: string) => {
    if (!/^[+-]?\d{1,19}$/.test(text)) throw new Error("no whole number");
    const whole = BigInt(text.replace("+", ""));
    if (BigInt.asIntN(64, whole) !== whole) throw new Error("beyond 64 bits");
    return whole;
  }),
  // A duration is no number.
  celFunc("int", [DURATION], INT, refuses),
  celFunc("duration", [INT], DURATION, refuses),
  // An empty text is no duration.
  celFunc("duration", [STRING], DURATION, ((text: string) => {
    if (!/[0-9]/.test(text)) throw new Error("no duration");
    return LIBRARY_DURATION.call(0, undefined, [text]);
  }) as never),
  // A whole number is seconds since 1970, and a text names a day of the calendar.
  celFunc("timestamp", [INT], TIMESTAMP, (seconds: bigint) => timestampWith(Number(seconds) * 1000, 0) as never),
  celFunc("timestamp", [STRING], TIMESTAMP, (text: string) => calendarTime(text) as never),
  // Indices count characters, and a whole double is an index.
  ...indexed(
    "charAt",
    0,
    STRING,
    (text: string, at: Numeric) => [...text][indexWithin(at, [...text].length)] ?? "",
    false,
  ),
  ...indexed("indexOf", 1, INT, (text: string, needle: string, from?: Numeric) => {
    const characters = [...text];
    const start = from === undefined ? 0 : indexWithin(from, characters.length - 1);
    return find(characters, [...needle], upwards(start, characters.length - [...needle].length));
  }),
  ...indexed("lastIndexOf", 1, INT, (text: string, needle: string, from?: Numeric) => {
    const characters = [...text];
    const last = characters.length - [...needle].length;
    const start = from === undefined ? last : Math.min(indexWithin(from, characters.length - 1), last);
    return find(characters, [...needle], downwards(start));
  }),
  ...indexed("substring", 0, STRING, substring, false),
  ...[INT, DOUBLE].flatMap((from) =>
    [INT, DOUBLE].map((to) =>
      celMethod("substring", STRING, [from, to], STRING, function (this: string, start: Numeric, end: Numeric) {
        return substring(this, start, end);
      }),
    ),
  ),
  // The last part of a split keeps the rest, and an empty text is found between characters.
  ...indexed("split", 1, LIST, split),
  ...indexed("replace", 2, STRING, replace),
  // A list has whole indices within it, and an object the keys that are there.
  celFunc("@index", [DYN, DYN], DYN, ((value: unknown, key: unknown) => {
    const isKey =
      typeof key === "string" || typeof key === "bigint" || typeof key === "boolean" || typeof key === "number";
    const isWhole = typeof key === "bigint" || (typeof key === "number" && Number.isInteger(key));
    const found = isCelList(value)
      ? isWhole
        ? value.get(Number(key))
        : undefined
      : isCelMap(value) && isKey
        ? value.get(key)
        : undefined;
    if (found === undefined) throw new Error("nothing there");
    return found;
  }) as never),
  // An object of which a member is asked for has members.
  celFunc("@has", [DYN, STRING], BOOL, ((value: unknown, name: string) => {
    if (!isCelMap(value)) throw new Error("no members");
    return value.has(name);
  }) as never),
] as unknown as CelFunc[];

/** Functions that the library does not have. */
function ownFunctions(lists: NaiveLists): CelFunc[] {
  return [
    celFunc("sum", [LIST], DOUBLE, naiveSum as never),
    celFunc("fold", [STRING], STRING, (text: string) => foldNaively(text)),
    celFunc("date", [STRING], TIMESTAMP, (text: string) => localTime(text) as never),
    celFunc("date", [TIMESTAMP], TIMESTAMP, ((time: unknown) => time) as never),
    celFunc("host", [STRING], STRING, naiveHost),
    celFunc("email_domain", [STRING], STRING, naiveEmailDomain),
    celFunc("path_inside", [STRING, STRING], BOOL, naivePathInside),
    celFunc("in_list", [STRING, STRING], BOOL, (text: string, name: string) => lists(name, text)),
  ] as unknown as CelFunc[];
}

/** Adds amounts as fractions of whole numbers. */
function naiveSum(list: unknown): number {
  if (!isCelList(list)) throw new Error("no list");
  let millionths = 0n;
  for (const amount of list) {
    if (typeof amount !== "number" && typeof amount !== "bigint") throw new Error("no number");
    const [, sign = "", whole = "", fraction = ""] =
      /^(-?)(\d+)(?:\.(\d{1,6}))?$/.exec(plainDecimal(Number(amount))) ?? [];
    if (whole === "" || BigInt(whole) > 999_999_999n || Math.abs(Number(amount)) > 999_999_999)
      throw new Error("no amount");
    millionths += BigInt(`${sign}${whole}${fraction.padEnd(6, "0")}`);
  }
  const digits = (millionths < 0n ? -millionths : millionths).toString().padStart(7, "0");
  return Number(`${millionths < 0n ? "-" : ""}${digits.slice(0, -6)}.${digits.slice(-6)}`);
}

/** Writes a number without an exponent, if it is not smaller than a millionth. */
const plainDecimal = (number: number): string =>
  (number !== 0 && Math.abs(number) < 1e-6 ? "" : String(number))
    .replace(/^1e-6$/, "0.000001")
    .replace(/^(-?)(\d)(?:\.(\d+))?e-6$/, "$10.00000$2$3");

function naiveHost(url: string): string {
  const text = url.trim();
  if (text.length > 8_192 || !/^[a-z][a-z0-9+.-]*:\/\/[^/?#]{0,300}($|[/?#])/i.test(text) || /[\\\s\p{Cc}]/u.test(text))
    throw new Error("no URL");
  const { hostname } = new URL(text);
  return naiveDomain(hostname);
}

function naiveDomain(name: string): string {
  if (/^\[.*\]$/.test(name)) return name.toLowerCase();
  const ascii = domainToASCII(name).toLowerCase().replace(/\.$/, "");
  if (!/^[^.]+(\.[^.]+)*$/.test(ascii)) throw new Error("no host");
  return ascii;
}

function naiveEmailDomain(address: string): string {
  const match = /^[^@]+@([^@]{1,300})$/.exec(address.trim());
  if (match === null || address.trim().length > 1_024 || /[\\\s<>(),;:"\p{Cc}]/u.test(address.trim()))
    throw new Error("no address");
  return naiveDomain(match[1] ?? "");
}

function naivePathInside(path: string, folder: string): boolean {
  const [inner, outer] = [path, folder].map((each) => {
    if (each === "" || each.includes("\0") || /^~|^[a-z]:($|[^/\\])|^[/\\][/\\]/i.test(each))
      throw new Error("no path");
    const slashed = each.replaceAll("\\", "/").replace(/^[A-Za-z](?=:\/)/, (drive) => `/${drive.toLowerCase()}`);
    const isDrive = /^\/[a-z]:\//.test(slashed) && !/^[/\\]/.test(each);
    const [root, rest] = isDrive
      ? [slashed.slice(1, 3), slashed.slice(3)]
      : slashed.startsWith("/")
        ? ["/", slashed]
        : ["", slashed];
    return {
      root,
      path:
        posix.normalize(root === "" ? rest : rest.replace(/^\/*/, "/")).replace(/\/+$/, "") ||
        (root === "" ? "." : "/"),
    };
  });
  if (inner === undefined || outer === undefined) throw new Error("no path");
  if ((inner.root === "") !== (outer.root === "")) throw new Error("relative and absolute");
  if (inner.root !== outer.root) return false;
  const relative = posix.relative(
    `/start/at/a/deep/place/of/no/name/${outer.path}`,
    `/start/at/a/deep/place/of/no/name/${inner.path}`,
  );
  return !/^\.\.(\/|$)/.test(relative);
}
