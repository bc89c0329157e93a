import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { argumentPath } from "../../notation/argument-path.ts";
import { isJsonObject, ownValue } from "../../policy/json-value.ts";
import type { Node } from "../../policy/when/tree.ts";
import type { TestedAction } from "../mandate-test.ts";

/** A value of an action that an expression reads and a test can set. */
export interface Place {
  readonly source: "args" | "metadata" | "trust" | "now" | "type" | "content" | "departments";
  /** Members and indices that lead to it in `args` or `metadata`. */
  readonly path: readonly (string | number)[];
}

/** Maximum index of an element that a test sets. */
const MAX_INDEX = 20;

/** Places of the variables of macros: the elements of their lists; undefined for one without a place. */
export type Places = ReadonlyMap<string, Place | undefined>;

/** Places that are read by a fixed name. */
const FIXED: ReadonlyMap<string, Place["source"]> = new Map([
  ["agent.trust", "trust"],
  ["agent.departments", "departments"],
  ["action.type", "type"],
  ["action.content", "content"],
]);

/** Returns the place that a node reads; undefined if it computes its value, or no test can set it. */
export function placeOf(node: Node, places: Places): Place | undefined {
  switch (node.kind) {
    case "name": {
      if (places.has(node.name)) return places.get(node.name);
      const { name } = node;
      return name === "args" || name === "metadata" || name === "now" ? { source: name, path: [] } : undefined;
    }
    case "member":
    case "has": {
      const { object, name } = node;
      const fixed =
        object.kind === "name" && !places.has(object.name) ? FIXED.get(`${object.name}.${name}`) : undefined;
      return fixed === undefined ? below(placeOf(object, places), name) : { source: fixed, path: [] };
    }
    case "index": {
      const { object, key } = node;
      if (key.kind !== "literal") return undefined;
      if (typeof key.value === "string") return below(placeOf(object, places), key.value);
      const index = Number(key.value);
      const isSmall = Number.isInteger(index) && index >= 0 && index <= MAX_INDEX && key.value !== null;
      return isSmall && typeof key.value !== "boolean" ? below(placeOf(object, places), index) : undefined;
    }
    default:
      return undefined;
  }
}

const below = (place: Place | undefined, step: string | number): Place | undefined =>
  place?.source === "args" || place?.source === "metadata" ? { ...place, path: [...place.path, step] } : undefined;

/** Returns the place of the elements of a list, also of a list that a macro makes of another; undefined if it has none. */
export function elementPlace(list: Node, places: Places): Place | undefined {
  if (list.kind !== "macro") return below(placeOf(list, places), 0);
  if (list.macro === "filter") return elementPlace(list.range, places);
  if (list.macro !== "map" || list.result === undefined) return undefined;
  return placeOf(list.result, new Map(places).set(list.variable, elementPlace(list.range, places)));
}

/** Writes the place of an argument as schemas do: `lines[].price`; undefined for any other place. */
export const argumentOf = ({ source, path }: Place): string | undefined =>
  source === "args" ? argumentPath(path.map((step) => (typeof step === "number" ? null : step))) : undefined;

const NAMES: Readonly<Record<Exclude<Place["source"], "args" | "metadata">, string>> = {
  trust: "agent.trust",
  departments: "agent.departments",
  type: "action.type",
  content: "action.content",
  now: "now",
};

/** Names a place: `args.lines[0].price`. */
export function nameOf({ source, path }: Place): string {
  if (source !== "args" && source !== "metadata") return NAMES[source];
  const steps = path.map((step) => {
    if (typeof step === "number") return `[${step}]`;
    const member = argumentPath([step]);
    return member.startsWith("[") ? member : `.${member}`;
  });
  return `${source}${steps.join("")}`;
}

/** Tests whether two places are the same. */
export const isSamePlace = (one: Place, other: Place): boolean =>
  one.source === other.source && JSON.stringify(one.path) === JSON.stringify(other.path);

/** Returns the value at a place of an action; undefined if it is missing. */
export function valueAt({ source, path }: Place, { action, agent, trust, atMs }: TestedAction): JsonValue | undefined {
  switch (source) {
    case "trust":
      return trust;
    case "now":
      return atMs;
    case "type":
      return action.actionType;
    case "content":
      return action.actionContent;
    case "departments":
      return [...agent.departmentIds];
    default: {
      const metadata = action.metadata ?? {};
      return path.reduce<JsonValue | undefined>(member, source === "args" ? argumentsIn(metadata) : metadata);
    }
  }
}

function member(value: JsonValue | undefined, step: string | number): JsonValue | undefined {
  if (typeof step === "number") return Array.isArray(value) ? value[step] : undefined;
  return isJsonObject(value) ? (ownValue(value, step) ?? undefined) : undefined;
}

const argumentsIn = ({ arguments: args }: JsonObject): JsonObject => (isJsonObject(args) ? args : {});

/** Returns an action with another value at a place, undefined to take it away; the action itself if it cannot have it. */
export function withPlace(tested: TestedAction, { source, path }: Place, value: JsonValue | undefined): TestedAction {
  const { action, agent } = tested;
  switch (source) {
    case "trust":
      return typeof value === "number" && value >= 0 && value <= 100
        ? { ...tested, trust: Math.round(value * 10) / 10 }
        : tested;
    case "now":
      return typeof value === "number" ? { ...tested, atMs: value } : tested;
    case "type":
      return typeof value === "string" && value.trim() !== ""
        ? { ...tested, action: { ...action, actionType: value } }
        : tested;
    case "content":
      return typeof value === "string" ? { ...tested, action: { ...action, actionContent: value } } : tested;
    case "departments":
      return Array.isArray(value) && value.every((id) => typeof id === "string")
        ? { ...tested, agent: { ...agent, departmentIds: value } }
        : tested;
    default: {
      const metadata = action.metadata ?? {};
      const within = source === "args" ? argumentsIn(metadata) : metadata;
      if (path.length === 0 && !isJsonObject(value)) return tested;
      const changed = put(within, path, value) as JsonObject;
      const next = source === "args" ? { ...metadata, arguments: changed } : changed;
      return { ...tested, action: { ...action, metadata: next } };
    }
  }
}

/** Returns a copy of a value with another one at the end of a path. A list that is too short gets copies of its first element. */
function put(
  value: JsonValue | undefined,
  [step, ...rest]: Place["path"],
  end: JsonValue | undefined,
): JsonValue | undefined {
  if (step === undefined) return end;
  if (typeof step === "number") {
    const list = Array.isArray(value) ? value : [];
    const [first] = list;
    const inner = put(list[step] ?? first, rest, end) ?? null;
    const filled = Array.from({ length: Math.max(list.length, step) }, (_, index) => list[index] ?? first ?? inner);
    return [...filled.slice(0, step), inner, ...filled.slice(step + 1)];
  }
  const object = isJsonObject(value) ? value : {};
  const { [step]: before, ...others } = object;
  const inner = put(before, rest, end);
  return inner === undefined ? others : { ...object, [step]: inner };
}
