import type { JsonValue } from "@bufbuild/protobuf";
import { fold } from "../text/fold.ts";
import { type Comparable, comparableFrom, textFrom } from "./json-value.ts";
import type { ListKind } from "./lists/kinds.ts";
import { TextMemo } from "./text-memo.ts";

/** Maximum steps, of some 15 ns each, that one decision spends on comparing values with conditions. */
const MAX_STEPS = 1_000_000;
/** Steps for finding a value and looking at its type. */
const VALUE_STEPS = 4;
/** Steps for reading a text as a host or a domain, and for looking one value up in a list. */
const HOST_STEPS = 256;
const LOOKUP_STEPS = 96;
/** Characters that one step reads, and characters of ASCII that one step folds. */
const READ_CHARACTERS = 16;
const FOLDED_CHARACTERS = 2;
/** Characters in which the labels of a host are counted: a longer text is no host. */
const MAX_LOOKED_UP = 2_048;
/** Half steps of folding each UTF-16 unit: those of ASCII cost 1. */
const FOLD_COSTS: Uint8Array = foldCosts();

function foldCosts(): Uint8Array {
  const costs = new Uint8Array(0x10000).fill(2).fill(1, 0, 0x80);
  // Words and phrases that are one character.
  costs.fill(8, 0x3200, 0x3400).fill(36, 0xfdf0, 0xfe00);
  // Half of a pair, which may be a mark.
  costs.fill(7, 0xd800, 0xe000);
  const units = Array.from(costs, (_, unit) => String.fromCharCode(unit < 0xd800 || unit >= 0xe000 ? unit : 0)).join(
    "",
  );
  // Marks, which are sorted.
  for (const { index, 0: marks } of units.matchAll(/[\p{M}\uff9e\uff9f]+/gu))
    costs.fill(14, index, index + marks.length);
  return costs;
}

/** Returns the steps of folding a text. */
function foldSteps(text: string): number {
  let cost = 0;
  for (let index = 0; index < text.length; index++) cost += FOLD_COSTS[text.charCodeAt(index)] as number;
  return cost / 2;
}

/** Cost of looking at a value again, as a part of the first cost. */
const AGAIN = FOLDED_CHARACTERS / READ_CHARACTERS;

/**
 * Values that one decision compares, each converted once to the form in which it is compared, and the budget for comparing. The
 * budget is counted rather than timed, so that every process decides alike.
 */
export class Comparisons {
  #stepsLeft = MAX_STEPS;
  readonly #folded = new TextMemo(fold);
  readonly #weights = new Map<object, number>();
  readonly #texts = new Map<object, string>();
  readonly #scalars = new Map<readonly JsonValue[], ReadonlySet<Comparable | undefined>>();
  readonly #members = new Map<readonly JsonValue[], ReadonlySet<Comparable>>();

  /** Spends the steps for a value that is looked at and compared. Returns false if the budget is used up. */
  looksAt(value: JsonValue | undefined): boolean {
    // Counting what a long text costs takes time too.
    if (this.#stepsLeft < 0) return false;
    if (typeof value === "string") return this.#spend(VALUE_STEPS + this.#stepsOfText(value));
    if (typeof value !== "object" || value === null) return this.#spend(VALUE_STEPS);
    const known = this.#weights.get(value);
    if (known !== undefined) return this.#spend(VALUE_STEPS + known * AGAIN);
    const weight = weightOf(value, this.#stepsLeft);
    this.#weights.set(value, weight);
    return this.#spend(weight);
  }

  /** Spends the steps for walking the elements of a list. Returns false if the budget is used up. */
  walks(list: readonly JsonValue[]): boolean {
    return this.#spend(VALUE_STEPS * list.length);
  }

  /** Spends the steps for reading a text some times. Returns false if the budget is used up. */
  reads(text: string, times: number): boolean {
    return this.#spend((times * text.length) / READ_CHARACTERS);
  }

  /** Spends the steps for looking a text up in a list. Returns false if the budget is used up. */
  looksUp(text: string, kind: ListKind): boolean {
    const isHost = kind !== "text";
    const dots = isHost ? text.slice(0, MAX_LOOKED_UP).split(".").length : 0;
    return this.#spend(LOOKUP_STEPS * (1 + dots) + (isHost ? HOST_STEPS : 0) + text.length / READ_CHARACTERS);
  }

  /** Converts any value to text, as `textFrom`. */
  textFrom(value: JsonValue): string {
    if (typeof value !== "object" || value === null) return textFrom(value);
    return remembered(this.#texts, value, () => textFrom(value));
  }

  /** Converts any value to text in the form in which strings are compared. */
  comparableTextFrom(value: JsonValue): string {
    return this.#folded.of(this.textFrom(value));
  }

  /** Converts a value to the form in which it is compared; undefined for null, arrays and objects. */
  comparableFrom(value: JsonValue): Comparable | undefined {
    return typeof value === "string" ? this.#folded.of(value) : comparableFrom(value);
  }

  /** Returns the elements of a list in the form in which they are compared. */
  scalarsOf(list: readonly JsonValue[]): ReadonlySet<Comparable | undefined> {
    return remembered(this.#scalars, list, () => new Set(list.map((each) => this.comparableFrom(each))));
  }

  /** Returns the elements of a list as texts, in the form in which strings are compared. */
  textsOf(list: readonly JsonValue[]): ReadonlySet<Comparable> {
    return remembered(this.#members, list, () => new Set(list.map((each) => this.comparableTextFrom(each))));
  }

  #spend(steps: number): boolean {
    this.#stepsLeft -= steps;
    return this.#stepsLeft >= 0;
  }

  #stepsOfText(text: string): number {
    return this.#folded.has(text) ? text.length / READ_CHARACTERS : foldSteps(text);
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

/** Counts the steps for a value and everything in it, and stops just past `enough`. */
function weightOf(value: JsonValue, enough: number): number {
  let weight = 0;
  const open: JsonValue[] = [value];
  // Not recursive: arguments may nest deeper than the stack.
  while (open.length > 0 && weight <= enough) {
    const next = open.pop() as JsonValue;
    weight += VALUE_STEPS + (typeof next === "string" ? foldSteps(next) : 0);
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
