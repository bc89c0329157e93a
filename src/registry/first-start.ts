import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { ChangeScope } from "../log/writer.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { Database } from "../store/database.ts";
import { ApiKeyEntity } from "../store/entities.ts";
import { registerFirstAgent } from "./agents.ts";
import { adminKeys, hashSecret, type KeyDraft, putKey } from "./keys.ts";
import { createWorkspace, DEFAULT_WORKSPACE_ID, getWorkspace } from "./workspaces.ts";

/** Options of `ensureDefaultWorkspace`. */
interface DefaultWorkspaceOptions {
  readonly database: Database;
  readonly logs: WorkspaceLogs;
  /** Secret of the admin key; undefined for a new one. */
  readonly adminKey?: string | undefined;
}

/** Options of `prepareFirstStart`. */
interface FirstStartOptions extends DefaultWorkspaceOptions {
  /** Folder in which a generated admin key is kept, readable by the owner alone, to be shown again. */
  readonly dataDir: string;
}

/** Facts that a newcomer needs to have a first action decided. */
export interface FirstStart {
  /** Undefined when another machine generated the key. */
  readonly adminKey: string | undefined;
  /** An active agent; undefined when the workspace `default` has none. */
  readonly agentId: string | undefined;
}

const BY = "system";
const ADMIN: KeyDraft = { name: "admin", role: Role.ADMIN, agentId: null };
const KEY_FILE = "admin-key";
const OWNER_ONLY = 0o600;

const EXAMPLE_AGENT = {
  name: "example-agent",
  framework: "curl",
  description: "Registered on first start, to try the control plane with.",
  capabilities: [],
  allowedActionTypes: [],
  deniedActionTypes: [],
};

/** Awaits work; undefined when it fails for the given reason. */
async function unless<T>(reason: ErrorReason, work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof ControlPlaneError && error.reason === reason) return undefined;
    throw error;
  }
}

async function ensureAdminKey(scope: ChangeScope, adminKey: string | undefined): Promise<string | undefined> {
  if (adminKey === undefined) {
    return (await adminKeys(scope)).length > 0 ? undefined : (await putKey(scope, ADMIN)).secret;
  }
  // A revoked key stays revoked, even if it is still configured.
  const known = await scope.transaction.findOne(ApiKeyEntity, { secretHash: hashSecret(adminKey) });
  return known === null ? (await putKey(scope, ADMIN, adminKey)).secret : undefined;
}

/**
 * Creates the workspace `default` with an admin key unless it exists, and an admin key when none works any more or the
 * given one is new. Returns the secret of a key that it made. Safe to call from several processes at once: exactly one of
 * them makes each.
 */
export async function ensureDefaultWorkspace(options: DefaultWorkspaceOptions): Promise<{ readonly secret?: string }> {
  const { database, logs, adminKey } = options;
  const workspaceId = DEFAULT_WORKSPACE_ID;
  if ((await unless(ErrorReason.WORKSPACE_NOT_FOUND, getWorkspace(database, workspaceId))) === undefined) {
    const context = { database, nowMs: logs.clock.now(), by: BY };
    const creation = createWorkspace(context, { workspaceId }, adminKey);
    const created = await unless(ErrorReason.WORKSPACE_EXISTS, creation);
    if (created !== undefined) return { secret: created.secret };
  }
  const log = await logs.of(workspaceId);
  const secret = await log.change(BY, (scope) => ensureAdminKey(scope, adminKey));
  return secret === undefined ? {} : { secret };
}

async function saveKey(dataDir: string, secret: string): Promise<void> {
  const path = join(dataDir, KEY_FILE);
  await mkdir(dataDir, { recursive: true });
  await writeFile(path, `${secret}\n`, { mode: OWNER_ONLY });
  // `writeFile` sets the mode of a new file only.
  await chmod(path, OWNER_ONLY);
}

async function savedKey(dataDir: string): Promise<string | undefined> {
  const text = await readFile(join(dataDir, KEY_FILE), "utf8").catch(() => "");
  return text.trim() || undefined;
}

function activeAgent(state: WorkspaceState): string | undefined {
  for (const agent of state.agents.values()) if (agent.status === "active") return agent.agentId;
  return undefined;
}

/** Creates the workspace `default`, its admin key and one agent where missing. Safe to call from several processes. */
export async function prepareFirstStart(options: FirstStartOptions): Promise<FirstStart> {
  const { logs, adminKey, dataDir } = options;
  const { secret } = await ensureDefaultWorkspace(options);
  if (secret !== undefined && adminKey === undefined) await saveKey(dataDir, secret);
  const log = await logs.of(DEFAULT_WORKSPACE_ID);
  await registerFirstAgent(log, BY, EXAMPLE_AGENT);
  return { adminKey: adminKey ?? secret ?? (await savedKey(dataDir)), agentId: activeAgent(await log.caughtUp()) };
}
