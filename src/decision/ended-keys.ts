import { LRUCache } from "lru-cache";
import { Throttle } from "../async/throttle.ts";
import type { Action, SealedDecision } from "../state/types.ts";

/** Maximum number of refusals of one ended key that are sealed in a minute. Past it the last one is repeated. */
const MAX_PER_MINUTE = 60;
/** Maximum number of remembered keys of a workspace, some hundred bytes each. A forgotten key begins a new minute. */
const MAX_KEYS = 1_000;
/** Maximum number of workspaces whose ended keys are remembered. */
const MAX_WORKSPACES = 1_000;

/** Ended keys of one workspace. */
interface EndedKeysOfWorkspace {
  readonly lastRefusals: LRUCache<string, SealedDecision>;
  readonly throttle: Throttle;
}

const createEndedKeys = (): EndedKeysOfWorkspace => ({
  lastRefusals: new LRUCache({ max: MAX_KEYS }),
  throttle: new Throttle({
    capacity: MAX_PER_MINUTE,
    refill: MAX_PER_MINUTE,
    intervalMs: 60_000,
    maxKeys: MAX_KEYS,
  }),
});

/**
 * Throttle that keeps ended keys from filling the log: the last refusal of an ended key answers its further calls. A key is kept with
 * its agent, since the id of an access token may be a name, which another agent may bear later. The keys of one workspace push out
 * none of another's.
 */
export class EndedKeys {
  readonly #workspaces = new LRUCache<string, EndedKeysOfWorkspace>({ max: MAX_WORKSPACES });

  /** Returns the last refusal of a key that has reached its maximum for this minute; undefined for any other key. */
  refusalOf(workspaceId: string, action: Action): SealedDecision | undefined {
    const known = this.#workspaces.get(workspaceId);
    const key = keyOf(action);
    const last = known?.lastRefusals.get(key);
    if (last === undefined || known?.throttle.isExhausted(key) !== true) return undefined;
    return { ...last, isReplayed: true };
  }

  /** Counts a decision if it refuses an ended key. */
  note(workspaceId: string, action: Action, sealed: SealedDecision): void {
    if (!sealed.isKeyEnded) return;
    const known = this.#workspaces.get(workspaceId) ?? createEndedKeys();
    this.#workspaces.set(workspaceId, known);
    const key = keyOf(action);
    known.throttle.take(key);
    known.lastRefusals.set(key, sealed);
  }
}

const keyOf = ({ agentId, keyId }: Action): string => `${agentId} ${keyId}`;
