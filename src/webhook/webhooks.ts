import { randomUUID } from "node:crypto";
import type { Registry } from "prom-client";
import { Semaphore } from "../async/semaphore.ts";
import { ControlPlaneError, ErrorReason, invalidField, notFound } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { cursorOf, latestFirst, newestFirst, type Page, type PageRequest, pageFrom } from "../registry/page.ts";
import { type Database, stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import { WebhookDeliveryEntity, type WebhookDeliveryRow, WebhookEntity, type WebhookRow } from "../store/entities.ts";
import { base32FromBytes, createUuidV7 } from "../store/ids.ts";
import type { StoreLog } from "../store/migrate.ts";
import {
  deleteWebhook,
  insertWebhook,
  readWebhook,
  replayWebhook,
  rotateWebhookSecret,
  type StoredWebhook,
  updateWebhook,
} from "../store/sql/change-webhook.ts";
import { recordWebhookAttempt } from "../store/sql/deliver-webhook.ts";
import type { Tracing } from "../tracing/tracing.ts";
import { type Backlog, readBacklogs } from "./backlog.ts";
import type { ChannelSender } from "./channel.ts";
import { Delivery } from "./delivery.ts";
import { WebhookMetrics } from "./metrics.ts";
import { type Attempt, attemptValues, postAttempt, testMessage } from "./post-attempt.ts";
import { DAY_MS, DEFAULT_TIMING, type DeliveryTiming } from "./retry-schedule.ts";
import { newSecret, type SecretColumn, sealedFrom, secretFrom } from "./secrets.ts";
import { createTargets, type Lookup, type Targets } from "./target.ts";

/** A webhook without its secrets. */
export interface Webhook {
  /** `wh_…`. */
  readonly webhookId: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly isActive: boolean;
  readonly createdAtMs: number;
  /** Log index before which every event of the webhook is delivered. */
  readonly nextSeq: number;
  /** Consecutive failed attempts for the next event. */
  readonly failures: number;
  /** Time of the next retry; null if no retry is due. */
  readonly nextAttemptAtMs: number | null;
}

/** Fields of a new webhook. */
interface WebhookDraft {
  readonly url: string;
  readonly events: readonly string[];
}

/** Changes of a webhook; undefined fields keep their values. */
interface WebhookUpdate {
  readonly url?: string | undefined;
  readonly events?: readonly string[] | undefined;
  readonly isActive?: boolean | undefined;
}

/** The caller's key and workspace. */
export interface WebhookCaller {
  readonly workspaceId: string;
  readonly keyId: string;
}

/** A webhook with a new secret, which is shown only once. */
export interface WebhookSecret {
  readonly webhook: Webhook;
  /** `whsec_…`. */
  readonly secret: string;
}

/** Options of `Webhooks`. */
export interface WebhooksOptions {
  readonly database: Pick<Database, "orm" | "pool">;
  readonly logs: Pick<WorkspaceLogs, "of" | "clock">;
  readonly log: StoreLog;
  readonly encryptor: Encryptor;
  /** CIDR blocks of private targets that are allowed. */
  readonly allow: readonly string[];
  /** Default: the system's resolver. */
  readonly lookup?: Lookup | undefined;
  /** Default: `DEFAULT_TIMING`. */
  readonly timing?: Partial<DeliveryTiming>;
  /** Clock in epoch milliseconds. Default: the database's clock, which leases always follow. */
  readonly clock?: { now(): number };
  /** Returns a number from 0 to 1. Default: `Math.random`. */
  readonly random?: () => number;
  /** Records every request to a receiver as a span. Default: nothing is recorded. */
  readonly tracing?: Tracing | undefined;
  /** Default: nothing measures the delivery. */
  readonly metrics?: Registry;
  /** Tells people through their channels. Default: channels wait. */
  readonly channels?: ChannelSender | undefined;
}

/** An SQL statement that changes or reads one webhook. */
interface Statement {
  readonly name: string;
  readonly text: string;
}

/** Maximum requests in flight to receivers of one kind, of which one workspace alone has half. */
const MAX_DELIVERIES = 64;
/** The same for push services: each browser has its own, so that more of one that hangs must not hold up the others. */
const MAX_PUSHES = 512;
/** Maximum test requests in flight, besides deliveries. */
const MAX_TESTS = 16;
/** Timeout of a test in milliseconds: below the default deadline of a call, so that the caller gets the outcome. */
const TEST_MS = 8_000;

function webhookFrom(row: WebhookRow | StoredWebhook): Webhook {
  const { webhookId, url, events, isActive, createdAtMs, nextSeq, failures, nextAttemptAtMs = null } = row;
  return { webhookId, url, events, isActive, createdAtMs, nextSeq, failures, nextAttemptAtMs };
}

function attemptFrom(row: WebhookDeliveryRow): Attempt {
  const { messageId, event, seq = null, attempt, atMs, delivered, statusCode = null, error = null, durationMs } = row;
  return { messageId, event, seq, attempt, atMs, delivered, statusCode, error, durationMs };
}

/** Creates a semaphore for each kind of receiver, so that a mail server that hangs holds no permit of a webhook. */
function createSemaphores(): (kind: string) => Semaphore {
  const byKind = new Map<string, Semaphore>();
  return (kind) => {
    const known = byKind.get(kind) ?? new Semaphore({ permits: kind === "push" ? MAX_PUSHES : MAX_DELIVERIES });
    byKind.set(kind, known);
    return known;
  };
}

const webhookNotFound = (webhookId: string): ControlPlaneError =>
  notFound(ErrorReason.WEBHOOK_NOT_FOUND, "webhook", { webhook_id: webhookId });

/** Webhooks of every workspace: registration and delivery. Methods with a webhook's id reject with WEBHOOK_NOT_FOUND. */
export class Webhooks {
  readonly #orm: Database["orm"];
  readonly #pool: Database["pool"];
  readonly #log: StoreLog;
  readonly #targets: Targets;
  readonly #encryptor: Encryptor;
  readonly #tracing: Tracing | undefined;
  readonly #timing: DeliveryTiming;
  readonly #clock: { now(): number };
  readonly #tests = new Semaphore({ permits: MAX_TESTS });
  readonly #delivery: Delivery;

  constructor(options: WebhooksOptions) {
    const { database, logs, log, encryptor, allow, lookup, clock = logs.clock, random = Math.random } = options;
    this.#orm = database.orm;
    this.#pool = database.pool;
    this.#log = log;
    this.#encryptor = encryptor;
    this.#tracing = options.tracing;
    this.#clock = clock;
    this.#timing = { ...DEFAULT_TIMING, ...options.timing };
    this.#targets = createTargets({ allow, lookup });
    this.#delivery = new Delivery({
      pool: database.pool,
      logs,
      log,
      targets: this.#targets,
      timing: this.#timing,
      encryptor,
      clock,
      random,
      tracing: options.tracing,
      semaphoreOf: createSemaphores(),
      owner: randomUUID(),
      channels: options.channels,
      metrics: options.metrics && new WebhookMetrics(options.metrics, () => this.#delivery.waiting),
    });
  }

  /** Starts the delivery. */
  start(): void {
    this.#delivery.start();
  }

  /**
   * Ends the delivery, so that another process can take over at once. MUST be called before the logs and the database are closed.
   */
  close(): Promise<void> {
    return this.#delivery.close();
  }

  /** Looks for new and changed webhooks and channels at once. */
  wake(): void {
    this.#delivery.wake();
  }

  /** Registers a webhook for events from now on. Rejects with INVALID_FIELD and TARGET_NOT_ALLOWED. */
  async create(caller: WebhookCaller, { url, events }: WebhookDraft): Promise<WebhookSecret> {
    await this.#targets.check(url);
    const { workspaceId } = caller;
    const webhookId = `wh_${base32FromBytes(createUuidV7(Date.now()))}`;
    const secret = newSecret();
    const sealedSecret = sealedFrom(this.#encryptor, { workspaceId, webhookId }, "sealed_secret", secret);
    const values = [workspaceId, webhookId, url, events, this.#clock.now(), sealedSecret];
    const row = await this.#query(insertWebhook, values);
    if (row === undefined) throw notFound(ErrorReason.WORKSPACE_NOT_FOUND, "workspace", { workspace_id: workspaceId });
    this.#announce(caller, webhookId, "webhook created");
    return { webhook: webhookFrom(row), secret };
  }

  /** Lists webhooks, newest first. */
  async list({ workspaceId }: WebhookCaller, page: PageRequest<string>): Promise<Page<Webhook, string>> {
    const { where, options } = newestFirst("webhookId", page);
    const rows: WebhookRow[] = await stored(
      this.#orm.em.fork().find(WebhookEntity, { workspaceId, kind: "webhook", ...where }, options),
    );
    return pageFrom(rows.map(webhookFrom), page.size, (webhook) => cursorOf(webhook, webhook.webhookId));
  }

  /** Returns a webhook. */
  async get({ workspaceId }: WebhookCaller, webhookId: string): Promise<Webhook> {
    const row = await stored(this.#orm.em.fork().findOne(WebhookEntity, { workspaceId, webhookId, kind: "webhook" }));
    if (row === null) throw webhookNotFound(webhookId);
    return webhookFrom(row);
  }

  /** Changes a webhook, whose next event is then tried at once. Rejects as `create`. */
  async update(caller: WebhookCaller, webhookId: string, update: WebhookUpdate): Promise<Webhook> {
    const { url, events, isActive } = update;
    if (url === undefined && events === undefined && isActive === undefined) return this.get(caller, webhookId);
    if (url !== undefined) await this.#targets.check(url);
    const values = [url ?? null, events ?? null, isActive ?? null];
    return this.#change(caller, webhookId, "webhook changed", updateWebhook, values);
  }

  /** Deletes a webhook and returns it. */
  delete(caller: WebhookCaller, webhookId: string): Promise<Webhook> {
    return this.#change(caller, webhookId, "webhook deleted", deleteWebhook);
  }

  /**
   * Creates a new secret. The old secret also signs until `oldSecretUntilMs`; an earlier one no longer signs. If the old secret
   * was encrypted under another key, it is dropped at once.
   */
  async rotate(
    caller: WebhookCaller,
    webhookId: string,
  ): Promise<WebhookSecret & { readonly oldSecretUntilMs: number }> {
    const { workspaceId } = caller;
    const secret = newSecret();
    for (;;) {
      const before = await this.#query(readWebhook, [workspaceId, webhookId]);
      if (before === undefined) throw webhookNotFound(webhookId);
      const old = this.#decryptedOrUndefined(before);
      const seal = (column: SecretColumn, text: string): Buffer => sealedFrom(this.#encryptor, before, column, text);
      const oldSecretUntilMs = this.#clock.now() + (old === undefined ? 0 : DAY_MS);
      const sealed = [
        seal("sealed_secret", secret),
        old === undefined ? null : seal("sealed_old_secret", old),
        oldSecretUntilMs,
        before.sealedSecret,
      ];
      const row = await this.#query(rotateWebhookSecret, [workspaceId, webhookId, ...sealed]);
      if (row === undefined) continue;
      this.#announce(caller, webhookId, "webhook secret rotated");
      return { webhook: webhookFrom(row), secret, oldSecretUntilMs };
    }
  }

  /** Returns the secret of a webhook; undefined if it was encrypted under another key, which a rotation repairs. */
  #decryptedOrUndefined(webhook: StoredWebhook): string | undefined {
    try {
      return secretFrom(this.#encryptor, webhook, "sealed_secret");
    } catch {
      return undefined;
    }
  }

  /** Sends one `webhook.test` event, also for an inactive webhook. MUST NOT reject because of the receiver's failures. */
  async test({ workspaceId }: WebhookCaller, webhookId: string, signal: AbortSignal): Promise<Attempt> {
    const webhook = await this.#query(readWebhook, [workspaceId, webhookId]);
    if (webhook === undefined) throw webhookNotFound(webhookId);
    const attempt = await this.#tests.run(() => this.#sendTest(webhook, signal), { key: workspaceId, signal });
    if (attempt !== undefined) return attempt;
    throw new ControlPlaneError(ErrorReason.CANCELLED, "the caller disconnected before the test was sent");
  }

  /** Counts the events that wait to be delivered, by webhook. */
  backlogs({ workspaceId }: WebhookCaller, webhookIds: readonly string[]): Promise<ReadonlyMap<string, Backlog>> {
    return stored(readBacklogs(this.#pool, workspaceId, webhookIds));
  }

  /** Lists the attempts of the last 30 days, newest first. */
  async deliveries(caller: WebhookCaller, webhookId: string, page: PageRequest): Promise<Page<Attempt>> {
    await this.get(caller, webhookId);
    const { where, options } = latestFirst("deliveryNo", page);
    const condition = { workspaceId: caller.workspaceId, webhookId, ...where };
    const rows: WebhookDeliveryRow[] = await stored(
      this.#orm.em.fork().find(WebhookDeliveryEntity, condition, options),
    );
    const { items, next } = pageFrom(rows, page.size, ({ deliveryNo }) => deliveryNo);
    return { items: items.map(attemptFrom), next };
  }

  /** Delivers the events from a log index on again. Rejects with INVALID_FIELD for an index after the cursor. */
  async replay(caller: WebhookCaller, webhookId: string, fromSeq: number): Promise<Webhook> {
    const row = await this.#query(replayWebhook, [caller.workspaceId, webhookId, fromSeq]);
    if (row === undefined) {
      const { nextSeq } = await this.get(caller, webhookId);
      throw invalidField("from_seq", `must be at most \`next_seq\`, which is ${nextSeq}`);
    }
    this.#announce(caller, webhookId, "webhook replayed");
    return webhookFrom(row);
  }

  async #query(statement: Statement, values: readonly unknown[]): Promise<StoredWebhook | undefined> {
    const { rows } = await stored(this.#pool.query<StoredWebhook>({ ...statement, values: [...values] }));
    return rows[0];
  }

  async #change(
    caller: WebhookCaller,
    webhookId: string,
    message: string,
    statement: Statement,
    values: readonly unknown[] = [],
  ): Promise<Webhook> {
    const row = await this.#query(statement, [caller.workspaceId, webhookId, ...values]);
    if (row === undefined) throw webhookNotFound(webhookId);
    this.#announce(caller, webhookId, message);
    return webhookFrom(row);
  }

  /** Logs a change with its key, and wakes the delivery so that this process notices the change at once. */
  #announce({ keyId, workspaceId }: WebhookCaller, webhookId: string, message: string): void {
    this.#log.info({ key_id: keyId, workspace_id: workspaceId, webhook_id: webhookId }, message);
    this.#delivery.wake();
  }

  async #sendTest(webhook: StoredWebhook, signal: AbortSignal): Promise<Attempt> {
    const context = {
      targets: this.#targets,
      encryptor: this.#encryptor,
      clock: this.#clock,
      tracing: this.#tracing,
    };
    const { attempt } = await postAttempt(context, webhook, {
      ...testMessage(webhook, this.#clock.now()),
      event: "webhook.test",
      seq: null,
      trace: undefined,
      attempt: 1,
      timeoutMs: Math.min(TEST_MS, this.#timing.attemptMs),
      signal,
    });
    await stored(this.#pool.query({ ...recordWebhookAttempt, values: attemptValues(webhook, attempt) }));
    return attempt;
  }
}
