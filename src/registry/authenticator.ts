import { hash } from "node:crypto";
import type { Database } from "../store/database.ts";
import { createKeyLookUp, type FoundKey, holderAt, isKey, type KeyHolder, type VerifyToken } from "./key-look-up.ts";

export type { KeyHolder, VerifyToken } from "./key-look-up.ts";

/** How keys are looked up. */
export interface AuthenticatorOptions {
  readonly database: Pick<Database, "orm">;
  /** Gives epoch milliseconds, by which keys expire. */
  readonly clock: { now(): number };
  /** Milliseconds that never go back, by which the cache ages. Default `performance.now`. */
  readonly now?: () => number;
  /** Milliseconds that an answer is remembered. Default `DEFAULT_KEY_CACHE_MS`. */
  readonly cacheTtlMs?: number;
  /** Tells whose federation token a text is. Default: no text is one. */
  readonly verifyToken?: VerifyToken;
}

/** Finds who holds a key: a key of a workspace, an agent's credential or a federation token. */
export interface Authenticator {
  /**
   * The holder of a key, or undefined for a key that is unknown, expired or revoked; a credential or token that ended or
   * expired still has its holder, with `isEnded`. Synchronous when the answer is remembered. Expiry is judged on every
   * call. Rejects with STORE_UNAVAILABLE, which is not remembered.
   */
  (key: string): KeyHolder | undefined | Promise<KeyHolder | undefined>;
  /** Forgets what is remembered of a workspace's keys and of unknown ones: after a change of keys, and on wake-ups. */
  forget(workspaceId: string): void;
}

/** Milliseconds that a key revoked on another replica opens here, if the wake-up is lost. */
export const DEFAULT_KEY_CACHE_MS = 2_000;
/** Keys that are remembered, and apart from them unknown ones: a flood of wrong keys pushes out no right one. */
const REMEMBERED_KEYS = 100_000;
const REMEMBERED_UNKNOWN = 10_000;

interface Remembered {
  /** Undefined for an unknown or revoked key. */
  readonly found: FoundKey | undefined;
  readonly until: number;
}

function remember(cache: Map<string, Remembered>, capacity: number, mark: string, entry: Remembered): void {
  // Deleted first, so that the oldest answer is the first in the map.
  cache.delete(mark);
  cache.set(mark, entry);
  const [oldest] = cache.keys();
  if (cache.size > capacity && oldest !== undefined) cache.delete(oldest);
}

/**
 * Creates the authenticator. A key made or revoked here takes effect at once if `forget` is called after it; one revoked
 * on another replica opens for `cacheTtlMs` at most.
 */
export function createAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { clock, now = () => performance.now(), cacheTtlMs = DEFAULT_KEY_CACHE_MS } = options;
  const lookUp = createKeyLookUp(options.database, options.verifyToken);
  const known = new Map<string, Remembered>();
  const unknown = new Map<string, Remembered>();
  let looking = new Map<string, Promise<FoundKey | undefined>>();

  const judged = (found: FoundKey | undefined): KeyHolder | undefined =>
    found === undefined ? undefined : holderAt(found, clock.now());

  const find = async (key: string, mark: string): Promise<FoundKey | undefined> => {
    const mine = looking;
    const until = now() + cacheTtlMs;
    try {
      const found = await lookUp(key, Buffer.from(mark, "base64"));
      // INVARIANT: what was read before `forget` is not remembered after it; it may show a key that was revoked since.
      if (mine !== looking) return found;
      if (found === undefined) remember(unknown, REMEMBERED_UNKNOWN, mark, { found, until });
      else remember(known, REMEMBERED_KEYS, mark, { found, until });
      return found;
    } finally {
      mine.delete(mark);
    }
  };

  const authenticate = (key: string): KeyHolder | undefined | Promise<KeyHolder | undefined> => {
    if (!isKey(key)) return undefined;
    const mark = hash("sha256", key, "base64");
    const remembered = known.get(mark) ?? unknown.get(mark);
    if (remembered !== undefined && remembered.until > now()) return judged(remembered.found);
    let promise = looking.get(mark);
    if (promise === undefined) {
      promise = find(key, mark);
      looking.set(mark, promise);
    }
    return promise.then(judged);
  };

  const forget = (workspaceId: string): void => {
    for (const [mark, { found }] of known) if (found?.holder.workspaceId === workspaceId) known.delete(mark);
    unknown.clear();
    looking = new Map();
  };

  return Object.assign(authenticate, { forget });
}
