import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { type Comparable, comparableFrom, comparableText, textFrom } from "./json-value.ts";
import type { PatternSet } from "./patterns.ts";
import type { SchemaError, ToolSchema } from "./types.ts";

/** Stands for the result of a check that was not made, because it would take too long. */
export const TOO_LONG = "CHECK_TOO_LONG";

/** A check that takes too long to be made at the action's turn, so that it has to be made before, aside from the event loop. */
export type LongCheck =
  | { readonly kind: "patterns"; readonly patterns: readonly string[]; readonly text: string }
  | { readonly kind: "schema"; readonly tool: ToolSchema; readonly args: JsonObject };

/** Results of long checks. */
export interface LongAnswers {
  /** For each text the patterns that were looked for, and whether each is found. */
  readonly patterns: ReadonlyMap<string, ReadonlyMap<string, boolean>>;
  /** For each tool's digest the arguments that were checked against its schema, and the first error; null for none. */
  readonly schemas: ReadonlyMap<string, ReadonlyMap<JsonObject, SchemaError | null>>;
}

/** Steps of patterns, of some 10 ns each, that one decision takes at its turn; a search that needs more is a long check. */
export const MAX_PATTERN_STEPS = 200_000;
/** Steps of one decision's schema checks at its turn, of at most some microseconds each; one that needs more is a long check. */
const MAX_SCHEMA_STEPS = 5_000;
/** Subschemas up to which a schema is compiled at an action's turn, in at most 25 ms; larger ones make long checks only. */
const MAX_SCHEMA_SIZE = 64;

/**
 * Budget of the rules of one decision. It is counted and not timed, so that every process decides alike: past the budget a
 * check gives `TOO_LONG`, with which a `block` or `escalate` rule holds and an `allow` rule does not.
 */
export class Checks {
  #patternSteps = MAX_PATTERN_STEPS;
  #schemaSteps = MAX_SCHEMA_STEPS;
  readonly comparisons = new Comparisons();
  readonly #answers: LongAnswers | undefined;
  readonly #missing: LongCheck[] = [];

  /** `answers`: results of the long checks that were made before. Default: none. */
  constructor(answers?: LongAnswers) {
    this.#answers = answers;
  }

  /** The long checks that had no answer, in the order in which they were needed. */
  get missing(): readonly LongCheck[] {
    return this.#missing;
  }

  /** Returns the indices of the patterns found in a text. */
  search(set: PatternSet, text: string): readonly number[] | typeof TOO_LONG {
    const { patterns, size } = set;
    if (size * text.length <= this.#patternSteps) {
      this.#patternSteps -= size * text.length;
      return set.search(text);
    }
    const known = this.#answers?.patterns.get(text);
    if (known !== undefined && patterns.every((pattern) => known.has(pattern))) {
      return [...patterns.keys()].filter((index) => known.get(patterns[index] as string));
    }
    this.#missing.push({ kind: "patterns", patterns, text });
    return TOO_LONG;
  }

  /** Returns the first error of a call's arguments against the tool's schema; undefined if they fit. */
  validate(tool: ToolSchema, args: JsonObject): SchemaError | undefined | typeof TOO_LONG {
    const known = this.#answers?.schemas.get(tool.digest)?.get(args);
    if (known !== undefined) return known ?? undefined;
    const result = this.#validateAtTurn(tool, args);
    if (result === TOO_LONG) this.#missing.push({ kind: "schema", tool, args });
    return result;
  }

  #validateAtTurn(tool: ToolSchema, args: JsonObject): SchemaError | undefined | typeof TOO_LONG {
    if (tool.schemaSize > MAX_SCHEMA_SIZE || this.#schemaSteps <= 0) return TOO_LONG;
    const compiled = tool.validator();
    if (compiled.kind === "invalid") return TOO_LONG;
    const { error, steps } = compiled.validate(args, this.#schemaSteps);
    this.#schemaSteps -= steps;
    return error;
  }
}

/** Sizes of the patterns and schemas of the rules in force. */
export interface CheckSizes {
  /** Instructions of all patterns. */
  readonly patterns: number;
  /** Subschemas of all `schema` rules, and of the largest. */
  readonly schemas: number;
  readonly largestSchema: number;
}

/** Characters of JSON for each value in it, at least. */
const CHARACTERS_PER_VALUE = 2;

/** Tests whether rules of these sizes may need a long check on texts of some characters. MAY say so of rules that need none. */
export function takesLong({ patterns, schemas, largestSchema }: CheckSizes, textLength: number): boolean {
  if (largestSchema > MAX_SCHEMA_SIZE || patterns * textLength > MAX_PATTERN_STEPS) return true;
  return (schemas * textLength) / CHARACTERS_PER_VALUE > MAX_SCHEMA_STEPS;
}

/** Steps of some 15 ns that one decision may spend on comparing values with conditions. */
const MAX_STEPS = 1_000_000;
/** Steps for finding a value and looking at its type. */
const VALUE_STEPS = 4;
/** Characters that are read in one step, and that are folded in one; folding brings a text into the form that is compared. */
const READ_CHARACTERS = 16;
const FOLDED_CHARACTERS = 2;
/** How many times less it costs to look at a value again. */
const AGAIN = FOLDED_CHARACTERS / READ_CHARACTERS;

/** Characters past which a text is folded once for all conditions, and how many such texts are remembered. */
const LONG_TEXT = 256;
const REMEMBERED_TEXTS = 8;

/**
 * The values that one decision compares, each brought once into the form in which it is compared, and the budget for it. The
 * budget is counted and not timed, so that every process decides alike.
 */
export class Comparisons {
  #stepsLeft = MAX_STEPS;
  readonly #folded: { readonly text: string; readonly folded: string }[] = [];
  readonly #weights = new Map<object, number>();
  readonly #texts = new Map<object, string>();
  readonly #scalars = new Map<readonly JsonValue[], ReadonlySet<Comparable | undefined>>();
  readonly #members = new Map<readonly JsonValue[], ReadonlySet<Comparable>>();

