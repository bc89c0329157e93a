import type { Pool } from "pg";
import { invalidField } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { checkedText } from "../registry/checked-text.ts";
import { RedactionSettingsEntity } from "../store/entities.ts";
import { readRedactionSettings, type StoredRedactionSettings } from "../store/sql/redaction.ts";
import { stored } from "../store/store-fault.ts";
import type { Transaction } from "../store/transaction.ts";
import type { Encryptor } from "./encryptor.ts";
import type { RedactionCaller } from "./leakage-webhooks.ts";
import { DETECTED_KINDS } from "./text/personal-kinds.ts";

/** Redaction settings of a workspace. */
export interface RedactionSettings {
  /** True: placeholders in responses are replaced by the caller's own values again. */
  readonly restoreValues: boolean;
  /** True: images, audio and files pass unscrubbed; false: they are refused. */
  readonly allowMedia: boolean;
  /** Kinds whose detectors are switched off. */
  readonly disabledKinds: readonly string[];
  /** Exact values, and mail domains as `*@example.com`, that detectors leave alone. */
  readonly allow: readonly string[];
}

/** Settings with a revision that grows with every change of them and of the registered values. */
export interface RevisedSettings extends RedactionSettings {
  readonly revision: number;
}

/** Parts that read and write settings. */
export interface SettingsContext {
  readonly pool: Pool;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly encryptor: Encryptor;
}

const DEFAULTS: RevisedSettings = {
  restoreValues: false,
  allowMedia: false,
  disabledKinds: [],
  allow: [],
  revision: 0,
};
/** Place of the allow-list, for the encryptor. */
const ALLOW_PLACE = "allow-list";

function settingsFrom(encryptor: Encryptor, workspaceId: string, row: StoredRedactionSettings): RevisedSettings {
  const { restoreValues, allowMedia, disabledKinds, sealedAllow, revision } = row;
  const allow = JSON.parse(encryptor.decrypt(workspaceId, ALLOW_PLACE, sealedAllow)) as string[];
  return { restoreValues, allowMedia, disabledKinds, allow, revision };
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

const encryptList = (encryptor: Encryptor, workspaceId: string, allow: readonly string[]): Buffer =>
  encryptor.encrypt(workspaceId, ALLOW_PLACE, JSON.stringify(allow));

/**
 * Raises the revision, on which every process recompiles the workspace's scrubber. MUST be part of the transaction that makes
 * the change. Returns the settings before it. Throws REDACTION_KEY_DIFFERS, so that nothing is encrypted under two keys.
 */
export async function raiseRevision(
  transaction: Transaction,
  encryptor: Encryptor,
  workspaceId: string,
): Promise<RevisedSettings> {
  const row = await transaction.findOne(RedactionSettingsEntity, { workspaceId });
  if (row === null) {
    const { restoreValues, allowMedia } = DEFAULTS;
    const sealedAllow = encryptList(encryptor, workspaceId, []);
    const first = { workspaceId, restoreValues, allowMedia, disabledKinds: [], sealedAllow, revision: 1 };
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

/** Replaces the settings as a whole. Seals nothing if they are equal. Rejects with INVALID_FIELD. */
export async function putSettings(
  context: SettingsContext,
  { workspaceId, keyId }: RedactionCaller,
  settings: RedactionSettings,
): Promise<RedactionSettings> {
  const { restoreValues, allowMedia, allow } = settings;
  const disabledKinds = [...settings.disabledKinds];
  assertKinds(disabledKinds);
  for (const [index, each] of allow.entries()) checkedText(`allow[${index}]`, each);
  const { encryptor } = context;
  const log = await context.logs.of(workspaceId);
  const wanted = { restoreValues, allowMedia, disabledKinds, allow };
  await log.change(keyId, async ({ transaction, seal }) => {
    const { revision: _, ...before } = await raiseRevision(transaction, encryptor, workspaceId);
    if (JSON.stringify(before) === JSON.stringify(wanted)) return;
    const sealedAllow = encryptList(encryptor, workspaceId, allow);
    const columns = { restoreValues, allowMedia, disabledKinds, sealedAllow };
    await transaction.nativeUpdate(RedactionSettingsEntity, { workspaceId }, columns);
    seal({
      type: "redaction_settings_changed",
      ...{ restore_values: restoreValues, allow_media: allowMedia, disabled_kinds: disabledKinds },
      allowed: allow.length,
    });
  });
  return wanted;
}
