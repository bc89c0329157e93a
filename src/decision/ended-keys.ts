import { LRUCache } from "lru-cache";
import { Throttle } from "../async/throttle.ts";
import type { Action, SealedDecision } from "../state/types.ts";

/** Maximum number of refusals of one ended key that are sealed in a minute. Past it the last one is repeated. */
const MAX_PER_MINUTE = 60;
/** Maximum number of remembered keys, some hundred bytes each. A forgotten key begins a new minute. */
const MAX_KEYS = 10_000;

/**
 * Throttle that keeps ended keys from filling the log: the last refusal of an ended key answers its further calls. A key is kept with
 * its workspace and agent, since the id of an access token may be a name, which another agent may bear later.
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
  refusalOf(workspaceId: string, action: Action): SealedDecision | undefined {
    const key = keyOf(workspaceId, action);
    const last = this.#lastRefusals.get(key);
    if (last === undefined || !this.#throttle.isExhausted(key)) return undefined;
    return { ...last, isReplayed: true };
  }

  /** Counts a decision if it refuses an ended key. */
  note(workspaceId: string, action: Action, sealed: SealedDecision): void {
    if (!sealed.isKeyEnded) return;
    const key = keyOf(workspaceId, action);
    this.#throttle.take(key);
    this.#lastRefusals.set(key, sealed);
  }
}

const keyOf = (workspaceId: string, { agentId, keyId }: Action): string => `${workspaceId} ${agentId} ${keyId}`;
