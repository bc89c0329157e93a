import { randomUUID } from "node:crypto";
import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { Page, PageRequest } from "../registry/page.ts";
import type { Database } from "../store/database.ts";
import type { StoreLog } from "../store/migrate.ts";
import {
  deleteWebhook,
  insertWebhook,
  readWebhook,
  replayWebhook,
  rotateWebhookSecret,
  updateWebhook,
} from "../store/sql/change-webhook.ts";
import { recordWebhookAttempt } from "../store/sql/deliver-webhook.ts";
import type { StoredWebhook } from "../store/sql/webhook-columns.ts";
import { stored } from "../store/store-fault.ts";
import { type Attempt, attemptValues, makeAttempt } from "./attempt.ts";
import { createDelivery } from "./delivery.ts";
import { createFairGate } from "./fair-gate.ts";
import { createWebhookId, createWebhookSecret, testMessage } from "./message.ts";
import { DAY_MS, DEFAULT_TIMING, type DeliveryTiming } from "./schedule.ts";
import { createTargets, type Lookup } from "./target.ts";
import { type Webhook, type WebhookDraft, type WebhookUpdate, webhookFrom, webhookNotFound } from "./webhook.ts";
import { getWebhook, listDeliveries, listWebhooks } from "./webhook-lists.ts";

/** Whose webhooks are meant, and the key that asks. */
export interface WebhookCaller {
  readonly workspaceId: string;
  readonly keyId: string;
}

/** A webhook with a secret, which is told once and never again. */
export interface WebhookSecret {
  readonly webhook: Webhook;
  /** `whsec_…`. */
  readonly secret: string;
}

/** The webhooks of every workspace: their registration and their delivery. */
export interface Webhooks {
  /** Registers a webhook, which hears of what happens from now on. Rejects with INVALID_FIELD and TARGET_NOT_ALLOWED. */
  create(caller: WebhookCaller, draft: WebhookDraft): Promise<WebhookSecret>;
  /** Newest first. */
  list(caller: WebhookCaller, page: PageRequest<string>): Promise<Page<Webhook, string>>;
  /** Rejects with WEBHOOK_NOT_FOUND, as does everything below. */
  get(caller: WebhookCaller, webhookId: string): Promise<Webhook>;
  /** Changes a webhook, which then is tried at once. Rejects as `create`. */
  update(caller: WebhookCaller, webhookId: string, update: WebhookUpdate): Promise<Webhook>;
  /** Deletes a webhook and gives it as it was. */
  delete(caller: WebhookCaller, webhookId: string): Promise<Webhook>;
  /** Makes a new secret; the old one signs too until `oldSecretUntilMs`. An older one is good no more. */
  rotate(caller: WebhookCaller, webhookId: string): Promise<WebhookSecret & { readonly oldSecretUntilMs: number }>;
  /** Sends one `webhook.test` event, whether the webhook is active or not. MUST NOT reject for what the receiver does. */
  test(caller: WebhookCaller, webhookId: string, signal: AbortSignal): Promise<Attempt>;
  /** The attempts of the last 30 days, newest first. */
  deliveries(caller: WebhookCaller, webhookId: string, page: PageRequest): Promise<Page<Attempt>>;
  /** Delivers again from an index on. Rejects with INVALID_FIELD for an index after the cursor. */
  replay(caller: WebhookCaller, webhookId: string, fromSeq: number): Promise<Webhook>;
  /** Begins to deliver. */
  start(): void;
  /** Ends delivering; another process goes on at once. MUST come before the logs and the database are closed. */
  close(): Promise<void>;
}

/** What webhooks are built from. */
export interface WebhooksOptions {
  readonly database: Pick<Database, "orm" | "pool">;
  readonly logs: Pick<WorkspaceLogs, "of" | "clock">;
  readonly log: StoreLog;
  /** CIDR blocks of private targets that are allowed. */
  readonly allow: readonly string[];
  /** Default: the system's. */
  readonly lookup?: Lookup | undefined;
  /** Default: `DEFAULT_TIMING`. */
  readonly timing?: Partial<DeliveryTiming>;
  /** Epoch milliseconds. Default: the database's clock. Leases follow the database's clock always. */
  readonly clock?: { now(): number };
  /** From 0 to 1. Default: `Math.random`. */
  readonly random?: () => number;
}

/** Requests to receivers that are under way at once. */
const MAX_REQUESTS = 64;
/** Tests that are under way at once, beside deliveries. */
const MAX_TESTS = 16;
/** Milliseconds for a test: below the default deadline of a call, so that the caller hears what came of it. */
const TEST_MS = 8_000;

