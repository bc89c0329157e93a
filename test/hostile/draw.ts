import { seededBelow } from "../support/seeded-below.ts";

/** Pseudo-random choices of one case: the same for the same seed and case number, whatever other cases there are. */
export class Draw {
  /** A number from 0 up to a bound. */
  readonly below: (bound: number) => number;

  constructor(seed: number, number: number) {
    this.below = seededBelow(Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b));
  }

  /** True once in `of` times. */
  once(of: number): boolean {
    return this.below(of) === 0;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)] as T;
  }

  /** A lower-case word of 3 to 8 letters. */
  word(): string {
    return Array.from({ length: 3 + this.below(6) }, () => String.fromCharCode(97 + this.below(26))).join("");
  }

  /** A UUID of version 4. */
  uuid(): string {
    const digits = Array.from({ length: 32 }, () => this.below(16).toString(16));
    digits[12] = "4";
    digits[16] = "8";
    return digits.join("").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  }
}
