import { LRUCache } from "lru-cache";
import type { SealedDecision } from "../state/types.ts";

/** Refusals of one ended key that are sealed in a minute; past them the last one is repeated. */
const MAX_PER_MINUTE = 60;
const MINUTE_MS = 60_000;
/** Ended keys that are remembered: some hundred bytes each. A forgotten one begins a new minute. */
const MAX_KEYS = 10_000;

interface Refusals {
  /** Start of the minute, monotonic milliseconds. */
  readonly since: number;
  readonly count: number;
  readonly last: SealedDecision;
}

/** Keeps an ended key from filling the log: no key that ended comes back, so its last refusal answers further calls. */
export class EndedKeys {
  readonly #refusals = new LRUCache<string, Refusals>({ max: MAX_KEYS });
  readonly #now: () => number;

  /** `now`: monotonic milliseconds; default `performance.now`. */
  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /** Returns the last refusal of a key that has had its share of this minute; undefined for any other key. */
  repeat(keyId: string): SealedDecision | undefined {
    const refusals = this.#refusals.get(keyId);
    if (refusals === undefined || refusals.count < MAX_PER_MINUTE || this.#isOver(refusals)) return undefined;
    return { ...refusals.last, isReplayed: true };
  }

  /** Counts a decision, if it refuses an ended key. */
  note(keyId: string, sealed: SealedDecision): void {
    if (!sealed.isKeyEnded) return;
    const refusals = this.#refusals.get(keyId);
    const isNew = refusals === undefined || this.#isOver(refusals);
    const [since, count] = isNew ? [this.#now(), 0] : [refusals.since, refusals.count];
    this.#refusals.set(keyId, { since, count: count + 1, last: sealed });
  }

  #isOver({ since }: Refusals): boolean {
    return this.#now() - since >= MINUTE_MS;
  }
}
