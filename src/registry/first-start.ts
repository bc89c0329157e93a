import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { SealedSigningKey } from "../state/control-changes.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { Database } from "../store/database.ts";
import { ApiKeyEntity } from "../store/entities.ts";
import type { StoreLog } from "../store/migrate.ts";
import { registerFirstAgent } from "./agents.ts";
import { adminKeys, hashSecret, type KeyDraft, putKey, revokeGivenKeys } from "./keys.ts";
import { createWorkspace, DEFAULT_WORKSPACE_ID, getWorkspace } from "./workspaces.ts";

/** Options of `ensureDefaultWorkspace`. */
interface DefaultWorkspaceOptions {
  readonly database: Database;
  readonly logs: WorkspaceLogs;
  /** Key that is to sign the log of a new workspace. */
  readonly signingKey?: SealedSigningKey;
  /** Secret of the admin key; undefined for a new one. */
  readonly adminKey?: string | undefined;
  /** False: rejects with `AdminKeyMissing` where a key would be generated. Default true. */
  readonly mayGenerateKey?: boolean;
  readonly log: Pick<StoreLog, "warn">;
}

/** Options of `prepareFirstStart`. */
interface FirstStartOptions extends DefaultWorkspaceOptions {
  /** Folder that keeps a generated admin key, readable by its owner alone. */
  readonly dataDir: string;
  /** Registers an agent to try the control plane with, where there is none. Default true. */
  readonly hasExampleAgent?: boolean;
}

/** The place where the person who starts the service finds the admin key. */
export type AdminKeyPlace =
  | { readonly kind: "configured" }
  /** `secret` is set only on the start that generated it. */
  | { readonly kind: "file"; readonly path: string; readonly secret: string | undefined }
  /** Another machine generated the key. */
  | { readonly kind: "elsewhere" };

/** Facts that a newcomer needs to have a first action decided. */
export interface FirstStart {
  readonly adminKey: AdminKeyPlace;
  /** An active agent; undefined when the workspace `default` has none. */
  readonly agentId: string | undefined;
}

/** A database without a usable admin key, for a start that may not generate one. */
export class AdminKeyMissing extends Error {
  override readonly name = "AdminKeyMissing";

  constructor() {
    super("ACP_ADMIN_KEY must be set, because the database has no admin key yet; make one with `openssl rand -hex 24`");
  }
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

/** Result of `ensureAdminKey`. */
interface EnsuredKey {
  /** Secret of a key that was created. */
  readonly secret?: string;
  /** Keys that the configured one takes the place of. */
  readonly revokedKeyIds?: readonly string[];
  /** The configured key, if it was revoked before. */
  readonly unusableKeyId?: string;
}

async function ensureAdminKey(
  scope: ChangeScope,
  { adminKey, mayGenerateKey = true }: DefaultWorkspaceOptions,
): Promise<EnsuredKey> {
  if (adminKey === undefined) {
    if ((await adminKeys(scope)).length > 0) return {};
    if (!mayGenerateKey) throw new AdminKeyMissing();
    return { secret: (await putKey(scope, BY, ADMIN)).secret };
  }
  const known = await scope.transaction.findOne(ApiKeyEntity, { secretHash: hashSecret(adminKey) });
  // A revoked key stays revoked, even if it is still configured.
  if (known !== null) return (known.revokedAtMs ?? null) === null ? {} : { unusableKeyId: known.keyId };
  const revokedKeyIds = await revokeGivenKeys(scope);
  return { secret: (await putKey(scope, BY, ADMIN, adminKey)).secret, revokedKeyIds };
}

/**
 * Creates the workspace `default` with an admin key unless it exists. Creates an admin key if none works any more or the given
 * one is new; a new one ends the one that was given before. Returns the secret of a key that it created. Safe to call from
 * several processes at once: exactly one of them creates each.
 */
export async function ensureDefaultWorkspace(options: DefaultWorkspaceOptions): Promise<{ readonly secret?: string }> {
  const { database, logs, adminKey, signingKey, mayGenerateKey = true } = options;
  const workspaceId = DEFAULT_WORKSPACE_ID;
  if ((await unless(ErrorReason.WORKSPACE_NOT_FOUND, getWorkspace(database, workspaceId))) === undefined) {
    if (adminKey === undefined && !mayGenerateKey) throw new AdminKeyMissing();
    const context = { database, nowMs: logs.clock.now(), by: BY, signingKey };
    const creation = createWorkspace(context, { workspaceId }, adminKey);
    const created = await unless(ErrorReason.WORKSPACE_EXISTS, creation);
    if (created !== undefined) return { secret: created.secret };
  }
  const log = await logs.of(workspaceId);
  const { secret, revokedKeyIds = [], unusableKeyId } = await log.change(BY, (scope) => ensureAdminKey(scope, options));
  for (const key_id of revokedKeyIds) {
    options.log.warn({ key_id }, "ACP_ADMIN_KEY changed: the key that it named before is revoked");
  }
  if (unusableKeyId !== undefined) {
    options.log.warn(
      { key_id: unusableKeyId },
      "ACP_ADMIN_KEY names a revoked key, which opens nothing; choose another",
    );
  }
  return secret === undefined ? {} : { secret };
}

async function saveKey(dataDir: string, secret: string): Promise<void> {
  const path = join(dataDir, KEY_FILE);
  await mkdir(dataDir, { recursive: true });
  await writeFile(path, `${secret}\n`, { mode: OWNER_ONLY });
  // `writeFile` sets the mode of a new file only.
  await chmod(path, OWNER_ONLY);
}

async function placeOfKey(dataDir: string, secret: string | undefined): Promise<AdminKeyPlace> {
  const path = join(dataDir, KEY_FILE);
  const text = await readFile(path, "utf8").catch(() => "");
  return text.trim() === "" ? { kind: "elsewhere" } : { kind: "file", path, secret };
}

function activeAgent(state: WorkspaceState): string | undefined {
  for (const agent of state.agents.values()) if (agent.status === "active") return agent.agentId;
  return undefined;
}

/**
 * Creates the workspace `default`, its admin key and one agent where missing, as far as the options allow. Rejects with
 * `AdminKeyMissing`. Safe to call from several processes.
 */
export async function prepareFirstStart(options: FirstStartOptions): Promise<FirstStart> {
  const { logs, adminKey, dataDir, hasExampleAgent = true } = options;
  const { secret } = await ensureDefaultWorkspace(options);
  const isConfigured = adminKey !== undefined;
  if (secret !== undefined && !isConfigured) await saveKey(dataDir, secret);
  const log = await logs.of(DEFAULT_WORKSPACE_ID);
  if (hasExampleAgent) await registerFirstAgent(log, BY, EXAMPLE_AGENT);
  const place: AdminKeyPlace = isConfigured ? { kind: "configured" } : await placeOfKey(dataDir, secret);
  return { adminKey: place, agentId: activeAgent(await log.caughtUp()) };
}
