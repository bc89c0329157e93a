import type { JsonValue } from "@bufbuild/protobuf";
import type { FlattenedArgument } from "../../policy/types.ts";
import { expressionOf, type Node, type NodeOf } from "../../policy/when/tree.ts";
import { shown, valuesFor } from "../condition-values.ts";
import type { TestedAction } from "../mandate-test.ts";
import type { NaivePatterns } from "../naive/naive-patterns.ts";
import { type Atom, nodesOf } from "./parts.ts";
import { argumentOf, isSamePlace, nameOf, type Place, type Places, placeOf, valueAt, withPlace } from "./places.ts";
import { changesOf, type Truths } from "./truths.ts";

/** A value to try at a place. */
export interface TriedValue {
  /** End of a name: `just above 500`. */
  readonly label: string;
  /** Undefined takes the member away. */
  readonly value: JsonValue | undefined;
}

/** Everything that values are made from. */
export interface ValueSource {
  readonly truths: Truths;
  readonly patterns: NaivePatterns;
  /** Arguments that the rule's tool declares, by path. */
  readonly declared: ReadonlyMap<string, FlattenedArgument>;
}

/** A place that an atom reads, with values that may change its truth, the likeliest to make it true first. */
export interface TriedPlace {
  readonly place: Place;
  readonly name: string;
  readonly values: readonly TriedValue[];
  /** True if its values are keys of a map in the expression, each with a bound of its own. */
  readonly isKey: boolean;
}

/** Maximum number of values of one place that come from one use of it. */
const MAX_VALUES = 12;
const MAX_NAME = 80;
/** Distance of a number from the one that it is just above or below; trust is held in tenths. */
const STEP = 0.01;
const TRUST_STEP = 0.1;

/** A read within an atom, and the functions of one value around it, from the inside out. */
interface Use {
  readonly node: Node;
  readonly place: Place;
  readonly wraps: readonly string[];
  /** The read with these functions. */
  readonly operand: Node;
  /** The node around the operand; undefined if it is the atom. */
  readonly user: Node | undefined;
}

/** Lists the values to try for each place that an atom reads, on an action. */
export function valuesOf(atom: Atom, tested: TestedAction, source: ValueSource): readonly TriedPlace[] {
  const found: { place: Place; name: string; values: TriedValue[]; isKey: boolean }[] = [];
  for (const use of usesOf(atom)) {
    const values = [...explicitValues(use, atom, tested, source), ...searchedValues(use, atom, tested, source)];
    const known = found.find(({ place }) => isSamePlace(place, use.place));
    if (known !== undefined) known.values.push(...values);
    else {
      const isKey = use.user?.kind === "index" && use.user.object.kind === "map";
      found.push({ place: use.place, name: nameOf(use.place).slice(0, MAX_NAME), values: [...values], isKey });
    }
  }
  return found.map(({ values, ...rest }) => ({ ...rest, values: distinct(values) }));
}

function distinct(values: readonly TriedValue[]): readonly TriedValue[] {
  const byValue = new Map<string, TriedValue>();
  for (const tried of values) {
    const key = tried.value === undefined ? "missing" : JSON.stringify(tried.value);
    if (!byValue.has(key)) byValue.set(key, tried);
  }
  return [...byValue.values()];
}

function* usesOf({ node, places }: Atom): Generator<Use> {
  for (const { node: read, parents, places: here } of nodesOf(node, places)) {
    const place = placeOf(read, here);
    const [parent] = parents;
    if (place === undefined || (parent !== undefined && placeOf(parent, here) !== undefined)) continue;
    if (place.path.length === 0 && (place.source === "args" || place.source === "metadata")) continue;
    const wraps: string[] = [];
    let operand: Node = read;
    let at = 0;
    for (; parents[at]?.kind === "call"; at++) {
      const call = parents[at] as NodeOf<"call">;
      if (call.args.length !== 1) break;
      wraps.push(call.name);
      operand = call;
    }
    yield { node: read, place, wraps, operand, user: parents[at] };
  }
}

