import { LRUCache } from "lru-cache";
import type { SessionValues } from "../provenance/session-values.ts";

/** Bytes of values that a workspace keeps in memory. INVARIANT: more than the sessions of one batch can have. */
const MAX_BYTES = 67_108_864;
/** Bytes that a session without observations counts. */
const UNOBSERVED_BYTES = 128;

interface Known {
  /** Null for a session that observed nothing. */
  readonly values: SessionValues | null;
  /** True for a session whose values are more than memory takes. */
  readonly isTooLarge?: true;
}

const bytesOf = ({ values }: Known): number => values?.bytes ?? UNOBSERVED_BYTES;

/**
 * A cache of what the sessions of a workspace observed. Rows are as new as the log: a session that another replica changes is
 * forgotten, and read again when an action names it.
 */
export class ObservedSessions {
  readonly #sessions = new LRUCache<string, Known>({
    maxSize: MAX_BYTES,
    sizeCalculation: bytesOf,
  });

  /** Tests whether it is known, without reading the database, what a session observed. It then counts as used last. */
  knows(sessionId: string): boolean {
    return this.#sessions.get(sessionId) !== undefined;
  }

  /** Returns the bytes that a session takes; undefined for one that is not known. */
  bytesOf(sessionId: string): number | undefined {
    const known = this.#sessions.peek(sessionId);
    return known === undefined ? undefined : bytesOf(known);
  }

  /** Returns what a session observed; undefined for one that observed nothing. Throws for one that is not known, or too large. */
  get(sessionId: string): SessionValues | undefined {
    const known = this.#sessions.get(sessionId);
    // Taking it for a session without observations would let through what its rules ask about.
    if (known === undefined) throw new Error(`session \`${sessionId}\` is not loaded`);
    if (known.isTooLarge === true) throw new Error(`session \`${sessionId}\` has more values than memory takes`);
    return known.values ?? undefined;
  }

  /** Keeps what a session observed; undefined for one that observed nothing. One that is too large fails when it is read. */
  put(sessionId: string, values: SessionValues | undefined): void {
    this.#sessions.set(sessionId, { values: values ?? null });
    // The cache refuses what is larger than all of it. Without a mark it would be read from the database for each action.
    if (!this.#sessions.has(sessionId)) this.#sessions.set(sessionId, { values: null, isTooLarge: true });
  }

  forget(sessionId: string): void {
    this.#sessions.delete(sessionId);
  }

  /** Bytes in use. */
  get bytes(): number {
    return this.#sessions.calculatedSize;
  }
}
