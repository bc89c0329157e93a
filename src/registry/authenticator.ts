import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import type { LedgerEvent } from "../log/events.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { AuthorityKind, SealedAuthority } from "../state/control-changes.ts";
import { type Database, stored } from "../store/database.ts";
import {
  ApiKeyEntity,
  type ApiKeyRow,
  AuthorityEntity,
  type AuthorityRow,
  PersonEntity,
  type PersonRow,
  SignInEntity,
  type SignInRow,
} from "../store/entities.ts";
import { CREDENTIAL_MARK, SIGN_IN_MARK } from "./keys.ts";
import { MEMBERSHIP_MS } from "./memberships.ts";
import { personIn } from "./person-name.ts";
import { roleUnderOwner } from "./person-role.ts";

/** The holder of a key. */
export interface KeyHolder {
  /** `key_…`, a credential's `crd_…`, a federation token's `fed_…` or a person's name. */
  readonly keyId: string;
  /** The key's workspace, which holds everything that the call reads or changes. */
  readonly workspaceId: string;
  readonly role: Role;
  /** The agent that the key is bound to; null for a key that may act for every agent. */
  readonly agentId: string | null;
  /**
   * True for an expired or ended credential or token, or an API key that ended with its agent. It opens only Intercept, which
   * refuses with a decision. Default false.
   */
  readonly isEnded?: boolean;
  /** Epoch milliseconds; null or absent for a key that does not expire. */
  readonly expiresAtMs?: number | null;
  /** True for a person who is signed in to the dashboard. Default false. */
  readonly isSignIn?: boolean;
  /** Audience of a federation token, which opens calls only where this is the service itself. */
  readonly audience?: string;
}

/** Keys that an entry of the log ended. */
interface KeyEndEvent {
  readonly keyIds: readonly string[];
  /** The agent whose bound keys ended; null for none. */
  readonly agentId: string | null;
}

/** Returns the claims of a federation token; undefined for a text that the service never signed. */
type VerifyToken = (
  token: string,
) => Promise<{ readonly id: string; readonly workspaceId: string; readonly agentId: string } | undefined>;

/** Options of an authenticator. */
interface AuthenticatorOptions {
  readonly database: Pick<Database, "orm">;
  /** Epoch milliseconds, for expiry. */
  readonly clock: { now(): number };
  /** Monotonic milliseconds, for the age of cached look-ups. Default `performance.now`. */
  readonly now?: () => number;
  /** Milliseconds that a look-up is cached. Default `DEFAULT_KEY_CACHE_MS`. */
  readonly cacheTtlMs?: number;
  /** Notes that a key opened a call. MUST be quick. Default: nothing is noted. */
  readonly noteUse?: (keyId: string) => void;
  /** Default: no text is a federation token. */
  readonly verifyToken?: VerifyToken;
}

/** Milliseconds that a key revoked on another replica may still work here, if the wake-up is lost. */
const DEFAULT_KEY_CACHE_MS = 2_000;
/** The same for a sign-in, whose end the log does not record. */
const SIGN_IN_CACHE_MS = 400;
/** Capacities of the two caches. Unknown keys have their own, so that a flood of them evicts no valid key. */
const CACHED_KEYS = 100_000;
const CACHED_UNKNOWN = 10_000;
/** Longer texts are not keys and not worth hashing. */
const MAX_KEY = 512;
const MAX_TOKEN = 16_384;
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]*$/;

type Fork = ReturnType<Database["orm"]["em"]["fork"]>;

/** A key as it is stored; whether it works depends on the time. */
interface StoredKey {
  readonly holder: KeyHolder;
  /** The holder after the end; undefined for a key that is treated as unknown then. */
  readonly afterEnd: KeyHolder | undefined;
  readonly expiresAtMs: number | null;
  readonly endedAtMs: number | null;
}

function isToken(text: string): boolean {
  return text.length <= MAX_TOKEN && TOKEN.test(text);
}

function storedKeyFrom(row: AuthorityRow | null): StoredKey | undefined {
  if (row === null) return undefined;
  const { id: keyId, workspaceId, agentId, endedAtMs, sealed } = row;
  const { expires_at_ms: expiresAtMs, audience } = sealed as SealedAuthority;
  const key = { keyId, workspaceId, role: Role.AGENT, agentId: agentId ?? null, expiresAtMs };
  const holder = audience === undefined ? key : { ...key, audience };
  return { holder, afterEnd: { ...holder, isEnded: true }, expiresAtMs, endedAtMs: endedAtMs ?? null };
}

/**
 * Reads the sign-in of a person, which is good while their issuer was asked within the last 15 minutes. People from before they had
 * issuers are found under no name: they sign in again.
 */