  /** Counts a look at a value that is then compared; false if nothing is left for it. */
  looksAt(value: JsonValue | undefined): boolean {
    if (typeof value === "string") return this.#spend(VALUE_STEPS + this.#stepsOfText(value));
    if (typeof value !== "object" || value === null) return this.#spend(VALUE_STEPS);
    const known = this.#weights.get(value);
    if (known !== undefined) return this.#spend(VALUE_STEPS + known * AGAIN);
    const weight = weightOf(value, this.#stepsLeft);
    this.#weights.set(value, weight);
    return this.#spend(weight);
  }

  /** Counts the way through the elements of a list; false if nothing is left for it. */
  walks(list: readonly JsonValue[]): boolean {
    return this.#spend(VALUE_STEPS * list.length);
  }

  /** Counts reading a text some times; false if nothing is left for it. */
  reads(text: string, times: number): boolean {
    return this.#spend((times * text.length) / READ_CHARACTERS);
  }

  /** Converts any value to text, as `textFrom`. */
  textFrom(value: JsonValue): string {
    if (typeof value !== "object" || value === null) return textFrom(value);
    return remembered(this.#texts, value, () => textFrom(value));
  }

  /** Converts any value to text in the form in which strings are compared. */
  comparableTextFrom(value: JsonValue): string {
    return this.#fold(this.textFrom(value));
  }

  /** Converts a value to the form in which it is compared; undefined for null, arrays and objects. */
  comparableFrom(value: JsonValue): Comparable | undefined {
    return typeof value === "string" ? this.#fold(value) : comparableFrom(value);
  }

  /** The elements of a list in the form in which they are compared. */
  scalarsOf(list: readonly JsonValue[]): ReadonlySet<Comparable | undefined> {
    return remembered(this.#scalars, list, () => new Set(list.map((each) => this.comparableFrom(each))));
  }

  /** The elements of a list as texts, in the form in which strings are compared. */
  textsOf(list: readonly JsonValue[]): ReadonlySet<Comparable> {
    return remembered(this.#members, list, () => new Set(list.map((each) => this.comparableTextFrom(each))));
  }

  #spend(steps: number): boolean {
    this.#stepsLeft -= steps;
    return this.#stepsLeft >= 0;
  }

  #stepsOfText(text: string): number {
    return text.length / (this.#foldedBefore(text) === undefined ? FOLDED_CHARACTERS : READ_CHARACTERS);
  }

  // A short list and no map: texts of one length have one hash past some length, however they differ.
  #foldedBefore(text: string): string | undefined {
    return text.length > LONG_TEXT ? this.#folded.find((each) => each.text === text)?.folded : undefined;
  }

  #fold(text: string): string {
    const known = this.#foldedBefore(text);
    if (known !== undefined) return known;
    const folded = comparableText(text);
    if (text.length > LONG_TEXT && this.#folded.length < REMEMBERED_TEXTS) this.#folded.push({ text, folded });
    return folded;
  }
}

function remembered<Key extends object, Value>(known: Map<Key, Value>, key: Key, make: () => Value): Value {
  let value = known.get(key);
  if (value === undefined) {
    value = make();
    known.set(key, value);
  }
  return value;
}

/** Steps for a value with everything in it, counted no further than just past `enough`. */
function weightOf(value: JsonValue, enough: number): number {
  let weight = 0;
  const open: JsonValue[] = [value];
  // Not recursive: arguments may nest deeper than the stack.
  while (open.length > 0 && weight <= enough) {
    const next = open.pop() as JsonValue;
    weight += VALUE_STEPS + (typeof next === "string" ? next.length / FOLDED_CHARACTERS : 0);
    if (Array.isArray(next)) for (const item of next) open.push(item);
    else if (typeof next === "object" && next !== null) {
      for (const [name, item] of Object.entries(next)) {
        weight += name.length / FOLDED_CHARACTERS;
        open.push(item);
      }
    }
  }
  return weight;
}
