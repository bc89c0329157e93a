import { LRUCache } from "lru-cache";
import type { Reviewed } from "../registry/mcp-definitions.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { Exchange } from "./exchange.ts";
import type { ListedKind } from "./listing.ts";
import { SharedListing } from "./shared-listing.ts";

/** Result of a look at a server's definitions: the review of a whole listing. */
export interface Taken {
  readonly reviewed: Reviewed;
  /** Milliseconds for which the server allows to cache the listing; undefined if it does not say. */
  readonly ttlMs: number | undefined;
}

/** Maximum identities under which one server that keeps no session sees its callers. */
const MAX_IDENTITIES = 256;

/** Times of `performance.now()` at which a server said that its definitions have changed. */
type ChangeTimes = Map<ListedKind, number>;

/**
 * Looks at the definitions of one kind that a server shows to one identity: at most one listing is in flight, and callers that
 * may rely on the same listing share it.
 */
export class Look {
  readonly #kind: ListedKind;
  readonly #changes: ChangeTimes;
  #latest: SharedListing<Taken> | undefined;
  #taken: Taken | undefined;
  #takenAt = Number.NEGATIVE_INFINITY;
  /** Latest review, also of a listing that was made for a client. */
  known: Reviewed | undefined;

  constructor(kind: ListedKind, changes: ChangeTimes) {
    this.#kind = kind;
    this.#changes = changes;
  }

  /** The result of the latest listing; undefined before the first one. */
  get taken(): Taken | undefined {
    return this.#taken;
  }

  /**
   * Returns the result of a listing that began after a time of `performance.now()`, and after the server last said that something
   * has changed. Lists if there is none yet. Rejects with the signal's reason once it aborts.
   */
  async since(time: number, list: (signal: AbortSignal) => Promise<Taken>, signal: AbortSignal): Promise<Taken> {
    const after = Math.max(time, this.#changes.get(this.#kind) ?? Number.NEGATIVE_INFINITY);
    if (this.#taken !== undefined && this.#takenAt > after) return this.#taken;
    const latest = this.#latest;
    const isShared = latest?.isOpen === true && latest.beganAt > after;
    const listing = isShared ? latest : new SharedListing(latest, (ending) => this.#take(list, ending));
    this.#latest = listing;
    return listing.until(signal);
  }

  async #take(list: (signal: AbortSignal) => Promise<Taken>, ending: AbortSignal): Promise<Taken> {
    const beganAt = performance.now();
    const taken = await list(ending);
    this.#taken = taken;
    this.#takenAt = beganAt;
    this.known = taken.reviewed;
    return taken;
  }
}

/** Looks of one identity, or of a server's identities. */
interface Looking {
  readonly changes: ChangeTimes;
  readonly looks: LRUCache<string, Look>;
}

const createLooking = (): Looking => ({ changes: new Map(), looks: new LRUCache({ max: MAX_IDENTITIES }) });

/** The looks at the definitions of every server. */
export class Looks {
  readonly #of = new WeakMap<object, Looking>();

  /** Returns the look of an exchange. `meta` is what a stateless request says about its client. */
  of(exchange: Exchange, kind: ListedKind, meta: object | undefined): Look {
    const { changes, looks } = this.#looking(exchange);
    const version = exchange.headers["mcp-protocol-version"] ?? "";
    const key = isAlone(exchange) ? kind : `${kind} ${version} ${JSON.stringify(meta ?? null)}`;
    const look = looks.get(key) ?? new Look(kind, changes);
    looks.set(key, look);
    return look;
  }

  /** Brings the next look forward: what was listed before is not relied on. */
  noteChange(exchange: Exchange, kind: ListedKind): void {
    this.#looking(exchange).changes.set(kind, performance.now());
  }

  #looking(exchange: Exchange): Looking {
    const owner = isAlone(exchange) ? (exchange.session ?? exchange.endpoint) : exchange.server;
    const looking = this.#of.get(owner) ?? createLooking();
    this.#of.set(owner, looking);
    return looking;
  }
}

/**
 * Tests whether a server can tell the caller apart from others: it keeps a session, or the endpoint is the caller's own. Else it
 * sees the headers of its registration, the version of the protocol, and what a request says about its client.
 */
function isAlone({ endpoint, session }: Exchange): boolean {
  return endpoint.isShared !== true || session?.upstreamId !== undefined;
}

/** Returns the earliest time of `performance.now()` at which a listing may have begun that a call now relies on. */
export function earliestListing({ mode, driftSeconds }: McpServer, taken: Taken | undefined): number {
  const driftMs = driftSeconds * 1_000;
  // A server may ask to be looked at more often, not less.
  const ttlMs = mode === "open" ? (taken?.ttlMs ?? driftMs) : driftMs;
  return performance.now() - Math.min(driftMs, ttlMs);
}
