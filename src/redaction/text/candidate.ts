import type { PersonalKind } from "./types.ts";

/** A stretch of a text, from its first UTF-16 unit to the one after its last. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** A place in a text where a value may be scrubbed, before it is known which candidates win. */
export interface Candidate extends Range {
  /** Undefined for a placeholder. */
  readonly kind: PersonalKind | undefined;
  /** Among candidates of one place the lowest wins. */
  readonly rank: number;
  /** What a placeholder stands for. */
  readonly value?: string;
}
