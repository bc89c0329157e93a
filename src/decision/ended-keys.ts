import { LRUCache } from "lru-cache";
import { Throttle } from "../async/throttle.ts";
import type { SealedDecision } from "../state/types.ts";

/** Maximum number of refusals of one ended key that are sealed in a minute. Past it the last one is repeated. */
const MAX_PER_MINUTE = 60;
/** Maximum number of remembered keys, some hundred bytes each. A forgotten key begins a new minute. */
const MAX_KEYS = 10_000;

/**
 * Throttle that keeps ended keys from filling the log. An ended key never works again, so its last refusal can answer further
 * calls.
 */
export class EndedKeys {
  readonly #lastRefusals = new LRUCache<string, SealedDecision>({ max: MAX_KEYS });
  readonly #throttle = new Throttle({
    capacity: MAX_PER_MINUTE,
    refill: MAX_PER_MINUTE,
    intervalMs: 60_000,
    maxKeys: MAX_KEYS,
  });

  /** Returns the last refusal of a key that has reached its maximum for this minute; undefined for any other key. */
  repeat(keyId: string): SealedDecision | undefined {
    const last = this.#lastRefusals.get(keyId);
    if (last === undefined || !this.#throttle.isExhausted(keyId)) return undefined;
    return { ...last, isReplayed: true };
  }

  /** Counts a decision if it refuses an ended key. */
  note(keyId: string, sealed: SealedDecision): void {
    if (!sealed.isKeyEnded) return;
    this.#throttle.take(keyId);
    this.#lastRefusals.set(keyId, sealed);
  }
}