function storedPersonFrom(signIn: SignInRow, person: PersonRow | null): StoredKey | undefined {
  if (person === null || (person.deactivatedAtMs ?? null) !== null) return undefined;
  const { holder: keyId, workspaceId, role, createdAtMs, expiresAtMs: until } = signIn;
  const expiresAtMs = Math.min(until, (person.checkedAtMs ?? createdAtMs) + MEMBERSHIP_MS);
  const isAskedAgain = (person.sealedRefresh ?? null) !== null;
  const holder = {
    keyId,
    workspaceId,
    role,
    agentId: null,
    expiresAtMs: isAskedAgain ? until : expiresAtMs,
    isSignIn: true,
  };
  return { holder, afterEnd: undefined, expiresAtMs, endedAtMs: null };
}

/** Kinds of authority that authenticate calls. */
const KINDS_OF_KEYS: ReadonlySet<AuthorityKind> = new Set(["credential", "federation_token"]);

function keyEndEventFrom(event: LedgerEvent): KeyEndEvent | undefined {
  if (event.kind !== "change") return undefined;
  const { change } = event;
  if (change.type === "key_revoked") return { keyIds: [change.key_id], agentId: null };
  // A sign-in of the person has this name in place of a key's id; their keys end by entries of their own.
  if (change.type === "person_updated" || change.type === "person_deactivated")
    return { keyIds: [change.person.actor], agentId: null };
  if (change.type === "agent_revoked") return { keyIds: [], agentId: change.agent_id };
  if (change.type !== "authority_ended" || !KINDS_OF_KEYS.has(change.kind)) return undefined;
  return { keyIds: change.ids, agentId: null };
}

/**
 * Finds the holders of keys: API keys, agents' credentials and federation tokens. Look-ups are cached; expiry is checked
 * on every call.
 */
export class Authenticator {
  readonly #orm: Database["orm"];
  readonly #clock: { now(): number };
  readonly #now: () => number;
  readonly #noteUse: ((keyId: string) => void) | undefined;
  readonly #verifyToken: VerifyToken | undefined;
  /** By the SHA-256 of the key, as base64. */
  readonly #known: LRUCache<string, StoredKey>;
  readonly #unknown: LRUCache<string, true>;
  #inFlight = new Map<string, Promise<StoredKey | undefined>>();

  constructor(options: AuthenticatorOptions) {
    const { database, clock, now = () => performance.now(), cacheTtlMs = DEFAULT_KEY_CACHE_MS } = options;
    this.#orm = database.orm;
    this.#clock = clock;
    this.#now = now;
    this.#noteUse = options.noteUse;
    this.#verifyToken = options.verifyToken;
    // `maxSize`: with `max` the caches allocate all of their memory at once.
    const bounds = { sizeCalculation: () => 1, ttl: cacheTtlMs, ttlResolution: 0, perf: { now } };
    this.#known = new LRUCache({ maxSize: CACHED_KEYS, ...bounds });
    this.#unknown = new LRUCache({ maxSize: CACHED_UNKNOWN, ...bounds });
  }

