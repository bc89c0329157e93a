import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { type ArgumentStep, argumentSteps, resultSteps } from "../notation/argument-path.ts";
import { BoundedValues } from "./bounded-values.ts";
import { findInJson, findInText } from "./found-values.ts";
import { jsonOf, structureOf } from "./structured-text.ts";

/** Declaration of what the results and arguments of a tool mean for provenance: paths, each covering everything below it. */
export interface ToolProvenance {
  /** Members of a result that are trusted, all others not; undefined if none are named. Never beside `freeFields`. */
  readonly trustedFields: readonly string[] | undefined;
  /** Members of a result that are not trusted, all others are; undefined if none are named. */
  readonly freeFields: readonly string[] | undefined;
  /** Arguments that name what an allowed call makes. */
  readonly sessionArguments: readonly string[];
  /** Members of a result that name what the call made. */
  readonly sessionFields: readonly string[];
}

/** The values of a result by their source, in the forms in which they compare. */
export interface ResultValues {
  readonly lookup: BoundedValues;
  readonly session: BoundedValues;
  readonly untrusted: BoundedValues;
}

/**
 * Finds the values of a tool's result, a text or JSON, by their source. Every value of a tool without a declaration is untrusted, and
 * so is a text that gives neither an object nor a list. Yields wherever other work may have a turn.
 */
export function* findInResult(
  declared: ToolProvenance | undefined,
  content: JsonValue,
): Generator<undefined, ResultValues> {
  const values = { lookup: new BoundedValues(), session: new BoundedValues(), untrusted: new BoundedValues() };
  const { trustedFields, freeFields, sessionFields = [] } = declared ?? {};
  const places = placesFrom([...marked("trusted", trustedFields ?? []), ...marked("session", sessionFields)]);
  const free = placesFrom(marked("free", freeFields ?? [], memberSteps));
  const intoOf = ({ isTrusted, isSession }: Standing): readonly BoundedValues[] => {
    if (!isTrusted && !isSession) return [values.untrusted];
    return [...(isTrusted ? [values.lookup] : []), ...(isSession ? [values.session] : [])];
  };
  const start = { place: places, free, isTrusted: (freeFields ?? []).length > 0, isSession: false };
  if (typeof content !== "string") {
    const isStructure = typeof content === "object" && content !== null;
    if (isStructure) yield* findBelow(content, start, intoOf);
    else yield* values.untrusted.collect((into) => findInJson(content, into));
    return values;
  }
  const structure = hasPaths(places) || hasPaths(free) ? yield* structureOf(content) : undefined;
  if (structure === undefined) {
    yield* values.untrusted.collect((into) => findInText(content, into));
    if (values.untrusted.isCut) return values;
    // The model reads a text of JSON without its escapes.
    const json = yield* jsonOf(content);
    if (json !== undefined) yield* values.untrusted.collect((into) => findInJson(json, into));
    return values;
  }
  yield* findBelow(structure.value, start, intoOf);
  for (const text of structure.besides) yield* values.untrusted.collect((into) => findInText(text, into));
  return values;
}

/** Finds the values of the arguments of an allowed call that name what it makes, in the forms in which they compare. */
export function* findInArguments(
  declared: ToolProvenance | undefined,
  args: JsonObject,
): Generator<undefined, BoundedValues> {
  const values = new BoundedValues();
  const place = placesFrom(marked("session", declared?.sessionArguments ?? [], argumentSteps));
  if (hasPaths(place))
    yield* findBelow(args, { place, free: undefined, isTrusted: false, isSession: false }, ({ isSession }) =>
      isSession ? [values] : [],
    );
  return values;
}

type Mark = "trusted" | "free" | "session";

/** Place in a value that a declaration names, or that lies on the way to one. */
interface Place {
  readonly marks: Set<Mark>;
  readonly members: Map<string, Place>;
  elements: Place | undefined;
}

/** Sources of the values at a place. */
interface Standing {
  readonly isTrusted: boolean;
  readonly isSession: boolean;
}

interface MarkedPath {
  readonly mark: Mark;
  readonly steps: readonly ArgumentStep[];
}

const marked = (mark: Mark, paths: readonly string[], read = resultSteps): MarkedPath[] =>
  paths.flatMap((path) => {
    const steps = read(path);
    return steps === undefined ? [] : { mark, steps };
  });

/** Reads a path without its steps into elements, for places at which a list stands for each of its elements. */
const memberSteps: typeof resultSteps = (path) => resultSteps(path)?.filter((step) => step !== null);

const createPlace = (): Place => ({ marks: new Set(), members: new Map(), elements: undefined });

const hasPaths = ({ members, elements }: Place): boolean => members.size > 0 || elements !== undefined;

function placesFrom(paths: readonly MarkedPath[]): Place {
  const root = createPlace();
  for (const { mark, steps } of paths) {
    let place = root;
    for (const step of steps) place = step === null ? elementsOf(place) : memberOf(place, step);
    place.marks.add(mark);
  }
  return root;
}

function elementsOf(place: Place): Place {
  place.elements ??= createPlace();
  return place.elements;
}

function memberOf({ members }: Place, name: string): Place {
  const known = members.get(name) ?? createPlace();
  members.set(name, known);
  return known;
}

interface OpenValue extends Standing {
  readonly value: JsonValue;
  /** Place of trusted and session fields, which have the shape of their paths. */
  readonly place: Place | undefined;
  /** Place of free fields, which a list leaves as it is; a value without members at a place that needs them is not trusted. */
  readonly free: Place | undefined;
}

/** Finds the values of JSON and adds each to the sets of its standing. Keeps its own stack: a result may be nested deeply. */
function* findBelow(
  whole: JsonValue,
  start: Omit<OpenValue, "value">,
  intoOf: (standing: Standing) => readonly BoundedValues[],
): Generator<undefined> {
  const open: OpenValue[] = [{ ...start, value: whole }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    yield;
    const { value, place, free } = next;
    const isStructure = typeof value === "object" && value !== null;
    const isFree = free !== undefined && (free.marks.has("free") || (!isStructure && hasPaths(free)));
    const standing = {
      isTrusted: (next.isTrusted || place?.marks.has("trusted") === true) && !isFree,
      isSession: next.isSession || place?.marks.has("session") === true,
    };
    const isOpened = [place, free].some((each) => each !== undefined && hasPaths(each));
    if (!isStructure || !isOpened)
      for (const values of intoOf(standing)) yield* values.collect((into) => findInJson(value, into));
    else if (Array.isArray(value))
      for (const element of value) open.push({ ...standing, value: element, place: place?.elements, free });
    else
      for (const [name, member] of Object.entries(value)) {
        for (const values of intoOf(standing)) yield* values.collect((into) => findInJson(name, into));
        open.push({ ...standing, value: member, place: place?.members.get(name), free: free?.members.get(name) });
      }
  }
}
