import type { Range } from "../candidate.ts";
import type { NumberSpan } from "../number-span.ts";
import type { TextView } from "../text-view.ts";
import type { PersonalKind } from "../types.ts";

interface Described {
  readonly kind: PersonalKind;
  /** Longest finding, in UTF-16 units. */
  readonly maxLength: number;
}

/** Looks where an `@` stands. */
export interface AtSignDetector extends Described {
  readonly trigger: "at-sign";
  /** The value around the `@` at this index. */
  match(view: TextView, at: number): Range | undefined;
}

/** Looks where a number begins. */
export interface NumberDetector extends Described {
  readonly trigger: "number";
  /** The longest value that begins with the span, or with what stands before its first digit. */
  match(span: NumberSpan): Range | undefined;
}

/**
 * Finds one kind of value by its shape, check digits and context. It MUST read forward only through the view or the span's
 * text, and back at most 64 units: what it says then holds for every text that goes on like this one.
 */
export type Detector = AtSignDetector | NumberDetector;
