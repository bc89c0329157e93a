import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { type ArgumentStep, argumentPath } from "../notation/argument-path.ts";
import { type Comparable, comparableFrom, isJsonObject, ownValue } from "../policy/json-value.ts";

/** A number or text among arguments, with its place. */
export interface ArgumentValue {
  readonly path: string;
  readonly steps: readonly ArgumentStep[];
  readonly value: number | string;
  /** Object that holds the value, or that holds the array that does. */
  readonly parent: JsonObject;
}

/** Maximum number of values of one action that are looked at, and of values at one path of it. */
const MAX_VALUES = 2_000;
const MAX_AT_PATH = 100;
/** Maximum depth of a value, as in a request. */
const MAX_DEPTH = 64;

/** Lists the numbers and texts among arguments in their order, the first 2,000 values looked at. Names in `without` are left out at the top. */
export function argumentValues(args: JsonObject, without: ReadonlySet<string>): readonly ArgumentValue[] {
  const found: ArgumentValue[] = [];
  let seen = 0;
  const walk = (value: JsonValue, parent: JsonObject, steps: readonly ArgumentStep[]): void => {
    if (++seen > MAX_VALUES || steps.length > MAX_DEPTH) return;
    if (typeof value === "number" || typeof value === "string") {
      found.push({ path: argumentPath(steps), steps, value, parent });
    } else if (Array.isArray(value)) {
      for (const element of value) {
        if (seen > MAX_VALUES) return;
        walk(element, parent, [...steps, null]);
      }
    } else if (isJsonObject(value)) walkMembers(value, steps);
  };
  const walkMembers = (object: JsonObject, steps: readonly ArgumentStep[]): void => {
    for (const name of Object.keys(object)) {
      if (seen > MAX_VALUES) return;
      if (steps.length > 0 || !without.has(name)) walk(object[name] as JsonValue, object, [...steps, name]);
    }
  };
  walkMembers(args, []);
  return found;
}

/** Lists the values at a path, at most 100, each with the object beside whose members it stands. */
export function valuesAt(
  args: JsonObject,
  steps: readonly ArgumentStep[],
): readonly Pick<ArgumentValue, "value" | "parent">[] {
  const found: Pick<ArgumentValue, "value" | "parent">[] = [];
  let seen = 0;
  const walk = (value: JsonValue | undefined, parent: JsonObject, depth: number): void => {
    if (++seen > MAX_VALUES || found.length >= MAX_AT_PATH) return;
    const step = steps[depth];
    if (step === undefined) {
      if (typeof value === "number" || typeof value === "string") found.push({ value, parent });
    } else if (step !== null && isJsonObject(value)) walk(ownValue(value, step), value, depth + 1);
    else if (step === null && Array.isArray(value)) {
      for (const element of value) {
        if (seen > MAX_VALUES || found.length >= MAX_AT_PATH) return;
        walk(element, parent, depth + 1);
      }
    }
  };
  walk(args, args, 0);
  return found;
}

/** Currency of an amount: as written, and as it is compared. */
export interface Currency {
  readonly text: string;
  readonly code: Comparable;
}

/** Longest text that is taken for a currency. */
const MAX_CURRENCY = 32;

/**
 * Reads the currency of an amount from the arguments beside it, as conditions with a `currency` do: undefined if there is none, null
 * if they contradict each other.
 */
export function currencyOf({ steps, parent }: Pick<ArgumentValue, "steps" | "parent">): Currency | null | undefined {
  const name = steps.findLast((step) => step !== null) ?? "";
  const present = ["currency", "currency_code", `${name}_currency`].flatMap((sibling) => {
    const value = ownValue(parent, sibling);
    return value === undefined || value === null ? [] : [value];
  });
  if (present.length === 0) return undefined;
  const [first] = present;
  if (typeof first !== "string" || first.length > MAX_CURRENCY) return null;
  const text = first.trim();
  const code = comparableFrom(first);
  if (text === "" || code === undefined) return null;
  const agrees = present.every(
    (value) => typeof value === "string" && value.length <= MAX_CURRENCY && comparableFrom(value) === code,
  );
  return agrees ? { text, code } : null;
}

/** Arguments that may be shorter than they were. */
export interface CutArguments {
  readonly arguments: JsonObject | undefined;
  readonly isCut: boolean;
}

/** Bytes that a value takes beside its text: quotes, a colon and a comma. */
const BESIDE = 4;

/** Cuts arguments to about a number of bytes of JSON: texts are cut where the room ends, and what follows is left out. */
export function cutArguments(args: JsonObject | undefined, maxBytes: number): CutArguments {
  if (args === undefined || Object.keys(args).length === 0) return { arguments: undefined, isCut: false };
  let left = maxBytes;
  let isCut = false;
  const take = (bytes: number): boolean => {
    left -= bytes + BESIDE;
    if (left < 0) isCut = true;
    return left >= 0;
  };
  const textOf = (text: string): string => {
    const room = left;
    if (take(Buffer.byteLength(text))) return text;
    return Buffer.from(text.slice(0, Math.max(room, 0)))
      .subarray(0, Math.max(room, 0))
      .toString()
      .replace(/\ufffd+$/, "");
  };
  const cut = (value: JsonValue): JsonValue => {
    if (typeof value === "string") return textOf(value);
    if (Array.isArray(value)) {
      take(0);
      const kept: JsonValue[] = [];
      for (const element of value) {
        if (left <= 0) {
          isCut = true;
          break;
        }
        kept.push(cut(element));
      }
      return kept;
    }
    if (isJsonObject(value)) return cutObject(value);
    take(String(value).length);
    return value;
  };
  const cutObject = (object: JsonObject): JsonObject => {
    take(0);
    const kept: [string, JsonValue][] = [];
    for (const name of Object.keys(object)) {
      if (left <= 0 || !take(Buffer.byteLength(name))) {
        isCut = true;
        break;
      }
      kept.push([name, cut(object[name] as JsonValue)]);
    }
    return Object.fromEntries(kept);
  };
  const kept = cutObject(args);
  return { arguments: kept, isCut };
}
