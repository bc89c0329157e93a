import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Escalation } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { moneyText } from "../../kit/money.ts";

/** An argument that a reason of the escalation names. */
export interface FiredArgument {
  /** Path of the tool's flattened schema: `customer.email`, `lines[].amount`. */
  readonly path: string;
  /** Its value; the list of values where the path reaches elements. Undefined if the action does not send it. */
  readonly value: JsonValue | undefined;
  /** Currency that an argument beside it names; undefined for anything but an amount. */
  readonly currency: string | undefined;
}

type Asked = Pick<Escalation, "arguments" | "metadata" | "reasons">;

/** A step of a path: into the elements of a list, a quoted member, or a member. */
const STEP = /\[\]|\["(?:[^"\\]|\\.)*"\]|[^.[\]"]+/g;
/** Members read while amounts are looked for: arguments may have a megabyte. */
const MAX_MEMBERS = 1_000;
/** Names of numbers that are money when a currency stands beside them. */
const AMOUNT = /amount|total|price|cost|sum|fee|value|balance|payment|budget|spend|charge|refund|salary|limit/i;
const CURRENCY = /^[a-z]{3}$/i;

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function memberOf(parent: JsonValue | undefined, name: string): JsonValue | undefined {
  return isObject(parent) && Object.hasOwn(parent, name) ? parent[name] : undefined;
}

/** Reads the steps of a path; null stands for the step into elements. */
function stepsOf(path: string): readonly (string | null)[] {
  return (path.match(STEP) ?? []).map((step) => {
    if (step === "[]") return null;
    if (!step.startsWith("[")) return step;
    try {
      return JSON.parse(step.slice(1, -1)) as string;
    } catch {
      return step;
    }
  });
}

/** Returns the function that gives the currency beside a number, in capitals; undefined for a number that is no amount. */
export function currenciesIn(parent: JsonObject): (name: string) => string | undefined {
  const shared = memberOf(parent, "currency") ?? memberOf(parent, "currency_code");
  const hasOneNumber = Object.values(parent).filter((value) => typeof value === "number").length === 1;
  return (name) => {
    const currency = memberOf(parent, `${name}_currency`) ?? (hasOneNumber || AMOUNT.test(name) ? shared : undefined);
    return typeof currency === "string" && CURRENCY.test(currency) ? currency.toUpperCase() : undefined;
  };
}

function argumentAt(root: JsonObject, path: string): FiredArgument {
  const steps = stepsOf(path);
  const name = steps.findLast((step) => step !== null) ?? "";
  const last = steps.lastIndexOf(name);
  let places: readonly JsonValue[] = [root];
  let isList = false;
  const into = (step: string | null): void => {
    if (step === null) isList = true;
    places = places.flatMap((place) => {
      if (step === null) return Array.isArray(place) ? place : [];
      const member = memberOf(place, step);
      return member === undefined ? [] : [member];
    });
  };
  for (const step of steps.slice(0, last)) into(step);
  const parent = places[0];
  for (const step of steps.slice(last)) into(step);
  if (steps.length === 0) return { path, value: undefined, currency: undefined };
  const value = isList && places.length !== 1 ? (places.length === 0 ? undefined : [...places]) : places[0];
  const isNumber = typeof places[0] === "number";
  return { path, value, currency: isNumber && isObject(parent) ? currenciesIn(parent)(name) : undefined };
}

/** Returns the currency of the number at a path; undefined for a value that is no amount. */
export const currencyAt = (args: JsonObject, path: string): string | undefined => argumentAt(args, path).currency;

/** Returns the arguments that the reasons name, each once, in the order of the reasons. */
export function firedArguments({ arguments: args, metadata, reasons }: Asked): readonly FiredArgument[] {
  const paths = new Set(reasons.flatMap(({ argument }) => (argument === undefined ? [] : [argument])));
  return [...paths].map((path) => {
    const found = argumentAt(args ?? {}, path);
    // A rule without a schema reads the metadata too.
    return found.value === undefined && metadata !== undefined ? argumentAt(metadata, path) : found;
  });
}

/** Lists numbers of the arguments that are amounts by their names or by a currency beside them. */
function amountsIn(root: JsonObject): readonly FiredArgument[] {
  const found: FiredArgument[] = [];
  const open: { readonly path: string; readonly value: JsonValue }[] = [{ path: "", value: root }];
  // The list grows while it is read, level by level.
  for (const { path, value: place } of open) {
    if (open.length > MAX_MEMBERS) break;
    if (Array.isArray(place)) {
      for (const value of place.slice(0, MAX_MEMBERS)) open.push({ path: `${path}[]`, value });
    } else if (isObject(place)) {
      const currencyOf = currenciesIn(place);
      for (const [name, value] of Object.entries(place).slice(0, MAX_MEMBERS)) {
        const own = path === "" ? name : `${path}.${name}`;
        if (typeof value === "object" && value !== null) open.push({ path: own, value });
        if (typeof value !== "number") continue;
        const currency = currencyOf(name);
        if (currency !== undefined || AMOUNT.test(name)) found.push({ path: own, value, currency });
      }
    }
  }
  return found;
}

const sizeOf = ({ value }: FiredArgument): number => {
  const numbers = (Array.isArray(value) ? value : [value]).filter((each) => typeof each === "number");
  return numbers.length === 0 ? Number.NEGATIVE_INFINITY : Math.max(...numbers);
};

/** Returns the largest amount of some arguments; undefined if there is none. */
export function largestAmount(args: JsonObject): FiredArgument | undefined {
  const [first, ...others] = amountsIn(args);
  return first === undefined
    ? undefined
    : others.reduce((most, each) => (sizeOf(each) > sizeOf(most) ? each : most), first);
}

/**
 * Returns the argument that says most about an escalation: the first that fired, else the largest amount, else the first
 * argument. Undefined if it has none; its content then stands for it.
 */
export function leadingArgument(escalation: Asked): FiredArgument | undefined {
  const [fired] = firedArguments(escalation);
  if (fired !== undefined) return fired;
  const args = escalation.arguments ?? {};
  const [name] = Object.keys(args);
  const first = name === undefined ? undefined : { path: name, value: args[name], currency: undefined };
  return largestAmount(args) ?? first;
}

/** Returns the amount by which escalations are ordered; undefined for one without an amount. */
export function amountOf(escalation: Asked): number | undefined {
  const args = escalation.arguments ?? {};
  const fired = firedArguments(escalation).find(
    (each) => each.currency !== undefined || (AMOUNT.test(each.path) && Number.isFinite(sizeOf(each))),
  );
  const amount = fired ?? largestAmount(args);
  return amount === undefined ? undefined : sizeOf(amount);
}

/** Writes a number: an amount with its currency and every digit that is sent, any other as it is. */
export function numberText(value: number, currency: string | undefined): string {
  return currency === undefined ? String(value) : moneyText(value, currency);
}

/** Writes the value of an argument in one line. */
export function valueText({ value, currency }: FiredArgument): string {
  if (value === undefined) return "not sent";
  if (typeof value === "string") return value;
  if (typeof value === "number") return numberText(value, currency);
  if (Array.isArray(value)) {
    const texts = value.slice(0, MAX_LISTED).map((each) => valueText({ path: "", value: each, currency }));
    const left = value.length - texts.length;
    return `${texts.join(", ")}${left > 0 ? ` and ${left} more` : ""}`;
  }
  return JSON.stringify(value)?.slice(0, MAX_JSON) ?? "";
}

/** Values of a list that are written. */
const MAX_LISTED = 3;
/** Characters of an object that are written. */
const MAX_JSON = 200;