/** Sets each member that an atom reads and that is missing to a value of the kind that it seems to have. */
export function withMembers(atom: Atom, tested: TestedAction): TestedAction {
  let filled = tested;
  for (const use of usesOf(atom)) {
    const isMember = use.place.source === "args" || use.place.source === "metadata";
    const value = isMember && valueAt(use.place, filled) === undefined ? plausible(use, tested) : undefined;
    if (value !== undefined) filled = withPlace(filled, use.place, value);
  }
  return filled;
}

/** Returns a value of the kind that the surroundings of a read take; undefined if they say nothing. */
function plausible({ node, operand, user, wraps }: Use, { atMs }: TestedAction): JsonValue | undefined {
  if (node.kind === "has") return undefined;
  const [inner] = wraps;
  switch (inner) {
    case undefined: {
      if (user?.kind !== "binary") return undefined;
      const other = user.left === operand ? user.right : user.left;
      if (user.operator === "==" || user.operator === "!=") return other.kind === "literal" ? undefined : "x";
      if (user.operator === "in") return undefined;
      return other.kind === "literal" && typeof other.value === "string" ? undefined : 1;
    }
    case "int":
    case "double":
      return "1";
    case "duration":
      return "1s";
    case "timestamp":
      return isoTime(atMs);
    case "date":
      return isoTime(atMs)?.slice(0, 10);
    default:
      return undefined;
  }
}

/** Operators of conditions that stand for functions of texts. */
const AS_CONDITION: ReadonlyMap<string, string> = new Map([
  ["contains", "contains"],
  ["startsWith", "starts_with"],
  ["endsWith", "ends_with"],
  ["matches", "matches"],
  ["in_list", "in_list"],
]);

const BOOLEANS: readonly TriedValue[] = [
  { label: "true", value: true },
  { label: "false", value: false },
];

/** Lists values that the atom names beside a read. */
function explicitValues(use: Use, { node, places }: Atom, tested: TestedAction, source: ValueSource): TriedValue[] {
  const { place, operand, user } = use;
  if (use.node.kind === "has") return [{ label: "present", value: valueAt(place, tested) ?? "x" }];
  if (user === undefined) return operand === node && use.wraps.length === 0 ? [...BOOLEANS] : [];
  switch (user.kind) {
    case "binary":
      return besideOperator(use, user, places, tested, source);
    case "call": {
      const [receiver, other] = user.args;
      const literal = other?.kind === "literal" ? other.value : undefined;
      if (receiver !== operand || typeof literal !== "string") return [];
      if (user.name === "path_inside") return pathsAround(literal);
      const operator = AS_CONDITION.get(user.name);
      return operator === undefined ? [] : texts(use, operator, literal, source);
    }
    case "index": {
      if (user.key !== operand || user.object.kind !== "map") return [];
      const keys = user.object.entries.flatMap(([key]) => (key.kind === "literal" ? [key.value] : []));
      const names = keys.filter((key) => typeof key === "string");
      return [
        ...names.slice(0, MAX_VALUES).map((name): TriedValue => ({ label: `\`${name}\``, value: name })),
        { label: "another text", value: "something else" },
      ];
    }
    case "macro":
      return user.range === operand && use.wraps.length === 0 ? [{ label: "without elements", value: [] }] : [];
    default:
      return [];
  }
}

function besideOperator(
  use: Use,
  { operator, left, right }: NodeOf<"binary">,
  places: Places,
  tested: TestedAction,
  source: ValueSource,
): TriedValue[] {
  const { operand, place } = use;
  const other = left === operand ? right : left;
  if (operator === "in") {
    if (left === operand && right.kind === "list") {
      const values = right.elements.flatMap((element) => (element.kind === "literal" ? [element.value] : []));
      return texts(use, "in", values.map(plain), source);
    }
    if (right !== operand || left.kind !== "literal") return [];
    const value = plain(left.value);
    return [
      { label: `with ${shown(value as never)}`, value: [value] },
      { label: "with another element", value: ["something else"] },
      { label: "without elements", value: [] },
    ];
  }
  if (other.kind !== "literal") {
    const same = placeOf(other, places);
    if (same === undefined || use.wraps.length > 0) return [];
    const value = valueAt(same, tested) ?? "x";
    return [
      { label: `as \`${expressionOf(other).slice(0, MAX_NAME)}\``, value },
      { label: "another text", value: "something else" },
    ];
  }
  const value = plain(other.value);
  if (typeof value === "boolean") return value ? [...BOOLEANS] : BOOLEANS.toReversed();
  if (typeof value === "string" && (operator === "==" || operator === "!=")) return texts(use, "==", value, source);
  if (typeof value !== "number" || use.wraps.length > 0) return [];
  return numbersAround(value, stepOf(place, source));
}

