import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import type { ChangeScope, WorkspaceLog } from "../log/workspace-log.ts";
import type { Database } from "../store/database.ts";
import { ApiKeyEntity, type ApiKeyRow } from "../store/entities.ts";
import { administersAt, type KeyDraft, newKey } from "./key-row.ts";
import { agentOf } from "./lookups.ts";
import { type Page, type PageRequest, pageFrom } from "./page.ts";
import { stored } from "./stored.ts";
import { nameFrom } from "./text.ts";

export type { KeyDraft } from "./key-row.ts";

/** A key with its secret, which is told once and never again. */
export interface CreatedKey {
  readonly key: ApiKeyRow;
  readonly secret: string;
}

/** Makes a key inside a change. The secret is new unless one is given. */
export async function putKey(scope: ChangeScope, draft: KeyDraft, given?: string): Promise<CreatedKey> {
  const { row, sealed, secret } = newKey(scope.state.workspaceId, draft, scope.nowMs, given);
  await scope.transaction.insert(ApiKeyEntity, { ...row });
  scope.seal({ type: "key_created", key: sealed });
  return { key: row, secret };
}

/**
 * Makes a key of the workspace. It opens on this replica at once, on others when they look it up. Throws AGENT_NOT_FOUND,
 * and INVALID_FIELD when a key that is no agent's is to be bound to one.
 */
export function createKey(log: WorkspaceLog, by: string, draft: KeyDraft): Promise<CreatedKey> {
  const name = nameFrom("name", draft.name);
  const { agentId, role } = draft;
  if (agentId !== null && role !== Role.AGENT) throw invalidField("agent_id", "goes with the role `agent` only");
  return log.change(by, async (scope) => {
    if (agentId !== null) agentOf(scope.state, agentId);
    return putKey(scope, { ...draft, name });
  });
}

/** The keys of a workspace that may administer it at a time. */
export async function adminKeys({ transaction, state, nowMs }: ChangeScope): Promise<ApiKeyRow[]> {
  const where = { workspaceId: state.workspaceId, role: Role.ADMIN, revokedAtMs: null };
  const rows = await transaction.find(ApiKeyEntity, where);
  return rows.filter((row) => administersAt(row, nowMs));
}

async function assertNotLast(scope: ChangeScope, key: ApiKeyRow): Promise<void> {
  // A key that opens nothing any more leaves nobody locked out.
  if (!administersAt(key, scope.nowMs)) return;
  const left = (await adminKeys(scope)).filter(({ keyId }) => keyId !== key.keyId);
  if (left.length > 0) return;
  const message = `key \`${key.keyId}\` is the last admin key of the workspace; make another first`;
  throw new ControlPlaneError(ErrorReason.LAST_ADMIN_KEY, message, { key_id: key.keyId });
}

/**
 * Revokes a key; a revoked one stays as it is and nothing is sealed. Throws KEY_NOT_FOUND, and LAST_ADMIN_KEY when no admin
 * key that opens would be left. The caller MUST make its authenticator forget the workspace.
 */
export function revokeKey(log: WorkspaceLog, by: string, keyId: string): Promise<ApiKeyRow> {
  return log.change(by, async (scope) => {
    const { transaction, state, nowMs, seal } = scope;
    const where = { keyId, workspaceId: state.workspaceId };
    const key = await transaction.findOne(ApiKeyEntity, where);
    if (key === null) throw new ControlPlaneError(ErrorReason.KEY_NOT_FOUND, `no key \`${keyId}\``, { key_id: keyId });
    if ((key.revokedAtMs ?? null) !== null) return key;
    await assertNotLast(scope, key);
    await transaction.nativeUpdate(ApiKeyEntity, where, { revokedAtMs: nowMs });
    seal({ type: "key_revoked", key_id: keyId });
    return { ...key, revokedAtMs: nowMs };
  });
}

const POSITION = /^(\d{1,16}) (\S+)$/;

/** The keys after a position in the list; every key when there is none. */
function afterPosition(after: string | undefined): object {
  const [, createdAtMs, keyId] = POSITION.exec(after ?? "") ?? [];
  if (createdAtMs === undefined) return {};
  const at = Number(createdAtMs);
  return { $or: [{ createdAtMs: { $lt: at } }, { createdAtMs: at, keyId: { $lt: keyId } }] };
}

/** Lists the keys of a workspace, newest first, revoked ones included. */
export async function listKeys(
  { orm }: Database,
  workspaceId: string,
  { size, after }: PageRequest<string>,
): Promise<Page<ApiKeyRow, string>> {
  const where = { workspaceId, ...afterPosition(after) };
  const options = { orderBy: [{ createdAtMs: "desc" }, { keyId: "desc" }], limit: size + 1 } as const;
  const rows: ApiKeyRow[] = await stored(orm.em.fork().find(ApiKeyEntity, where, options as never));
  return pageFrom(rows, size, ({ createdAtMs, keyId }) => `${createdAtMs} ${keyId}`);
}
