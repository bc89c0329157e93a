import type { Pool } from "pg";
import { invalidField } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { checkedText } from "../registry/checked-text.ts";
import { RedactionSettingsEntity } from "../store/entities.ts";
import { readRedactionSettings, type StoredRedactionSettings } from "../store/sql/read-redaction.ts";
import { stored } from "../store/store-fault.ts";
import type { Transaction } from "../store/transaction.ts";
import type { Sealer } from "./sealer.ts";
import { DETECTED_KINDS } from "./text/types.ts";
import type { RedactionCaller } from "./webhooks.ts";

/** What a workspace wants of its redaction. */
export interface RedactionSettings {
  /** Whether placeholders in answers become the caller's own values again. */
  readonly restoreValues: boolean;
  /** Whether images, audio and files pass unscrubbed; else they are refused. */
  readonly allowMedia: boolean;
  /** Detected kinds that are not looked for. */
  readonly disabledKinds: readonly string[];
  /** Exact values, and mail domains as `*@example.com`, that are never taken for personal. */
  readonly allow: readonly string[];
}

/** Settings with the number that grows with every change of them and of the registered values. */
export interface RevisedSettings extends RedactionSettings {
  readonly revision: number;
}

/** What settings are read and written with. */
export interface SettingsContext {
  readonly pool: Pool;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly sealer: Sealer;
}

const DEFAULTS: RevisedSettings = {
  restoreValues: false,
  allowMedia: false,
  disabledKinds: [],
  allow: [],
  revision: 0,
};
/** Where the allow-list is kept, for the sealer. */
const ALLOW_PLACE = "allow-list";

function settingsFrom(sealer: Sealer, workspaceId: string, row: StoredRedactionSettings): RevisedSettings {
  const { restoreValues, allowMedia, disabledKinds, sealedAllow, revision } = row;
  const allow = JSON.parse(sealer.open(workspaceId, ALLOW_PLACE, sealedAllow)) as string[];
  return { restoreValues, allowMedia, disabledKinds, allow, revision };
}

/** Reads the settings of a workspace as they are now, on whichever process they were changed. */
export async function readSettings(
  { pool, sealer }: Pick<SettingsContext, "pool" | "sealer">,
  workspaceId: string,
): Promise<RevisedSettings> {
  const values = [workspaceId];
  const { rows } = await stored(pool.query<StoredRedactionSettings>({ ...readRedactionSettings, values }));
  return rows[0] === undefined ? DEFAULTS : settingsFrom(sealer, workspaceId, rows[0]);
}

const sealedList = (sealer: Sealer, workspaceId: string, allow: readonly string[]): Buffer =>
  sealer.seal(workspaceId, ALLOW_PLACE, JSON.stringify(allow));

/**
 * Lets every process compile the workspace's scrubber anew. MUST be part of the transaction that makes the change. Gives the
 * settings before. Throws REDACTION_KEY_DIFFERS, so that nothing is ever sealed under two keys.
 */
export async function raiseRevision(
  transaction: Transaction,
  sealer: Sealer,
  workspaceId: string,
): Promise<RevisedSettings> {
  const row = await transaction.findOne(RedactionSettingsEntity, { workspaceId });
  if (row === null) {
    const { restoreValues, allowMedia } = DEFAULTS;
    const sealedAllow = sealedList(sealer, workspaceId, []);
    const first = { workspaceId, restoreValues, allowMedia, disabledKinds: [], sealedAllow, revision: 1 };
    await transaction.insert(RedactionSettingsEntity, first);
    return DEFAULTS;
  }
  const before = settingsFrom(sealer, workspaceId, row);
  await transaction.nativeUpdate(RedactionSettingsEntity, { workspaceId }, { revision: before.revision + 1 });
  return before;
}

function assertKinds(kinds: readonly string[]): void {
  const known: readonly string[] = DETECTED_KINDS;
  const wrong = kinds.findIndex((kind) => !known.includes(kind));
  if (wrong === -1) return;
  throw invalidField(`disabled_kinds[${wrong}]`, `must be one of ${known.map((kind) => `\`${kind}\``).join(", ")}`);
}

/** Replaces the settings as a whole. Rejects with INVALID_FIELD. Settings that are in force already seal nothing. */
export async function putSettings(
  context: SettingsContext,
  { workspaceId, keyId }: RedactionCaller,
  settings: RedactionSettings,
): Promise<RedactionSettings> {
  const { restoreValues, allowMedia, allow } = settings;
  const disabledKinds = [...settings.disabledKinds];
  assertKinds(disabledKinds);
  for (const [index, each] of allow.entries()) checkedText(`allow[${index}]`, each);
  const { sealer } = context;
  const log = await context.logs.of(workspaceId);
  const wanted = { restoreValues, allowMedia, disabledKinds, allow };
  await log.change(keyId, async ({ transaction, seal }) => {
    const { revision: _, ...before } = await raiseRevision(transaction, sealer, workspaceId);
    if (JSON.stringify(before) === JSON.stringify(wanted)) return;
    const sealedAllow = sealedList(sealer, workspaceId, allow);
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