const plain = (value: NodeOf<"literal">["value"]): JsonValue => (typeof value === "bigint" ? Number(value) : value);

/** Lists the values that a condition with an operator has, each written so that the functions around the read see it. */
function texts({ place, wraps }: Use, operator: string, value: JsonValue, source: ValueSource): TriedValue[] {
  const condition = { field: "", operator, value: value as never };
  const facts = {
    types: ["string"],
    elementTypes: undefined,
    enum: source.declared.get(argumentOf(place) ?? "")?.enum ?? [],
  };
  const tried = valuesFor(condition, facts as never, source.patterns);
  const write = wraps.includes("host")
    ? (text: string): string => `https://${text}/`
    : wraps.includes("email_domain")
      ? (text: string): string => `someone@${text}`
      : (text: string): string => text;
  return tried
    .filter(({ value: each }) => each !== undefined && each !== null)
    .slice(0, MAX_VALUES)
    .map(({ label, value: each }) => ({ label, value: typeof each === "string" ? write(each) : (each as JsonValue) }));
}

function pathsAround(folder: string): TriedValue[] {
  const base = folder.replace(/\/+$/, "");
  return [`${base}/a`, folder, `${base}/../a`, `${base}x/a`, `${base}/a/../../b`, `${base}\\..\\a`].map((path) => ({
    label: `\`${path}\``,
    value: path,
  }));
}

const plus = (number: number, step: number): number => Number((number + step).toPrecision(15));

function numbersAround(bound: number, step: number): TriedValue[] {
  return [
    { label: `at ${bound}`, value: bound },
    { label: `just above ${bound}`, value: plus(bound, step) },
    { label: `just below ${bound}`, value: plus(bound, -step) },
    { label: `far above ${bound}`, value: plus(bound, 1_000) },
    { label: `far below ${bound}`, value: plus(bound, -1_000) },
  ];
}

function stepOf(place: Place, { declared }: ValueSource): number {
  if (place.source === "trust") return TRUST_STEP;
  const types = declared.get(argumentOf(place) ?? "")?.types ?? [];
  return types.includes("integer") && !types.includes("number") ? 1 : STEP;
}

const COMPARISONS: ReadonlySet<string> = new Set(["==", "!=", "<", "<=", ">", ">="]);
const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const YEAR_MS = 365 * DAY_MS;
/** Maximum characters or elements of a value whose size is searched. */
const MAX_SIZE = 2_000;

/** A form in which a place holds a number that is searched. */
interface Form {
  readonly step: number;
  readonly tried: readonly number[];
  /** Undefined for a number that the place cannot hold. */
  readonly write: (number: number) => JsonValue | undefined;
}

/** Lists values on both sides of each number at which a comparison changes. */
function searchedValues(use: Use, atom: Atom, tested: TestedAction, source: ValueSource): TriedValue[] {
  const { closed } = atom;
  if (closed.kind !== "binary" || !COMPARISONS.has(closed.operator)) return [];
  const isEquality = closed.operator === "==" || closed.operator === "!=";
  return formsOf(use, atom, tested, source).flatMap(({ step, tried, write }) => {
    // Two sides become equal at, or next to, the number at which one passes the other.
    const comparison: Node = isEquality && use.place.source !== "now" ? { ...closed, operator: "<" } : closed;
    const truthAt = (number: number): boolean | undefined => {
      const value = write(number);
      return value === undefined ? undefined : source.truths.of(comparison, withPlace(tested, use.place, value));
    };
    const own = valueAt(use.place, tested);
    const changes = changesOf(truthAt, tried, step, typeof own === "number" ? own : tested.atMs);
    const numbers = changes.flatMap(([before, after]) =>
      use.place.source === "now" ? [before, after] : [before, after, plus(before, -step), plus(after, step)],
    );
    return numbers.flatMap((number): TriedValue[] => {
      const value = write(number);
      if (value === undefined) return [];
      const text = use.place.source === "now" ? new Date(number).toISOString() : shown(value as never);
      return [{ label: `near a bound (${text})`, value }];
    });
  });
}

