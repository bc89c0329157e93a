import type { NumberSpan, PartialText } from "../partial-text.ts";
import type { PersonalKind, Range } from "../personal-kinds.ts";

/** Detector that starts at an `@`. */
export interface AtSignDetector {
  readonly kind: PersonalKind;
  readonly trigger: "at-sign";
  /** Returns the value around the `@` at this index. */
  match(partial: PartialText, at: number): Range | undefined;
}

/** Detector that starts at the first digit of a number. */
export interface NumberDetector {
  readonly kind: PersonalKind;
  readonly trigger: "number";
  /** Returns the longest value that begins with the span, or with the text before its first digit. */
  match(span: NumberSpan): Range | undefined;
}

/**
 * Finds one kind of value by shape, check digits and context. It MUST read forward only through the partial text or the span's
 * text, and at most 64 units back, so that its result holds for every continuation of the text.
 */
export type Detector = AtSignDetector | NumberDetector;
