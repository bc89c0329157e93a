import { createHash, randomBytes } from "node:crypto";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { ControlPlaneError, ErrorReason, invalidField, notFound } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { SealedKey } from "../state/control-changes.ts";
import { type Database, stored } from "../store/database.ts";
import { ApiKeyEntity, type ApiKeyRow, PersonEntity } from "../store/entities.ts";
import { base32FromBytes, createId } from "../store/ids.ts";
import { readKeyEnd } from "../store/sql/read-key-end.ts";
import type { Reader, Transaction } from "../store/transaction.ts";
import { getAgent } from "./agents.ts";
import { checkedName } from "./checked-text.ts";
import { assertOwner, checkedOwner } from "./key-owner.ts";
import { cursorOf, newestFirst, type Page, type PageRequest, pageFrom } from "./page.ts";
import { personIn } from "./person-name.ts";
import { roleUnderOwner } from "./person-role.ts";

const SECRET_BYTES = 32;
const PREFIX_LENGTH = 12;
const KEY_MARK = "acp_";
/** Author of the changes that the service makes itself. */
const SYSTEM = "system";

/** Beginning of every credential's secret. */
export const CREDENTIAL_MARK = "acpc_";
/** Beginning of the secret that a cookie of the dashboard holds. */
export const SIGN_IN_MARK = "acps_";
/** Beginning of the secret in the link of an invite. */
export const INVITE_MARK = "acpi_";

type SecretMark = typeof KEY_MARK | typeof CREDENTIAL_MARK | typeof SIGN_IN_MARK | typeof INVITE_MARK;

/** Makes a secret: a mark and the base32 of 32 bytes from the system's generator. */
export function createSecret(mark: SecretMark = KEY_MARK): string {
  return `${mark}${base32FromBytes(randomBytes(SECRET_BYTES))}`;
}

