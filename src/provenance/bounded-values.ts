import { MAX_SESSION_DIGESTS } from "./session-values.ts";

/** Ends a search in the middle of a text. */
class TooManyValues extends Error {}

/** Values of one source in a content, at most as many as a session keeps: the work for a content is bounded by what can become of it. */
export class BoundedValues extends Set<string> {
  #isCut = false;

  /** True if there were more. */
  get isCut(): boolean {
    return this.#isCut;
  }

  override add(value: string): this {
    if (this.size < MAX_SESSION_DIGESTS || this.has(value)) return super.add(value);
    throw new TooManyValues();
  }

  /** Runs a search that adds what it finds. Ends it, and begins no other, once there is too much. */
  *collect(search: (into: Set<string>) => Generator<undefined>): Generator<undefined> {
    if (this.#isCut) return;
    try {
      yield* search(this);
    } catch (error) {
      if (!(error instanceof TooManyValues)) throw error;
      this.#isCut = true;
    }
  }
}