function formsOf({ place, wraps }: Use, atom: Atom, tested: TestedAction, source: ValueSource): readonly Form[] {
  if (place.source === "now") return [{ step: 1, tried: timesAround(tested.atMs), write: timeWithin }];
  if (place.source === "type" || place.source === "content" || place.source === "departments") return [];
  const [inner] = wraps;
  switch (inner) {
    case undefined: {
      const own = valueAt(place, tested);
      if (Array.isArray(own) || typeof own === "object") return [];
      const write = place.source === "trust" ? trustWithin : (number: number): number => number;
      return [{ step: stepOf(place, source), tried: numbersIn(atom, tested), write }];
    }
    case "int":
      return [{ step: 1, tried: numbersIn(atom, tested), write: String }];
    case "double":
      return [{ step: STEP, tried: numbersIn(atom, tested), write: String }];
    case "duration":
      return [{ step: 1, tried: durations(), write: (seconds) => `${seconds}s` }];
    case "timestamp":
      return [{ step: 1, tried: timesAround(tested.atMs), write: (ms) => isoTime(ms) }];
    case "date":
      return [
        { step: DAY_MS, tried: timesAround(tested.atMs), write: (ms) => isoTime(ms)?.slice(0, 10) },
        { step: SECOND_MS, tried: timesAround(tested.atMs), write: (ms) => isoTime(ms)?.slice(0, 19) },
      ];
    case "size":
      return [{ step: 1, tried: numbersIn(atom, tested), write: (size) => ofSize(valueAt(place, tested), size) }];
    default:
      return [];
  }
}

const trustWithin = (trust: number): number | undefined => (trust >= 0 && trust <= 100 ? trust : undefined);
const timeWithin = (ms: number): number | undefined => (isoTime(ms) === undefined ? undefined : ms);

/** Writes a time of the years 1971 to 2199; undefined for any other. */
function isoTime(ms: number): string | undefined {
  return ms >= YEAR_MS && ms < Date.UTC(2200, 0, 1) ? new Date(ms).toISOString() : undefined;
}

function ofSize(own: JsonValue | undefined, size: number): JsonValue | undefined {
  if (size < 0 || size > MAX_SIZE) return undefined;
  if (!Array.isArray(own)) return "x".repeat(size);
  const [first = "x"] = own;
  return Array.from({ length: size }, () => first);
}

/** Lists times at which a comparison with the time may have changed: every hour of a day, every day of a week, months and years. */
function timesAround(nowMs: number): readonly number[] {
  const hours = Array.from({ length: 25 }, (_, hour) => nowMs + hour * HOUR_MS);
  const days = [1, 2, 3, 4, 5, 6, 7, 30, 60, 90, 180, 365, 730, 1_826, 3_652, 18_262].map((count) => count * DAY_MS);
  return [...hours, ...days.flatMap((offset) => [nowMs + offset, nowMs - offset])];
}

const durations = (): readonly number[] =>
  [0, 1, 60, 3_600, 86_400, 604_800, 2_592_000, 31_536_000, 315_360_000].flatMap((each) => [each, -each]);

/** Lists numbers that an atom names, and powers of ten. */
function numbersIn({ node, places }: Atom, tested: TestedAction): readonly number[] {
  const named: number[] = [];
  for (const { node: each, places: here } of nodesOf(node, places)) {
    const value = each.kind === "literal" ? plain(each.value) : undefined;
    const place = placeOf(each, here);
    const read = place === undefined || place.source === "now" ? undefined : valueAt(place, tested);
    for (const number of [value, read]) if (typeof number === "number" && Math.abs(number) < 1e9) named.push(number);
  }
  const powers = [1, 10, 100, 1_000, 10_000, 1e6, 1e8];
  return [0, ...named, ...powers, ...powers.map((power) => -power)];
}