  /**
   * Returns the holder of a key; undefined for a key that is unknown, expired or revoked. A credential or token that ended
   * or expired still has its holder, with `isEnded`. Synchronous when cached. Rejects with STORE_UNAVAILABLE.
   */
  readonly authenticate = (key: string): KeyHolder | undefined | Promise<KeyHolder | undefined> => {
    if (key.length > MAX_KEY && !isToken(key)) return undefined;
    const digest = hash("sha256", key, "base64");
    const found = this.#known.get(digest);
    if (found !== undefined) return this.#holderNow(found);
    if (this.#unknown.get(digest)) return undefined;
    let lookUp = this.#inFlight.get(digest);
    if (lookUp === undefined) {
      lookUp = this.#lookUp(key, digest);
      this.#inFlight.set(digest, lookUp);
    }
    return lookUp.then((stored) => this.#holderNow(stored));
  };

  /**
   * Drops the cached keys of a workspace and all unknown ones. MUST be called after a change of keys, so that it takes
   * effect here at once, and on wake-ups.
   */
  forget(workspaceId: string): void {
    const theirs: string[] = [];
    for (const [digest, { holder }] of this.#known) if (holder.workspaceId === workspaceId) theirs.push(digest);
    for (const digest of theirs) this.#known.delete(digest);
    this.#unknown.clear();
    this.#inFlight = new Map();
  }

  /**
   * Reports the keys that entries of a log end from now on, after forgetting what is cached of them. Returns the function that
   * ends the subscription.
   */
  watchEnds(log: WorkspaceLog, listener: (ended: KeyEndEvent) => void): () => void {
    return log.subscribe((events) => {
      for (const event of events) {
        const ended = keyEndEventFrom(event);
        if (ended === undefined) continue;
        this.forget(log.workspaceId);
        listener(ended);
      }
    });
  }

  #holderNow(key: StoredKey | undefined): KeyHolder | undefined {
    if (key === undefined) return undefined;
    const { holder, afterEnd, expiresAtMs, endedAtMs } = key;
    const isOpen = endedAtMs === null && (expiresAtMs ?? Number.POSITIVE_INFINITY) > this.#clock.now();
    if (!isOpen) return afterEnd;
    this.#noteUse?.(holder.keyId);
    return holder;
  }

  async #lookUp(key: string, digest: string): Promise<StoredKey | undefined> {
    const inFlight = this.#inFlight;
    // The age counts from the beginning of the read, whose snapshot it is.
    const start = this.#now();
    try {
      const found = await this.#find(key, Buffer.from(digest, "base64"));
      // INVARIANT: a read that began before `forget` is not cached after it; it may miss a revocation.
      if (inFlight !== this.#inFlight) return found;
      if (found === undefined) this.#unknown.set(digest, true, { start });
      else this.#known.set(digest, found, this.#agingFrom(start, found));
      return found;
    } finally {
      inFlight.delete(digest);
    }
  }

  #agingFrom(start: number, { holder }: StoredKey): { start: number; ttl?: number } {
    return holder.isSignIn === true ? { start, ttl: Math.min(SIGN_IN_CACHE_MS, this.#known.ttl) } : { start };
  }

  /**
   * Finds a stored key. Falls through to API keys: people choose their own, and such a key may look like a credential or token.
   */
  async #find(key: string, secretHash: Buffer): Promise<StoredKey | undefined> {
    const credential = key.startsWith(CREDENTIAL_MARK) ? await this.#findCredential(secretHash) : undefined;
    if (key.startsWith(SIGN_IN_MARK)) {
      const signIn = await this.#findSignIn(secretHash);
      if (signIn !== undefined) return signIn;
    }
    const found = credential ?? (isToken(key) ? await this.#findToken(key) : undefined);
    return found ?? (key.length <= MAX_KEY ? this.#findApiKey(secretHash) : undefined);
  }

  /** Finds an API key with the role that its owner leaves it. */
  async #findApiKey(secretHash: Buffer): Promise<StoredKey | undefined> {
    const where = { secretHash, $or: [{ revokedAtMs: null }, { endedWithAgent: true }] };
    const em = this.#orm.em.fork();
    const key = await stored(em.findOne(ApiKeyEntity, where));
    if (key === null) return undefined;
    const { keyId, workspaceId, agentId, expiresAtMs = null, revokedAtMs = null, endedWithAgent } = key;
    const role = await this.#roleOf(em, key);
    if (role === undefined) return undefined;
    const holder = { keyId, workspaceId, role, agentId: agentId ?? null, expiresAtMs };
    const afterEnd = endedWithAgent ? { ...holder, isEnded: true } : undefined;
    return { holder, afterEnd, expiresAtMs, endedAtMs: revokedAtMs };
  }

  /** Returns the role that a key has by its owner; undefined if that one has no rights. */
  async #roleOf(em: Fork, { workspaceId, role, owner }: ApiKeyRow): Promise<Role | undefined> {
    const actor = personIn(owner);
    if (actor === undefined) return role as Role;
    return roleUnderOwner(role as Role, await stored(em.findOne(PersonEntity, { workspaceId, actor })));
  }

  /** Finds a sign-in. One with a key ends with that key, and has its role. */
  async #findSignIn(secretHash: Buffer): Promise<StoredKey | undefined> {
    const em = this.#orm.em.fork();
    const signIn = await stored(em.findOne(SignInEntity, { secretHash }));
    if (signIn === null) return undefined;
    const { holder: keyId, workspaceId, expiresAtMs: until } = signIn;
    if (signIn.person)
      return storedPersonFrom(signIn, await stored(em.findOne(PersonEntity, { workspaceId, actor: keyId })));
    const key = await stored(em.findOne(ApiKeyEntity, { keyId, workspaceId, revokedAtMs: null }));
    const role = key === null ? undefined : await this.#roleOf(em, key);
    if (role === undefined) return undefined;
    const expiresAtMs = Math.min(until, key?.expiresAtMs ?? Number.POSITIVE_INFINITY);
    const holder = { keyId, workspaceId, role, agentId: null, expiresAtMs, isSignIn: true };
    return { holder, afterEnd: undefined, expiresAtMs, endedAtMs: null };
  }

  async #findCredential(secretHash: Buffer): Promise<StoredKey | undefined> {
    const where = { secretHash, kind: "credential" };
    return storedKeyFrom(await stored(this.#orm.em.fork().findOne(AuthorityEntity, where)));
  }

  async #findToken(token: string): Promise<StoredKey | undefined> {
    // The signature first: a forged token costs no query.
    const claims = await this.#verifyToken?.(token);
    if (claims === undefined) return undefined;
    const { id, workspaceId, agentId } = claims;
    const where = { workspaceId, id, agentId, kind: "federation_token" };
    return storedKeyFrom(await stored(this.#orm.em.fork().findOne(AuthorityEntity, where)));
  }
}
