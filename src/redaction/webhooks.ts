import { checkedText } from "../registry/checked-text.ts";
import { type Page, type PageRequest, pageFrom } from "../registry/page.ts";
import type { Database } from "../store/database.ts";
import { RedactionWebhookEntity, type RedactionWebhookRow } from "../store/entities.ts";
import { base32FromBytes, createUuidV7 } from "../store/ids.ts";
import type { StoreLog } from "../store/migrate.ts";
import { stored } from "../store/store-fault.ts";
import type { Targets } from "../webhook/target.ts";
import { afterNewest, newestPosition } from "./newest.ts";
import type { Sealer } from "./sealer.ts";
import { type RedactionWebhook, redactionWebhookFrom, redactionWebhookNotFound } from "./webhook.ts";

/** Whose redaction is meant, and the key that asks. */
export interface RedactionCaller {
  readonly workspaceId: string;
  readonly keyId: string;
}

/** What a webhook is registered with. */
export interface RedactionWebhookDraft {
  readonly url: string;
  /** Undefined: requests are not signed. */
  readonly secret: string | undefined;
}

/** The webhooks of every workspace's redaction. */
export interface RedactionWebhooks {
  /** Registers a webhook, active at once. Rejects with INVALID_FIELD and TARGET_NOT_ALLOWED. */
  create(caller: RedactionCaller, draft: RedactionWebhookDraft): Promise<RedactionWebhook>;
  /** Newest first. */
  list(caller: RedactionCaller, page: PageRequest<string>): Promise<Page<RedactionWebhook, string>>;
  /** Rejects with WEBHOOK_NOT_FOUND, as do the following. */
  get(caller: RedactionCaller, webhookId: string): Promise<RedactionWebhook>;
  /** Switches a webhook on or off; undefined leaves it. */
  update(caller: RedactionCaller, webhookId: string, isActive: boolean | undefined): Promise<RedactionWebhook>;
  /** Deletes a webhook and gives it as it was. */
  delete(caller: RedactionCaller, webhookId: string): Promise<RedactionWebhook>;
}

/** What the webhooks are built from. */
export interface RedactionWebhooksOptions {
  readonly database: Pick<Database, "orm">;
  readonly targets: Pick<Targets, "check">;
  readonly sealer: Sealer;
  /** Epoch milliseconds. */
  readonly clock: { now(): number };
  readonly log: StoreLog;
}

/** Where a webhook's secret is kept, for the sealer. */
export const secretPlace = (webhookId: string): string => `webhook ${webhookId}`;

/** Creates the webhooks. */
export function createRedactionWebhooks(options: RedactionWebhooksOptions): RedactionWebhooks {
  const { database, targets, sealer, clock, log } = options;
  const { orm } = database;

  const rowOf = async (workspaceId: string, webhookId: string) => {
    const row = await stored(orm.em.fork().findOne(RedactionWebhookEntity, { workspaceId, webhookId }));
    if (row === null) throw redactionWebhookNotFound(webhookId);
    return row;
  };

  const tell = ({ keyId, workspaceId }: RedactionCaller, webhookId: string, message: string): void =>
    log.info({ key_id: keyId, workspace_id: workspaceId, webhook_id: webhookId }, message);

  return {
    async create(caller, { url, secret }) {
      await targets.check(url);
      const { workspaceId } = caller;
      const nowMs = clock.now();
      const webhookId = `wh_${base32FromBytes(createUuidV7(nowMs))}`;
      const sealedSecret =
        secret === undefined ? null : sealer.seal(workspaceId, secretPlace(webhookId), checkedText("secret", secret));
      const row = { workspaceId, webhookId, url, isActive: true, createdAtMs: nowMs, sealedSecret };
      await stored(orm.em.fork().insert(RedactionWebhookEntity, row));
      tell(caller, webhookId, "redaction webhook created");
      return redactionWebhookFrom(row);
    },

    async list({ workspaceId }, { size, after }) {
      const where = { workspaceId, ...afterNewest("webhookId", after) };
      const options = { orderBy: [{ createdAtMs: "desc" }, { webhookId: "desc" }], limit: size + 1 } as const;
      const rows: RedactionWebhookRow[] = await stored(
        orm.em.fork().find(RedactionWebhookEntity, where, options as never),
      );
      return pageFrom(rows.map(redactionWebhookFrom), size, (each) => newestPosition(each, each.webhookId));
    },

    get: async ({ workspaceId }, webhookId) => redactionWebhookFrom(await rowOf(workspaceId, webhookId)),

    async update(caller, webhookId, isActive) {
      const { workspaceId } = caller;
      const row = await rowOf(workspaceId, webhookId);
      if (isActive === undefined) return redactionWebhookFrom(row);
      const key = { workspaceId, webhookId };
      const changed = await stored(orm.em.fork().nativeUpdate(RedactionWebhookEntity, key, { isActive }));
      if (changed === 0) throw redactionWebhookNotFound(webhookId);
      tell(caller, webhookId, isActive ? "redaction webhook switched on" : "redaction webhook switched off");
      return { ...redactionWebhookFrom(row), isActive };
    },

    async delete(caller, webhookId) {
      const { workspaceId } = caller;
      const row = await rowOf(workspaceId, webhookId);
      const deleted = await stored(orm.em.fork().nativeDelete(RedactionWebhookEntity, { workspaceId, webhookId }));
      if (deleted === 0) throw redactionWebhookNotFound(webhookId);
      tell(caller, webhookId, "redaction webhook deleted");
      return redactionWebhookFrom(row);
    },
  };
}
