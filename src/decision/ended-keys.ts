import { LRUCache } from "lru-cache";
import { Throttle } from "../async/throttle.ts";
import { type Action, isHaltedRefusal, type SealedDecision } from "../state/types.ts";

/** Maximum number of refusals of one key that are sealed in a minute. Past it the last one is repeated. */
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
 * Throttle that keeps ended keys, and keys of a halted workspace, from filling the log: the last refusal of such a key answers its
 * further calls. The caller MUST check that the workspace is still halted before it repeats a refusal for that. A key is kept with
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

  /** Counts a decision if it refuses an ended key, or every action of a halted workspace. */
  note(workspaceId: string, action: Action, sealed: SealedDecision): void {
    if (!sealed.isKeyEnded && !isHaltedRefusal(sealed)) return;
    const known = this.#workspaces.get(workspaceId) ?? createEndedKeys();
    this.#workspaces.set(workspaceId, known);
    const key = keyOf(action);
    known.throttle.take(key);
    known.lastRefusals.set(key, sealed);
  }
}

const keyOf = ({ agentId, keyId }: Action): string => `${agentId} ${keyId}`;