/** Returns the SHA-256 that is stored in place of a secret. A slow hash is not needed: a secret is too random to guess. */
export function hashSecret(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

/** Returns the beginning of a random secret, which may be shown. */
export function prefixOf(secret: string): string {
  return secret.slice(0, PREFIX_LENGTH);
}

/** Tests whether an API key is revoked or has expired by a time; false for an id of no API key. */
export async function hasApiKeyEnded(
  reader: Reader,
  workspaceId: string,
  keyId: string,
  nowMs: number,
): Promise<boolean> {
  const { rows } = await stored(
    reader.query<{ ended: boolean }>({ ...readKeyEnd, values: [workspaceId, keyId, nowMs] }),
  );
  return rows[0]?.ended === true;
}

/** Fields of a new key. */
export interface KeyDraft {
  readonly name: string;
  readonly role: Role;
  /** The agent it is bound to; null for a key that may act for every agent. */
  readonly agentId: string | null;
  /** Seconds until it expires. */
  readonly ttlSeconds?: number | undefined;
  /** Person or label that keys of one holder have in common; undefined for a key that counts as its maker. */
  readonly owner?: string | undefined;
}

/** A key with its secret, which is shown once and never again. */
export interface CreatedKey {
  readonly key: ApiKeyRow;
  readonly secret: string;
}

/** A key that is not stored yet, in the form that is sealed too. */
interface NewKey extends CreatedKey {
  readonly sealed: SealedKey;
}

/**
 * Makes a key of a workspace without storing it. `by`: the key or person that makes it, or `system`. The secret is random unless
 * one is given; a given one has an empty prefix, because its beginning may be easy to continue.
 */
export function newKey(workspaceId: string, by: string, draft: KeyDraft, nowMs: number, given?: string): NewKey {
  const { name, role, agentId, ttlSeconds, owner = null } = draft;
  const keyId = createId("key");
  const secret = given ?? createSecret();
  const prefix = given === undefined ? prefixOf(secret) : "";
  const key: ApiKeyRow = {
    keyId,
    workspaceId,
    name,
    role,
    agentId,
    prefix,
    secretHash: hashSecret(secret),
    createdAtMs: nowMs,
    expiresAtMs: ttlSeconds === undefined ? null : nowMs + ttlSeconds * 1000,
    revokedAtMs: null,
    endedWithAgent: false,
    owner,
    // The service is nobody: all that it made would count as one.
    createdBy: by === SYSTEM ? null : by,
    lastUsedAtMs: null,
  };
  const sealed = { key_id: keyId, name, role, agent_id: agentId, prefix, ...(owner === null ? {} : { owner }) };
  return { secret, key, sealed };
}

function canAdminister({ role, expiresAtMs, revokedAtMs }: ApiKeyRow, nowMs: number): boolean {
  const isOpen = (revokedAtMs ?? null) === null && (expiresAtMs ?? Number.POSITIVE_INFINITY) > nowMs;
  return role === Role.ADMIN && isOpen;
}

/** Makes a key inside a change of `by`. The secret is random unless one is given. */
export async function putKey(scope: ChangeScope, by: string, draft: KeyDraft, given?: string): Promise<CreatedKey> {
  const { key, sealed, secret } = newKey(scope.state.workspaceId, by, draft, scope.nowMs, given);
  await scope.transaction.insert(ApiKeyEntity, { ...key });
  scope.seal({ type: "key_created", key: sealed });
  return { key, secret };
}

const DAY_SECONDS = 86_400;

/** Returns the seconds until a key expires, by its draft and the workspace's setting. Throws INVALID_FIELD for too many. */
export function ttlSecondsIn({ state }: Pick<ChangeScope, "state">, { ttlSeconds }: KeyDraft): number | undefined {
  const { key_ttl_days: days } = state.settings;
  if (days === 0) return ttlSeconds;
  const most = days * DAY_SECONDS;
  if (ttlSeconds === undefined || ttlSeconds <= most) return ttlSeconds ?? most;
  const description = `must be at most ${most}: the workspace's \`key_ttl_days\` is ${days}; an admin changes it`;
  throw invalidField("ttl_seconds", description);
}

/**
 * Makes a key of the workspace, which expires by the workspace's setting unless the draft says when. It works at once on this
 * replica, and on others when they next look it up. Throws AGENT_NOT_FOUND, and INVALID_FIELD for a name or owner that is none, and
 * when a key of another role than `agent` is bound to an agent, or would outlive the setting.
 */
export function createKey(log: WorkspaceLog, by: string, draft: KeyDraft): Promise<CreatedKey> {
  const name = checkedName("name", draft.name);
  const { agentId, role } = draft;
  const owner = checkedOwner(draft.owner);
  if (agentId !== null && role !== Role.AGENT) throw invalidField("agent_id", "goes with the role `agent` only");
  return log.change(by, async (scope) => {
    if (agentId !== null) getAgent(scope.state, agentId);
    if (owner !== undefined) await assertOwner(scope, owner);
    const ttlSeconds = ttlSecondsIn(scope, draft);
    return putKey(scope, by, { ...draft, name, owner, ttlSeconds });
  });
}

/** Returns the keys that may administer the workspace now; those of people who are no longer admins do not. */
export async function adminKeys({ transaction, state, nowMs }: ChangeScope): Promise<ApiKeyRow[]> {
  const { workspaceId } = state;
  const rows = await transaction.find(ApiKeyEntity, { workspaceId, role: Role.ADMIN, revokedAtMs: null });
  const open = rows.filter((row) => canAdminister(row, nowMs));
  const owners = open.flatMap(({ owner }) => personIn(owner) ?? []);
  const where = { workspaceId, actor: { $in: owners } };
  const people = owners.length === 0 ? [] : await transaction.find(PersonEntity, where, { disableIdentityMap: true });
  const byActor = new Map(people.map((person) => [person.actor, person]));
  return open.filter(({ owner }) => roleUnderOwner(Role.ADMIN, byActor.get(owner ?? "") ?? null) === Role.ADMIN);
}

/** Revokes the keys of the workspace whose secrets were given. Returns their ids. */
export async function revokeGivenKeys({ transaction, state, nowMs, seal }: ChangeScope): Promise<readonly string[]> {
  const where = { workspaceId: state.workspaceId, prefix: "", revokedAtMs: null };
  const rows = await transaction.find(ApiKeyEntity, where);
  await transaction.nativeUpdate(ApiKeyEntity, where, { revokedAtMs: nowMs });
  for (const { keyId } of rows) seal({ type: "key_revoked", key_id: keyId });
  return rows.map(({ keyId }) => keyId);
}

/** Finds the keys that are bound to an agent and not revoked, expired ones included. */
export function keysOfAgent(transaction: Transaction, workspaceId: string, agentId: string): Promise<ApiKeyRow[]> {
  return transaction.find(ApiKeyEntity, { workspaceId, agentId, revokedAtMs: null });
}

/**
 * Ends the keys that are bound to an agent which is revoked. They still authenticate, as ended keys, so that their calls are
 * refused on record.
 */
export async function endKeysOfAgent({ transaction, state, nowMs }: ChangeScope, agentId: string): Promise<void> {
  const where = { workspaceId: state.workspaceId, agentId, revokedAtMs: null };
  await transaction.nativeUpdate(ApiKeyEntity, where, { revokedAtMs: nowMs, endedWithAgent: true });
}

/** Throws LAST_ADMIN_KEY when the workspace would be left without a working admin key by the end of some keys. */
export async function assertAdminLeft(scope: ChangeScope, ended: readonly ApiKeyRow[]): Promise<void> {
  // Revoking an expired key locks nobody out.
  const last = ended.find((key) => canAdminister(key, scope.nowMs));
  if (last === undefined) return;
  const isEnded = new Set(ended.map(({ keyId }) => keyId));
  if ((await adminKeys(scope)).some(({ keyId }) => !isEnded.has(keyId))) return;
  const message = `key \`${last.keyId}\` is the last admin key of the workspace; make another first`;
  throw new ControlPlaneError(ErrorReason.LAST_ADMIN_KEY, message, { key_id: last.keyId });
}

/**
 * Revokes a key; nothing is sealed for a revoked one. Throws KEY_NOT_FOUND, and LAST_ADMIN_KEY when the workspace would be
 * left without a working admin key. The caller MUST make its authenticator forget the workspace.
 */
export function revokeKey(log: WorkspaceLog, by: string, keyId: string): Promise<ApiKeyRow> {
  return log.change(by, async (scope) => {
    const { transaction, state, nowMs, seal } = scope;
    const where = { keyId, workspaceId: state.workspaceId };
    const key = await transaction.findOne(ApiKeyEntity, where);
    if (key === null) throw notFound(ErrorReason.KEY_NOT_FOUND, "key", { key_id: keyId });
    if ((key.revokedAtMs ?? null) !== null) return key;
    await assertAdminLeft(scope, [key]);
    await transaction.nativeUpdate(ApiKeyEntity, where, { revokedAtMs: nowMs });
    seal({ type: "key_revoked", key_id: keyId });
    return { ...key, revokedAtMs: nowMs };
  });
}

/** Lists the keys of a workspace, newest first, revoked ones included; with `owner` those of one owner. */
export async function listKeys(
  { orm }: Database,
  workspaceId: string,
  page: PageRequest<string>,
  owner?: string | undefined,
): Promise<Page<ApiKeyRow, string>> {
  const { where, options } = newestFirst("keyId", page);
  const wanted = { workspaceId, ...(owner === undefined ? {} : { owner }), ...where };
  const rows: ApiKeyRow[] = await stored(orm.em.fork().find(ApiKeyEntity, wanted, options));
  return pageFrom(rows, page.size, (key) => cursorOf(key, key.keyId));
}
