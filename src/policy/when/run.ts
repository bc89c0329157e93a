import type { EvaluationContext } from "../types.ts";
import type { Value } from "./values.ts";

/** Maximum steps of all expressions of one action. */
export const MAX_WHEN_STEPS = 200_000;
/** Maximum characters of a text that an expression makes. */
export const MAX_TEXT = 65_536;
/** Maximum elements of a list that an expression makes. */
export const MAX_LIST = 10_000;
/** Characters that are read or written in one step. */
const CHARACTERS = 16;
/** Steps of a function of the platform that reads a zone, a URL or a host. */
export const PLATFORM_STEPS = 100;

/** Thrown where an expression passes a limit. No operator goes on past it, and evaluation turns it into a result. */
export class LimitPassed extends Error {}

// Made once: an expression that passes a limit in each of many rules makes no stack for each.
const NO_STEPS = new LimitPassed("it takes too many steps");
const TEXT_TOO_LONG = new LimitPassed(`it makes a text of more than ${MAX_TEXT} characters`);
const LIST_TOO_LONG = new LimitPassed(`it makes a list of more than ${MAX_LIST} elements`);

/**
 * The expressions of one action while they are evaluated: what they read, and the steps they have left. Steps depend on values
 * alone, so that every process counts alike.
 */
export class Run {
  #left: number;
  #context: EvaluationContext | undefined;
  /** Values of the variables of macros, by depth. */
  readonly slots: Value[] = [];

  /** `steps` default: `MAX_WHEN_STEPS`. */
  constructor(steps = MAX_WHEN_STEPS) {
    this.#left = steps;
  }

  /** Steps left; below zero once they are used up. */
  get left(): number {
    return this.#left;
  }

  /** Facts that the expression reads. */
  get context(): EvaluationContext {
    if (this.#context === undefined) throw new Error("nothing is evaluated");
    return this.#context;
  }

  /** Evaluates within a context. */
  within<T>(context: EvaluationContext, evaluate: (run: Run) => T): T {
    this.#context = context;
    return evaluate(this);
  }

  /** Gives back the steps of expressions that are evaluated again. */
  restore(left: number): void {
    this.#left = left;
  }

  /** Spends steps. */
  take(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) throw NO_STEPS;
  }

  /** Spends the steps of reading or writing characters. */
  reads(characters: number): void {
    if (characters >= CHARACTERS) this.take(Math.floor(characters / CHARACTERS));
  }

  /** Spends the steps of making a text, and checks its size. MUST be called before the text is made. */
  makesText(characters: number): void {
    if (characters > MAX_TEXT) throw TEXT_TOO_LONG;
    this.reads(characters);
  }

  /** Spends the steps of making a list, and checks its size. MUST be called before the list is made. */
  makesList(elements: number): void {
    if (elements > MAX_LIST) throw LIST_TOO_LONG;
    this.take(elements);
  }
}
