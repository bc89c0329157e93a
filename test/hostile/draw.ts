import { seededBelow } from "../support/seeded-below.ts";
import type { Reached, Right, Tally, Use } from "./rights.ts";

/** Where the choices of a case come from. */
export interface DrawOptions {
  /** The choices of another draw of the same case, changed; 0 follows the last. Default: new ones. */
  readonly choices?: readonly number[];
  /** Tells draws of one case apart in what must be new each time. Default 0. */
  readonly attempt?: number;
  /** Counts the disguises that are used. */
  readonly tally?: Tally;
}

/**
 * Pseudo-random choices of one case: the same for the same seed and case number, whatever other cases there are. A smaller choice
 * is a plainer one, so that a case becomes smaller with its choices.
 */
export class Draw {
  /** Every choice so far. */
  readonly choices: number[] = [];
  readonly #below: (bound: number) => number;
  /** Choices of what must be new in every draw. */
  readonly #fresh: (bound: number) => number;
  readonly #given: readonly number[] | undefined;
  readonly #tally: Tally | undefined;
  #uses: Use[] = [];

  constructor(seed: number, number: number, { choices, attempt = 0, tally }: DrawOptions = {}) {
    const state = Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b);
    this.#below = seededBelow(state);
    this.#fresh = seededBelow(state ^ Math.imul(attempt + 1, 0xc2b2ae35));
    this.#given = choices;
    this.#tally = tally;
  }

  /** A number from 0 up to a bound. */
  below(bound: number): number {
    const given = this.#given;
    const choice = given === undefined ? this.#below(bound) : (given[this.choices.length] ?? 0) % bound;
    this.choices.push(choice);
    return choice;
  }

  /** True once in `of` times. */
  once(of: number): boolean {
    return this.below(of) === of - 1;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)] as T;
  }

  /** Notes a disguise, with what is right for it. */
  use(disguise: string, rights: readonly Right[]): void {
    this.#uses.push({ disguise, rights });
  }

  /** Picks one of several disguises by name, and notes it. */
  disguise<T>(kind: string, from: readonly (readonly [name: string, rights: readonly Right[], make: () => T])[]): T {
    const [name, rights, make] = this.pick(from);
    this.use(`${kind}: ${name}`, rights);
    return make();
  }

  /** Gives the disguises since the last call that took them. */
  takeUses(): readonly Use[] {
    const uses = this.#uses;
    this.#uses = [];
    return uses;
  }

  count(uses: readonly Use[], reached: Reached): void {
    this.#tally?.add(uses, reached);
  }

  /** A lower-case word of 3 to 8 letters. */
  word(): string {
    return Array.from({ length: 3 + this.below(6) }, () => String.fromCharCode(97 + this.below(26))).join("");
  }

  /** A UUID of version 4, which no other draw gives. */
  uuid(): string {
    const digits = Array.from({ length: 32 }, () => this.#fresh(16).toString(16));
    digits[12] = "4";
    digits[16] = "8";
    return digits.join("").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  }
}
