import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import type { SealedAuthority } from "../state/control-changes.ts";
import type { Database } from "../store/database.ts";
import { ApiKeyEntity, AuthorityEntity, type AuthorityRow } from "../store/entities.ts";
import { opensAt } from "./key-row.ts";
import { CREDENTIAL_MARK } from "./key-secret.ts";
import { stored } from "./stored.ts";

/** Who holds a key. */
export interface KeyHolder {
  /** `key_…`, a credential's `crd_…` or a federation token's `fed_…`. */
  readonly keyId: string;
  readonly workspaceId: string;
  readonly role: Role;
  /** The agent that the key is bound to; null for a key that speaks for every agent. */
  readonly agentId: string | null;
  /** True for a credential or token that no longer holds. Default false. */
  readonly isEnded?: boolean;
}

/** What was found of a key; whether it opens anything is a matter of the time. */
export interface FoundKey {
  readonly holder: KeyHolder;
  /** The holder once the key no longer opens; undefined for a key that then is as good as unknown. */
  readonly afterEnd: KeyHolder | undefined;
  readonly expiresAtMs: number | null;
  readonly endedAtMs: number | null;
}

/** Whose federation token a text is; undefined for a text that the service never signed. */
export type VerifyToken = (
  token: string,
) => Promise<{ readonly id: string; readonly workspaceId: string; readonly agentId: string } | undefined>;

/** Finds a key by itself and by its SHA-256; undefined for an unknown or revoked one. */
export type KeyLookUp = (key: string, secretHash: Buffer) => Promise<FoundKey | undefined>;

type Store = Pick<Database, "orm">;

/** Characters of a key at most; a longer one is no key and not worth hashing. */
const MAX_KEY = 512;
/** Characters of a federation token at most. */
const MAX_TOKEN = 16_384;
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]*$/;

const isToken = (text: string): boolean => text.length <= MAX_TOKEN && TOKEN.test(text);

/** Whether a text may be a key at all. */
export const isKey = (text: string): boolean => text.length <= MAX_KEY || isToken(text);

/** Who holds a key at a time. */
export function holderAt({ holder, afterEnd, expiresAtMs, endedAtMs }: FoundKey, nowMs: number): KeyHolder | undefined {
  return opensAt({ expiresAtMs, revokedAtMs: endedAtMs }, nowMs) ? holder : afterEnd;
}

async function findKey({ orm }: Store, secretHash: Buffer): Promise<FoundKey | undefined> {
  const key = await stored(orm.em.fork().findOne(ApiKeyEntity, { secretHash, revokedAtMs: null }));
  if (key === null) return undefined;
  const { keyId, workspaceId, role, agentId, expiresAtMs } = key;
  const holder = { keyId, workspaceId, role, agentId: agentId ?? null };
  return { holder, afterEnd: undefined, expiresAtMs: expiresAtMs ?? null, endedAtMs: null };
}

function foundFrom(row: AuthorityRow | null): FoundKey | undefined {
  if (row === null) return undefined;
  const { id: keyId, workspaceId, agentId, endedAtMs, sealed } = row;
  const holder = { keyId, workspaceId, role: Role.AGENT, agentId: agentId ?? null };
  const { expires_at_ms: expiresAtMs } = sealed as SealedAuthority;
  return { holder, afterEnd: { ...holder, isEnded: true }, expiresAtMs, endedAtMs: endedAtMs ?? null };
}

async function findCredential({ orm }: Store, secretHash: Buffer): Promise<FoundKey | undefined> {
  return foundFrom(await stored(orm.em.fork().findOne(AuthorityEntity, { secretHash, kind: "credential" })));
}

async function findToken({ orm }: Store, token: string, verify: VerifyToken): Promise<FoundKey | undefined> {
  // The signature first: what is forged costs no query.
  const claims = await verify(token);
  if (claims === undefined) return undefined;
  const { id, workspaceId, agentId } = claims;
  const where = { workspaceId, id, agentId, kind: "federation_token" };
  return foundFrom(await stored(orm.em.fork().findOne(AuthorityEntity, where)));
}

/** Creates the look-up. A text that people chose as their key is found as such, whatever else it looks like. */
export function createKeyLookUp(store: Store, verify: VerifyToken | undefined): KeyLookUp {
  return async (key, secretHash) => {
    const isCredential = key.startsWith(CREDENTIAL_MARK);
    const credential = isCredential ? await findCredential(store, secretHash) : undefined;
    if (credential !== undefined) return credential;
    const token = verify !== undefined && isToken(key) ? await findToken(store, key, verify) : undefined;
    if (token !== undefined) return token;
    return key.length <= MAX_KEY ? findKey(store, secretHash) : undefined;
  };
}
