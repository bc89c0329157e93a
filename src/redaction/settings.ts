import type { Pool } from "pg";
import { invalidField } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { checkedText } from "../registry/checked-text.ts";
import { isSameOrigin } from "../registry/url-origin.ts";
import { stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import { RedactionSettingsEntity } from "../store/entities.ts";
import { readRedactionSettings, type StoredRedactionSettings } from "../store/sql/redaction.ts";
import type { Transaction } from "../store/transaction.ts";
import { DETECTED_KINDS } from "../text/personal-kinds.ts";
import type { Targets } from "../webhook/target.ts";
import type { RedactionCaller } from "./leakage-webhooks.ts";

/** Redaction settings of a workspace. */
export interface RedactionSettings {
  /** True puts the caller's own values back in place of placeholders in responses. */
  readonly restoreValues: boolean;
  /** True passes images, audio and files unscrubbed; false refuses them. */
  readonly allowMedia: boolean;
  /** Kinds of values whose detectors are disabled. */
  readonly disabledKinds: readonly string[];
  /** Exceptions for detectors: exact values, and mail domains in the form `*@example.com`. */
  readonly allow: readonly string[];
  /** Base URL of the workspace's own model service, ending in `/v1`; undefined means `ACP_LLM_URL`. */
  readonly llmUrl?: string | undefined;
  /** Key for `llmUrl`, sent for callers without a key of their own. */
  readonly llmKey?: string | undefined;
}

/** Settings with a revision, which grows with every change of the settings and of the registered values. */
export interface RevisedSettings extends RedactionSettings {
  readonly revision: number;
}

/** Dependencies for reading and writing settings. */
export interface SettingsContext {
  readonly pool: Pool;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly encryptor: Encryptor;
  readonly targets: Pick<Targets, "check">;
}

const DEFAULTS: RevisedSettings = {
  restoreValues: false,
  allowMedia: false,
  disabledKinds: [],
  allow: [],
  llmUrl: undefined,
  llmKey: undefined,
  revision: 0,
};

/** Settings that are stored encrypted, as JSON. */
type PrivateSettings = Pick<RedactionSettings, "allow" | "llmUrl" | "llmKey">;
/** Place of these settings, for the encryptor. */
const PRIVATE_PLACE = "redaction_settings.sealed_private";

function settingsFrom(encryptor: Encryptor, workspaceId: string, row: StoredRedactionSettings): RevisedSettings {
  const { restoreValues, allowMedia, disabledKinds, sealedPrivate, revision } = row;
  const opened = JSON.parse(encryptor.decrypt(workspaceId, PRIVATE_PLACE, sealedPrivate)) as PrivateSettings;
  const { allow, llmUrl, llmKey } = opened;
  return { restoreValues, allowMedia, disabledKinds, allow, llmUrl, llmKey, revision };
}

/** Reads the current settings of a workspace from the store. */
export async function readSettings(
  { pool, encryptor }: Pick<SettingsContext, "pool" | "encryptor">,
  workspaceId: string,
): Promise<RevisedSettings> {
  const values = [workspaceId];
  const { rows } = await stored(pool.query<StoredRedactionSettings>({ ...readRedactionSettings, values }));
  return rows[0] === undefined ? DEFAULTS : settingsFrom(encryptor, workspaceId, rows[0]);
}

const encryptPrivate = (
  encryptor: Encryptor,
  workspaceId: string,
  { allow, llmUrl, llmKey }: PrivateSettings,
): Buffer => encryptor.encrypt(workspaceId, PRIVATE_PLACE, JSON.stringify({ allow, llmUrl, llmKey }));

/**
 * Raises the revision, so that every process recompiles the workspace's scrubber. MUST run in the transaction of the change.
 * Returns the previous settings. Throws ENCRYPTION_KEY_DIFFERS, so that nothing is encrypted under two keys.
 */
export async function raiseRevision(
  transaction: Transaction,
  encryptor: Encryptor,
  workspaceId: string,
): Promise<RevisedSettings> {
  const row = await transaction.findOne(RedactionSettingsEntity, { workspaceId });
  if (row === null) {
    const { restoreValues, allowMedia } = DEFAULTS;
    const sealedPrivate = encryptPrivate(encryptor, workspaceId, DEFAULTS);
    const first = { workspaceId, restoreValues, allowMedia, disabledKinds: [], sealedPrivate, revision: 1 };
    await transaction.insert(RedactionSettingsEntity, first);
    return DEFAULTS;
  }
  const before = settingsFrom(encryptor, workspaceId, row);
  await transaction.nativeUpdate(RedactionSettingsEntity, { workspaceId }, { revision: before.revision + 1 });
  return before;
}

function assertKinds(kinds: readonly string[]): void {
  const known: readonly string[] = DETECTED_KINDS;
  const wrong = kinds.findIndex((kind) => !known.includes(kind));
  if (wrong === -1) return;
  throw invalidField(`disabled_kinds[${wrong}]`, `must be one of ${known.map((kind) => `\`${kind}\``).join(", ")}`);
}

/** Checks the workspace's own model service. Its address is guarded like a webhook's address. */
async function assertUpstream({ targets }: SettingsContext, { llmUrl, llmKey }: RedactionSettings): Promise<void> {
  if (llmUrl === undefined) {
    if (llmKey !== undefined) throw invalidField("llm_key", "needs `llm_url`; set both, or neither");
    return;
  }
  await targets.check(llmUrl, "llm_url");
  if (!new URL(llmUrl).pathname.endsWith("/v1")) throw invalidField("llm_url", "must end in `/v1`");
  if (new URL(llmUrl).search !== "" || new URL(llmUrl).hash !== "")
    throw invalidField("llm_url", "must have no query and no fragment");
  if (llmKey !== undefined && !HEADER_TEXT.test(llmKey)) {
    throw invalidField("llm_key", "must be visible ASCII without blanks, so that a header can carry it");
  }
}

const HEADER_TEXT = /^[\x21-\x7e]+$/;

/** Settings after a change. */
export interface PutSettings {
  readonly settings: RedactionSettings;
  /** True if a stored key was dropped because its URL has another origin or is gone. */
  readonly hasDroppedKey: boolean;
}

/** Replaces the settings as a whole. Seals nothing if they are equal. Rejects with INVALID_FIELD. */
export async function putSettings(
  context: SettingsContext,
  { workspaceId, keyId }: RedactionCaller,
  settings: RedactionSettings,
): Promise<PutSettings> {
  const { restoreValues, allowMedia, allow, llmUrl } = settings;
  const disabledKinds = [...settings.disabledKinds];
  assertKinds(disabledKinds);
  for (const [index, each] of allow.entries()) checkedText(`allow[${index}]`, each);
  await assertUpstream(context, settings);
  const { encryptor } = context;
  const log = await context.logs.of(workspaceId);
  let hasDroppedKey = false;
  let wanted: RedactionSettings = { restoreValues, allowMedia, disabledKinds, allow, llmUrl, llmKey: settings.llmKey };
  await log.change(keyId, async ({ transaction, seal }) => {
    const { revision: _, ...before } = await raiseRevision(transaction, encryptor, workspaceId);
    // The key is never shown, so a caller that sends back the settings it read does not have it. It is kept only for its origin.
    const staysPut = llmUrl !== undefined && before.llmUrl !== undefined && isSameOrigin(llmUrl, before.llmUrl);
    if (staysPut) wanted = { ...wanted, llmKey: wanted.llmKey ?? before.llmKey };
    hasDroppedKey = before.llmKey !== undefined && wanted.llmKey === undefined;
    if (JSON.stringify(before) === JSON.stringify(wanted)) return;
    const sealedPrivate = encryptPrivate(encryptor, workspaceId, wanted);
    const columns = { restoreValues, allowMedia, disabledKinds, sealedPrivate };
    await transaction.nativeUpdate(RedactionSettingsEntity, { workspaceId }, columns);
    seal({
      type: "redaction_settings_changed",
      restore_values: restoreValues,
      allow_media: allowMedia,
      disabled_kinds: disabledKinds,
      allowed: allow.length,
      own_llm: llmUrl !== undefined,
    });
  });
  return { settings: wanted, hasDroppedKey };
}
