import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { ChangeScope } from "../log/workspace-log.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { Database } from "../store/database.ts";
import { ApiKeyEntity } from "../store/entities.ts";
import type { KeyDraft } from "./key-row.ts";
import { hashSecret } from "./key-secret.ts";
import { adminKeys, putKey } from "./keys.ts";
import { createWorkspace, DEFAULT_WORKSPACE_ID, getWorkspace } from "./workspaces.ts";

/** How the first workspace is made. */
export interface DefaultWorkspaceOptions {
  readonly database: Database;
  readonly logs: WorkspaceLogs;
  /** Secret of the admin key; undefined for a new one. */
  readonly adminKey?: string | undefined;
}

const BY = "system";
const ADMIN: KeyDraft = { name: "admin", role: Role.ADMIN, agentId: null };

async function exists(database: Database): Promise<boolean> {
  try {
    await getWorkspace(database, DEFAULT_WORKSPACE_ID);
    return true;
  } catch (error) {
    if (error instanceof ControlPlaneError && error.reason === ErrorReason.WORKSPACE_NOT_FOUND) return false;
    throw error;
  }
}

/** Makes the workspace; undefined when another process was first. */
async function makeWorkspace({ database, logs, adminKey }: DefaultWorkspaceOptions): Promise<string | undefined> {
  try {
    const context = { database, nowMs: logs.clock.now(), by: BY };
    const { secret } = await createWorkspace(context, { workspaceId: DEFAULT_WORKSPACE_ID }, adminKey);
    return secret;
  } catch (error) {
    if (error instanceof ControlPlaneError && error.reason === ErrorReason.WORKSPACE_EXISTS) return undefined;
    throw error;
  }
}

async function ensureKey(scope: ChangeScope, adminKey: string | undefined): Promise<string | undefined> {
  if (adminKey !== undefined) {
    const secretHash = hashSecret(adminKey);
    // One that was revoked stays so, even if it is still configured.
    const known = await scope.transaction.findOne(ApiKeyEntity, { secretHash });
    return known === null ? (await putKey(scope, ADMIN, adminKey)).secret : undefined;
  }
  const admins = await adminKeys(scope);
  return admins.length > 0 ? undefined : (await putKey(scope, ADMIN)).secret;
}

/**
 * Makes sure that the workspace `default` exists and an admin can open it: makes the workspace and its admin key if there
 * is none, and an admin key when none opens any more or the one given is new. Gives the secret when it made a key. Any
 * number of processes may call this at once: exactly one of them makes each.
 */
export async function ensureDefaultWorkspace(options: DefaultWorkspaceOptions): Promise<{ readonly secret?: string }> {
  const { database, logs, adminKey } = options;
  let secret = (await exists(database)) ? undefined : await makeWorkspace(options);
  if (secret === undefined) {
    const log = await logs.of(DEFAULT_WORKSPACE_ID);
    secret = await log.change(BY, (scope) => ensureKey(scope, adminKey));
  }
  return secret === undefined ? {} : { secret };
}
