import { ControlPlaneError } from "../errors.ts";
import { type Escalation, findEscalations } from "../escalation/escalation.ts";
import { ActorNames } from "../registry/actor-names.ts";
import { type Database, stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import type { StoredWebhook } from "../store/sql/change-webhook.ts";
import { countPending } from "../store/sql/channels.ts";
import { deleteSlackMessages, insertSlackMessage, readSlackMessage } from "../store/sql/slack.ts";
import type { ChannelOutcome, ChannelRequest, ChannelSender } from "../webhook/channel.ts";
import type { WebhookEvent } from "../webhook/event-queue.ts";
import { secretFrom } from "../webhook/secrets.ts";
import type { Targets } from "../webhook/target.ts";
import { mailOf, sendMail, type Told } from "./email.ts";
import { type EscalationMessage, messageOf } from "./escalation-message.ts";
import { concerns, readPreferences } from "./preferences.ts";
import { type PushMessage, type PushSubscription, pushKeysOf, pushMessageOf, sendPush } from "./push.ts";
import { quietUntil } from "./quiet-hours.ts";
import { readSettings, type WholeSettings } from "./settings.ts";
import {
  answeredMessage,
  postMessage,
  postReminder,
  type SlackApi,
  type SlackPlace,
  updateMessage,
  waitingMessage,
} from "./slack.ts";
import { mayBeTold } from "./standing.ts";

/** Kinds of channels. */
export type ChannelKind = "email" | "push" | "slack";

/** Address of a channel, as it is encrypted. */
export interface ChannelAddress {
  readonly email?: string;
  readonly push?: PushSubscription;
  /** Id of a Slack channel, or of a person in Slack. */
  readonly slack?: string;
}

/** Dependencies of the sender. */
export interface NotificationSenderOptions {
  readonly database: Pick<Database, "orm" | "pool">;
  readonly encryptor: Encryptor;
  readonly targets: Targets;
  /** Epoch milliseconds. */
  readonly clock: { now(): number };
  /** Address in links; undefined: nothing is sent. */
  readonly publicUrl: string | undefined;
  readonly pushHosts: readonly string[];
  readonly slackUrl: string;
}

/** Where a message goes and what is needed for it. */
interface Destination {
  readonly channel: StoredWebhook;
  readonly address: ChannelAddress;
  readonly settings: WholeSettings;
  readonly publicUrl: string;
  readonly request: ChannelRequest;
}

const SKIPPED = { kind: "skipped" } as const;

const failed = (error: string): Told => ({ error, answer: { kind: "fault", error } });
const tried = ({ error, answer }: Told): ChannelOutcome => ({ kind: "tried", error, answer });

/** Events that ask a person for an answer. */
const ASKING: ReadonlySet<string> = new Set(["escalation.created", "escalation.reminder"]);

/** Tells people of escalations by e-mail, by Web Push and in Slack. */
export class NotificationSender implements ChannelSender {
  readonly #options: NotificationSenderOptions;
  readonly #names: ActorNames;

  constructor(options: NotificationSenderOptions) {
    this.#options = options;
    this.#names = new ActorNames(options.database.pool);
  }

  async send(channel: StoredWebhook, event: WebhookEvent, request: ChannelRequest): Promise<ChannelOutcome> {
    const escalationId = String(event.data.escalation_id ?? "");
    try {
      const { pool } = this.#options.database;
      const escalation = (await findEscalations(pool, channel.workspaceId, [escalationId])).get(escalationId);
      if (escalation === undefined) return SKIPPED;
      if (!ASKING.has(event.name)) return await this.#update(channel, escalation, request);
      return (await this.#rests(channel, escalation)) ?? (await this.#ask(channel, escalation, event, request));
    } catch (error) {
      // A fault of what is stored is shown with the channel; one of the database is tried again by the caller.
      if (error instanceof ControlPlaneError && error.cause === undefined) return tried(failed(error.message));
      throw error;
    }
  }

  /** Sends a message that asks for nothing. MUST NOT reject because of the receiver's failures. */
  async test(channel: StoredWebhook, request: ChannelRequest): Promise<Told> {
    const destination = await this.#destination(channel, request);
    if ("error" in destination) return destination;
    const { address, publicUrl } = destination;
    const text = "This is a test: messages about actions that wait for an answer will come here.";
    if (address.email !== undefined) {
      return this.#mail(destination, {
        subject: "Test of notifications",
        text: `${text}\n\n${publicUrl}/notifications\n`,
      });
    }
    if (address.push !== undefined) {
      const message = { title: "Test of notifications", body: text, tag: "test", path: "/notifications", pending: 0 };
      return this.#push(destination, message, 60);
    }
    return postMessage(this.#slack(destination), request.id, address.slack ?? "", { text, blocks: [] });
  }

  /** Returns why the person is not told now; undefined if they are. */
  async #rests(
    channel: StoredWebhook,
    escalation: Escalation,
  ): Promise<Exclude<ChannelOutcome, { kind: "tried" }> | undefined> {
    const { database, clock } = this.#options;
    const { workspaceId, holder } = channel;
    const nowMs = clock.now();
    if (escalation.status !== "pending" || escalation.expiresAtMs <= nowMs) return SKIPPED;
    if (!(await this.#isOfStanding(channel))) return SKIPPED;
    // A channel of the whole workspace has no preferences.
    if (holder === "") return undefined;
    const preferences = await readPreferences(database, workspaceId, holder);
    if (!concerns(preferences, escalation)) return SKIPPED;
    const untilMs = preferences.quiet === null ? undefined : quietUntil(preferences.quiet, nowMs);
    return untilMs === undefined ? undefined : { kind: "held", untilMs };
  }

  /** Tells whether a channel is of the whole workspace, or of somebody who may be told. */
  async #isOfStanding({ workspaceId, holder }: StoredWebhook): Promise<boolean> {
    const { database, clock } = this.#options;
    return holder === "" || (await mayBeTold(database.pool, workspaceId, holder, clock.now()));
  }

  async #destination(channel: StoredWebhook, request: ChannelRequest): Promise<Destination | Told> {
    const { database, encryptor, publicUrl } = this.#options;
    if (publicUrl === undefined) return failed("`ACP_PUBLIC_URL` is not set, so messages could lead nowhere");
    const settings = await readSettings(database, encryptor, channel.workspaceId);
    const address = JSON.parse(secretFrom(encryptor, channel, "sealed_secret")) as ChannelAddress;
    if (address.email !== undefined && settings.smtp === null) return failed("the workspace has no mail server");
    if (address.slack !== undefined && !settings.hasSlack) return failed("the workspace has no Slack app");
    return { channel, address, settings, publicUrl, request };
  }

  async #ask(
    channel: StoredWebhook,
    escalation: Escalation,
    event: WebhookEvent,
    request: ChannelRequest,
  ): Promise<ChannelOutcome> {
    const destination = await this.#destination(channel, request);
    if ("error" in destination) return tried(destination);
    const { address, settings, publicUrl } = destination;
    const message = messageOf(escalation, { publicUrl, showsArguments: settings.notifyArguments });
    if (address.email !== undefined) return tried(await this.#mail(destination, mailOf(message)));
    if (address.push !== undefined) {
      const seconds = (escalation.expiresAtMs - this.#options.clock.now()) / 1000;
      const pending = await this.#pending(channel.workspaceId);
      return tried(await this.#push(destination, pushMessageOf(message, pending), seconds));
    }
    const place = event.name === "escalation.reminder" ? await this.#placeOf(channel, escalation) : undefined;
    if (place !== undefined) return tried(await postReminder(this.#slack(destination), request.id, place, message));
    return tried(await this.#postInSlack(destination, message));
  }

  #mail(
    { address, settings, request }: Destination,
    mail: { readonly subject: string; readonly text: string },
  ): Promise<Told> {
    const { smtp, smtpPassword: password } = settings;
    if (smtp === null) return Promise.resolve(failed("the workspace has no mail server"));
    const { id, timeoutMs, signal } = request;
    const { targets } = this.#options;
    return sendMail({ ...smtp, password }, { ...mail, id, to: address.email ?? "" }, { targets, timeoutMs, signal });
  }

  async #push(
    { channel, address, publicUrl, request }: Destination,
    message: PushMessage,
    ttlSeconds: number,
  ): Promise<Told> {
    const { database, encryptor, targets, pushHosts: hosts } = this.#options;
    const keys = await pushKeysOf(database.pool, encryptor, channel.workspaceId);
    const { timeoutMs, signal } = request;
    const subscription = address.push as PushSubscription;
    return sendPush(subscription, keys, { message, ttlSeconds }, { targets, hosts, publicUrl, timeoutMs, signal });
  }

  async #postInSlack(destination: Destination, message: EscalationMessage): Promise<Told> {
    const { channel, address, request } = destination;
    const told = await postMessage(this.#slack(destination), request.id, address.slack ?? "", waitingMessage(message));
    if (told.place !== undefined) {
      const { channel: place, ts } = told.place;
      const id = [channel.workspaceId, channel.webhookId, message.escalationId];
      const values = [...id, place, ts, message.approved !== undefined];
      await this.#options.database.pool.query({ ...insertSlackMessage, values });
    }
    return told;
  }

  /** Shows in Slack how an escalation ended. Other channels are not told again. */
  async #update(channel: StoredWebhook, escalation: Escalation, request: ChannelRequest): Promise<ChannelOutcome> {
    if (channel.kind !== "slack") return SKIPPED;
    const { pool } = this.#options.database;
    const { workspaceId, webhookId } = channel;
    const { escalationId, resolvedBy } = escalation;
    const id = [workspaceId, webhookId, escalationId];
    const place = await this.#placeOf(channel, escalation);
    if (place === undefined || !(await this.#isOfStanding(channel))) return SKIPPED;
    const destination = await this.#destination(channel, request);
    if ("error" in destination) return tried(destination);
    const { publicUrl } = destination;
    const message = messageOf(escalation, { publicUrl, showsArguments: false });
    const by = (await this.#names.find(workspaceId, [resolvedBy]))(resolvedBy) ?? resolvedBy ?? "";
    const told = await updateMessage(this.#slack(destination), place, answeredMessage(message, escalation, by));
    if (told.error === null) await pool.query({ ...deleteSlackMessages, values: id });
    return tried(told);
  }

  /** Returns the place of the message that told a channel of an escalation; undefined without one. */
  async #placeOf(
    { workspaceId, webhookId }: StoredWebhook,
    { escalationId }: Escalation,
  ): Promise<SlackPlace | undefined> {
    const values = [workspaceId, webhookId, escalationId];
    return (await this.#options.database.pool.query<SlackPlace>({ ...readSlackMessage, values })).rows[0];
  }

  #slack({ settings, request: { timeoutMs, signal } }: Destination): SlackApi {
    const { targets, slackUrl: url } = this.#options;
    return { targets, url, token: settings.slackBotToken ?? "", timeoutMs, signal };
  }

  async #pending(workspaceId: string): Promise<number> {
    const { pool } = this.#options.database;
    const { rows } = await stored(pool.query<{ count: number }>({ ...countPending, values: [workspaceId] }));
    return rows[0]?.count ?? 0;
  }
}
