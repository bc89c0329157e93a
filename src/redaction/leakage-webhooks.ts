import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { checkedText } from "../registry/checked-text.ts";
import { cursorOf, newestFirst, type Page, type PageRequest, pageFrom } from "../registry/page.ts";
import { type Database, stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import { RedactionWebhookEntity, type RedactionWebhookRow } from "../store/entities.ts";
import { base32FromBytes, createUuidV7 } from "../store/ids.ts";
import type { StoreLog } from "../store/migrate.ts";
import type { Targets } from "../webhook/target.ts";

/** Event that redaction webhooks receive. */
export const LEAKAGE_EVENT = "leakage.detected";

/** Workspace of a call and the key that authenticated it. */
export interface RedactionCaller {
  readonly workspaceId: string;
  readonly keyId: string;
}

/** A webhook for leakage, without its secret. */
export interface RedactionWebhook {
  /** `wh_…`. */
  readonly webhookId: string;
  readonly url: string;
  readonly hasSecret: boolean;
  readonly isActive: boolean;
  /** Epoch milliseconds. */
  readonly createdAtMs: number;
}

/** A webhook to register. */
export interface RedactionWebhookDraft {
  readonly url: string;
  /** Secret that signs requests; undefined means unsigned requests. */
  readonly secret: string | undefined;
}

/** A change of a webhook; undefined fields keep their values. */
export interface RedactionWebhookChange {
  readonly url?: string | undefined;
  readonly isActive?: boolean | undefined;
}

/** Manages the redaction webhooks of every workspace. */
export interface RedactionWebhooks {
  /** Registers a webhook, active at once. Rejects with INVALID_FIELD and TARGET_NOT_ALLOWED. */
  create(caller: RedactionCaller, draft: RedactionWebhookDraft): Promise<RedactionWebhook>;
  /** Lists webhooks, newest first. */
  list(caller: RedactionCaller, page: PageRequest<string>): Promise<Page<RedactionWebhook, string>>;
  /** Returns a webhook. This method and the following ones reject with WEBHOOK_NOT_FOUND. */
  get(caller: RedactionCaller, webhookId: string): Promise<RedactionWebhook>;
  /** Changes the given fields. Also rejects with TARGET_NOT_ALLOWED. */
  update(caller: RedactionCaller, webhookId: string, change: RedactionWebhookChange): Promise<RedactionWebhook>;
  /** Deletes a webhook and returns it. */
  delete(caller: RedactionCaller, webhookId: string): Promise<RedactionWebhook>;
}

/** Parts of the webhooks. */
export interface RedactionWebhooksOptions {
  readonly database: Pick<Database, "orm">;
  readonly targets: Pick<Targets, "check">;
  readonly encryptor: Encryptor;
  /** Epoch milliseconds. */
  readonly clock: { now(): number };
  readonly log: StoreLog;
}

/** Place of a webhook's secret, for the encryptor. */
export const secretPlace = (webhookId: string): string => `redaction_webhook.sealed_secret ${webhookId}`;

/** Formats a time as ISO 8601 in UTC, to the millisecond, without a zone designator. */
export const zonelessTime = (ms: number): string => new Date(ms).toISOString().slice(0, -1);

function webhookFrom(row: RedactionWebhookRow): RedactionWebhook {
  const { webhookId, url, isActive, createdAtMs } = row;
  return { webhookId, url, hasSecret: (row.sealedSecret ?? null) !== null, isActive, createdAtMs };
}

function notFound(webhookId: string): ControlPlaneError {
  const metadata = { webhook_id: webhookId };
  return new ControlPlaneError(ErrorReason.WEBHOOK_NOT_FOUND, `no webhook \`${webhookId}\``, metadata);
}

/** Creates the webhooks. */
export function createRedactionWebhooks(options: RedactionWebhooksOptions): RedactionWebhooks {
  const { database, targets, encryptor, clock, log } = options;
  const fork = () => database.orm.em.fork();

  const readRow = async (workspaceId: string, webhookId: string): Promise<RedactionWebhookRow> => {
    const row = await stored(fork().findOne(RedactionWebhookEntity, { workspaceId, webhookId }));
    if (row === null) throw notFound(webhookId);
    return row;
  };

  const logChange = ({ keyId, workspaceId }: RedactionCaller, webhookId: string, message: string): void =>
    log.info({ key_id: keyId, workspace_id: workspaceId, webhook_id: webhookId }, message);

  return {
    async create(caller, { url, secret }) {
      await targets.check(url);
      const { workspaceId } = caller;
      const nowMs = clock.now();
      const webhookId = `wh_${base32FromBytes(createUuidV7(nowMs))}`;
      const text = secret === undefined ? undefined : checkedText("secret", secret);
      const sealedSecret = text === undefined ? null : encryptor.encrypt(workspaceId, secretPlace(webhookId), text);
      const row = { workspaceId, webhookId, url, isActive: true, createdAtMs: nowMs, sealedSecret };
      await stored(fork().insert(RedactionWebhookEntity, row));
      logChange(caller, webhookId, "redaction webhook created");
      return webhookFrom(row);
    },

    async list({ workspaceId }, page) {
      const { where, options } = newestFirst("webhookId", page);
      const found = fork().find(RedactionWebhookEntity, { workspaceId, ...where }, options);
      const rows: RedactionWebhookRow[] = await stored(found);
      return pageFrom(rows.map(webhookFrom), page.size, (each) => cursorOf(each, each.webhookId));
    },

    get: async ({ workspaceId }, webhookId) => webhookFrom(await readRow(workspaceId, webhookId)),

    async update(caller, webhookId, change) {
      const { workspaceId } = caller;
      const row = await readRow(workspaceId, webhookId);
      const { url = row.url, isActive = row.isActive } = change;
      if (url !== row.url) await targets.check(url);
      const changed = await stored(
        fork().nativeUpdate(RedactionWebhookEntity, { workspaceId, webhookId }, { url, isActive }),
      );
      if (changed === 0) throw notFound(webhookId);
      if (url !== row.url) logChange(caller, webhookId, "redaction webhook sent to another address");
      if (isActive !== row.isActive)
        logChange(caller, webhookId, isActive ? "redaction webhook switched on" : "redaction webhook switched off");
      return { ...webhookFrom(row), url, isActive };
    },

    async delete(caller, webhookId) {
      const { workspaceId } = caller;
      const row = await readRow(workspaceId, webhookId);
      const deleted = await stored(fork().nativeDelete(RedactionWebhookEntity, { workspaceId, webhookId }));
      if (deleted === 0) throw notFound(webhookId);
      logChange(caller, webhookId, "redaction webhook deleted");
      return webhookFrom(row);
    },
  };
}
