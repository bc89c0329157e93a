import type { JsonObject } from "@bufbuild/protobuf";
import { isAscii, plainText } from "../text/fold.ts";
import { Comparisons } from "./comparisons.ts";
import { type ListLookup, NO_LISTS } from "./lists/named-list.ts";
import { UsedLists } from "./lists/used-lists.ts";
import type { PatternSet } from "./patterns.ts";
import { ArgumentValues } from "./provenance/argument-values.ts";
import { TextMemo } from "./text-memo.ts";
import type { SchemaError, ToolSchema } from "./types.ts";
import { Run } from "./when/run.ts";

/** Result of a check that was not made, because it would take too long. */
export const TOO_LONG = "CHECK_TOO_LONG";

/** A check that takes too long for the action's turn. It is made before the turn, outside the event loop. */
export type LongCheck =
  | { readonly kind: "patterns"; readonly patterns: readonly string[]; readonly text: string }
  | { readonly kind: "schema"; readonly tool: ToolSchema; readonly args: JsonObject };

/** Results of long checks. */
export interface LongAnswers {
  /** For each text, in how many of its two forms, as given and plain, each of the patterns that were looked for is found. */
  readonly patterns: ReadonlyMap<string, ReadonlyMap<string, number>>;
  /** For each tool's digest, the first error of each object that was checked against its schema; null if the object fits. */
  readonly schemas: ReadonlyMap<string, ReadonlyMap<JsonObject, SchemaError | null>>;
}

/**
 * Maximum steps of patterns, of some 10 ns each, that one decision takes at its turn; a search that needs more is a long check.
 */
export const MAX_PATTERN_STEPS = 200_000;
/**
 * Maximum steps of schema checks, of at most some microseconds each, at a decision's turn; a check that needs more is a long
 * one.
 */
const MAX_SCHEMA_STEPS = 5_000;
/**
 * Maximum subschemas of a schema that is compiled at an action's turn, in at most 25 ms; a larger one makes long checks only.
 */
const MAX_SCHEMA_SIZE = 64;

/**
 * Budget of the rules of one decision, counted rather than timed, so that every process decides alike. Past the budget a check
 * returns `TOO_LONG`: a `block` or `escalate` rule then fires, and an `allow` rule does not.
 */
export class Checks {
  #patternSteps = MAX_PATTERN_STEPS;
  #schemaSteps = MAX_SCHEMA_STEPS;
  readonly comparisons = new Comparisons();
  /** The `when` expressions of the rules. */
  readonly when = new Run();
  /** Values of arguments that provenance rules look for. */
  readonly provenance = new ArgumentValues();
  /** The workspace's lists, with a note of those that were used. */
  readonly lists: UsedLists;
  #plain: TextMemo | undefined;
  readonly #answers: LongAnswers | undefined;
  readonly #missing: LongCheck[] = [];

  /** `answers`: results of the long checks that were made before. Default: none. `lists`: default none. */
  constructor(answers?: LongAnswers, lists: ListLookup = NO_LISTS) {
    this.#answers = answers;
    this.lists = new UsedLists(lists);
  }

  /** Long checks without an answer, in the order in which they were needed. */
  get missing(): readonly LongCheck[] {
    return this.#missing;
  }

  /**
   * Returns the indices of the patterns found in a text as given or in its plain form, so that no disguise passes; with `inBoth`,
   * those found in both forms.
   */
  search(set: PatternSet, text: string, inBoth: boolean): readonly number[] | typeof TOO_LONG {
    const { patterns, size } = set;
    if (this.#takesSteps(size * text.length)) {
      const plain = isAscii(text) ? text : this.#plainOf(text);
      const found = set.search(text);
      if (plain === text) return found;
      if (this.#takesSteps(size * plain.length)) return joined(found, set.search(plain), inBoth);
    }
    const known = this.#answers?.patterns.get(text);
    if (known !== undefined && patterns.every((pattern) => known.has(pattern))) {
      const least = inBoth ? FORMS : 1;
      return [...patterns.keys()].filter((index) => (known.get(patterns[index] as string) ?? 0) >= least);
    }
    this.#missing.push({ kind: "patterns", patterns, text });
    return TOO_LONG;
  }

  #plainOf(text: string): string {
    this.#plain ??= new TextMemo(plainText);
    return this.#plain.of(text);
  }

  /** Spends steps of patterns if there are as many. */
  #takesSteps(steps: number): boolean {
    if (steps > this.#patternSteps) return false;
    this.#patternSteps -= steps;
    return true;
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

const joined = (one: readonly number[], other: readonly number[], inBoth: boolean): readonly number[] =>
  inBoth ? one.filter((index) => other.includes(index)) : [...new Set([...one, ...other])].sort((a, b) => a - b);

/** Sizes of the patterns and schemas of the rules in force. */
export interface CheckSizes {
  /** Instructions of all patterns. */
  readonly patterns: number;
  /** Subschemas of all `schema` rules, and of the largest. */
  readonly schemas: number;
  readonly largestSchema: number;
}

/** Forms of a text in which patterns are searched. */
const FORMS = 2;
/** Characters of both forms of a text, in lengths of the text: the plain form is rarely twice as long. */
export const MAX_FORMS_LENGTH = 3;
/** Maximum characters of a text whose plain form is made to know its length. */
const MAX_MADE_PLAIN = 4_096;

/** Returns the characters of the forms in which a text, or the JSON of texts, is searched; MAY be too high. */
export function searchedLength(text: string): number {
  const { length } = text;
  // JSON escapes controls, which the plain form of what it says has not.
  if (text.includes("\\u")) return MAX_FORMS_LENGTH * length;
  if (isAscii(text)) return length;
  if (length > MAX_MADE_PLAIN) return MAX_FORMS_LENGTH * length;
  const plain = plainText(text);
  return plain === text ? length : length + plain.length;
}

/** Minimum number of JSON characters for each value. */
const CHARACTERS_PER_VALUE = 2;

/**
 * Tests whether rules of these sizes may need a long check on texts of `textLength` characters. MAY return true for rules that
 * need none.
 */
export function takesLong({ patterns, schemas, largestSchema }: CheckSizes, textLength: number): boolean {
  if (largestSchema > MAX_SCHEMA_SIZE || patterns * textLength > MAX_PATTERN_STEPS) return true;
  return (schemas * textLength) / CHARACTERS_PER_VALUE > MAX_SCHEMA_STEPS;
}