/** Creates the webhooks. Nothing is delivered before `start`. */
export function createWebhooks(options: WebhooksOptions): Webhooks {
  const { database, logs, log, allow, lookup, clock = logs.clock, random = Math.random } = options;
  const { pool } = database;
  const timing = { ...DEFAULT_TIMING, ...options.timing };
  const targets = createTargets({ allow, lookup });
  const testGate = createFairGate(MAX_TESTS);
  const delivery = createDelivery({
    ...{ pool, logs, log, targets, timing, clock, random },
    gate: createFairGate(MAX_REQUESTS),
    owner: randomUUID(),
  });

  const change = async (statement: { name: string; text: string }, values: unknown[]) => {
    const { rows } = await stored(pool.query<StoredWebhook>({ ...statement, values }));
    return rows[0];
  };

  /** Tells the log who did what, and has it delivered at once if this process delivers the webhook. */
  const changed = (caller: WebhookCaller, webhookId: string, message: string): void => {
    log.info({ key_id: caller.keyId, workspace_id: caller.workspaceId, webhook_id: webhookId }, message);
    delivery.poke();
  };

  const changeOf = async (
    caller: WebhookCaller,
    webhookId: string,
    message: string,
    statement: { name: string; text: string },
    values: readonly unknown[] = [],
  ): Promise<Webhook> => {
    const row = await change(statement, [caller.workspaceId, webhookId, ...values]);
    if (row === undefined) throw webhookNotFound(webhookId);
    changed(caller, webhookId, message);
    return webhookFrom(row);
  };

  const sendTest = async (webhook: StoredWebhook, signal: AbortSignal): Promise<Attempt> => {
    const subject = { ...testMessage(webhook, clock.now()), event: "webhook.test", seq: null, attempt: 1 };
    const timeoutMs = Math.min(TEST_MS, timing.attemptMs);
    const { attempt } = await makeAttempt({ targets, clock }, webhook, subject, { timeoutMs, signal });
    await stored(pool.query({ ...recordWebhookAttempt, values: attemptValues(webhook, attempt) }));
    return attempt;
  };

  return {
    async create(caller, { url, events }) {
      await targets.check(url);
      const { workspaceId } = caller;
      const [webhookId, secret] = [createWebhookId(), createWebhookSecret()];
      const row = await change(insertWebhook, [workspaceId, webhookId, url, events, clock.now(), secret]);
      if (row === undefined) {
        const metadata = { workspace_id: workspaceId };
        throw new ControlPlaneError(ErrorReason.WORKSPACE_NOT_FOUND, `no workspace \`${workspaceId}\``, metadata);
      }
      changed(caller, webhookId, "webhook created");
      return { webhook: webhookFrom(row), secret };
    },

    list: ({ workspaceId }, page) => listWebhooks(database, workspaceId, page),

    get: ({ workspaceId }, webhookId) => getWebhook(database, workspaceId, webhookId),

    async update(caller, webhookId, { url, events, isActive }) {
      if (url === undefined && events === undefined && isActive === undefined) {
        return getWebhook(database, caller.workspaceId, webhookId);
      }
      if (url !== undefined) await targets.check(url);
      const values = [url ?? null, events ?? null, isActive ?? null];
      return changeOf(caller, webhookId, "webhook changed", updateWebhook, values);
    },

    delete: (caller, webhookId) => changeOf(caller, webhookId, "webhook deleted", deleteWebhook),

    async rotate(caller, webhookId) {
      const secret = createWebhookSecret();
      const oldSecretUntilMs = clock.now() + DAY_MS;
      const values = [secret, oldSecretUntilMs];
      const webhook = await changeOf(caller, webhookId, "webhook secret rotated", rotateWebhookSecret, values);
      return { webhook, secret, oldSecretUntilMs };
    },

    async test(caller, webhookId, signal) {
      const webhook = await change(readWebhook, [caller.workspaceId, webhookId]);
      if (webhook === undefined) throw webhookNotFound(webhookId);
      const attempt = await testGate.run(caller.workspaceId, signal, () => sendTest(webhook, signal));
      if (attempt !== undefined) return attempt;
      throw new ControlPlaneError(ErrorReason.CANCELLED, "the caller went away before the test was sent");
    },

    deliveries: ({ workspaceId }, webhookId, page) => listDeliveries(database, workspaceId, webhookId, page),

    async replay(caller, webhookId, fromSeq) {
      const row = await change(replayWebhook, [caller.workspaceId, webhookId, fromSeq]);
      if (row === undefined) {
        const { nextSeq } = await getWebhook(database, caller.workspaceId, webhookId);
        throw invalidField("from_seq", `must be at most \`next_seq\`, which is ${nextSeq}`);
      }
      changed(caller, webhookId, "webhook replayed");
      return webhookFrom(row);
    },

    start: delivery.start,
    close: delivery.close,
  };
}
