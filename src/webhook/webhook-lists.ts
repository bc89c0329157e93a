import { type Page, type PageRequest, pageFrom } from "../registry/page.ts";
import type { Database } from "../store/database.ts";
import { WebhookDeliveryEntity, type WebhookDeliveryRow, WebhookEntity, type WebhookRow } from "../store/entities.ts";
import { stored } from "../store/store-fault.ts";
import type { Attempt } from "./attempt.ts";
import { type Webhook, webhookFrom, webhookNotFound } from "./webhook.ts";

const POSITION = /^(\d{1,16}) (\S+)$/;

/** The webhooks after a position in the list; every webhook when there is none. */
function afterPosition(after: string | undefined): object {
  const [, createdAtMs, webhookId] = POSITION.exec(after ?? "") ?? [];
  if (createdAtMs === undefined) return {};
  const at = Number(createdAtMs);
  return { $or: [{ createdAtMs: { $lt: at } }, { createdAtMs: at, webhookId: { $lt: webhookId } }] };
}

/** Lists the webhooks of a workspace, newest first. */
export async function listWebhooks(
  { orm }: Pick<Database, "orm">,
  workspaceId: string,
  { size, after }: PageRequest<string>,
): Promise<Page<Webhook, string>> {
  const where = { workspaceId, ...afterPosition(after) };
  const options = { orderBy: [{ createdAtMs: "desc" }, { webhookId: "desc" }], limit: size + 1 } as const;
  const rows: WebhookRow[] = await stored(orm.em.fork().find(WebhookEntity, where, options as never));
  return pageFrom(rows.map(webhookFrom), size, ({ createdAtMs, webhookId }) => `${createdAtMs} ${webhookId}`);
}

/** Gives a webhook. Throws WEBHOOK_NOT_FOUND. */
export async function getWebhook(
  { orm }: Pick<Database, "orm">,
  workspaceId: string,
  webhookId: string,
): Promise<Webhook> {
  const row = await stored(orm.em.fork().findOne(WebhookEntity, { workspaceId, webhookId }));
  if (row === null) throw webhookNotFound(webhookId);
  return webhookFrom(row);
}

function attemptFrom(row: WebhookDeliveryRow): Attempt {
  const { messageId, event, seq = null, attempt, atMs, delivered, statusCode = null, error = null, durationMs } = row;
  return { messageId, event, seq, attempt, atMs, delivered, statusCode, error, durationMs };
}

/** Lists the attempts of a webhook, newest first. Throws WEBHOOK_NOT_FOUND. */
export async function listDeliveries(
  database: Pick<Database, "orm">,
  workspaceId: string,
  webhookId: string,
  { size, after }: PageRequest,
): Promise<Page<Attempt>> {
  await getWebhook(database, workspaceId, webhookId);
  const before = after === undefined ? {} : { deliveryNo: { $lt: after } };
  const options = { orderBy: { deliveryNo: "desc" }, limit: size + 1 } as const;
  const where = { workspaceId, webhookId, ...before };
  const rows = await stored(database.orm.em.fork().find(WebhookDeliveryEntity, where, options));
  const { items, next } = pageFrom(rows, size, ({ deliveryNo }) => deliveryNo);
  return { items: items.map(attemptFrom), next };
}
