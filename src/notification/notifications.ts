import { createHash, randomInt } from "node:crypto";
import { Semaphore } from "../async/semaphore.ts";
import { ControlPlaneError, ErrorReason, invalidField, notFound } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { checkedText } from "../registry/checked-text.ts";
import { type Database, stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import { createId } from "../store/ids.ts";
import type { StoredWebhook } from "../store/sql/change-webhook.ts";
import { deleteChannel, insertChannel, listChannels, readChannel, refreshChannels } from "../store/sql/channels.ts";
import { deleteSlackMessages, insertSlackCode, unlinkSlackAccount } from "../store/sql/slack.ts";
import { type Reader, readerWithin } from "../store/transaction.ts";
import { sealedFrom, secretFrom } from "../webhook/secrets.ts";
import type { Targets } from "../webhook/target.ts";
import { type Preferences, readPreferences, writePreferences } from "./preferences.ts";
import { assertEndpoint, type PushSubscription, pushKeysOf } from "./push.ts";
import type { ChannelAddress, ChannelKind, NotificationSender } from "./sender.ts";
import {
  notConfigured,
  type PublicSettings,
  readSettings,
  type SettingsUpdate,
  updateSettings,
  type WholeSettings,
} from "./settings.ts";

/** A way to reach a person. */
export interface Channel {
  /** `nch_…`. */
  readonly channelId: string;
  readonly kind: ChannelKind;
  readonly label: string;
  readonly isActive: boolean;
  readonly createdAtMs: number;
  readonly failures: number;
  readonly nextAttemptAtMs: number | null;
  /** Error of the last attempt; null if it succeeded. */
  readonly error: string | null;
}

/** Holder of channels and preferences: the caller's key or name, and workspace. */
export interface NotificationCaller {
  readonly workspaceId: string;
  readonly keyId: string;
}

/** A channel to add. */
type ChannelDraft =
  | { readonly kind: "email"; readonly email: string }
  | { readonly kind: "push"; readonly push: PushSubscription; readonly label: string };

/** Dependencies of `Notifications`. */
export interface NotificationsOptions {
  readonly database: Database;
  readonly logs: Pick<WorkspaceLogs, "of" | "clock">;
  readonly encryptor: Encryptor;
  readonly targets: Targets;
  readonly sender: NotificationSender;
  /** Looks for new and changed channels at once. */
  readonly wake: () => void;
  readonly publicUrl: string | undefined;
  readonly pushHosts: readonly string[];
}

type ChannelRow = StoredWebhook & { readonly error: string | null };

const MOST: Readonly<Record<ChannelKind, number>> = { email: 5, push: 10, slack: 5 };
const EVENTS: Readonly<Record<ChannelKind, readonly string[]>> = {
  email: ["escalation.created", "escalation.reminder"],
  push: ["escalation.created", "escalation.reminder"],
  slack: ["escalation.created", "escalation.reminder", "escalation.resolved"],
};
/** Maximum test messages in flight. */
const MAX_TESTS = 16;
/** Timeout of a test in milliseconds: below the default deadline of a call, so that the caller gets the outcome. */
const TEST_MS = 8_000;
const CODE_LIFETIME_MS = 600_000;
/** Letters and digits that nobody takes for one another: 12 of them have 58 bits. */
const CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ";
const CODE_LENGTH = 12;

/** Command with which a code is typed in Slack. */
export const LINK_COMMAND = "/acp-link";

/** Path to which a Slack app sends presses and commands of a workspace. */
export const slackPathOf = (workspaceId: string): string => `/slack/${encodeURIComponent(workspaceId)}`;

/** Returns the hash under which a code is stored. Blanks, dashes and case do not count. */
export const hashOfCode = (code: string): Buffer =>
  createHash("sha256").update(code.toUpperCase().replaceAll(/[\s-]/g, "")).digest();

function channelFrom(row: ChannelRow): Channel {
  const { webhookId: channelId, kind, label, isActive, createdAtMs, failures, nextAttemptAtMs, error } = row;
  return { channelId, kind: kind as ChannelKind, label, isActive, createdAtMs, failures, nextAttemptAtMs, error };
}

const channelNotFound = (channelId: string): ControlPlaneError =>
  notFound(ErrorReason.NOTIFICATION_CHANNEL_NOT_FOUND, "notification channel", { channel_id: channelId });

/** Settings, preferences and channels by which people are told of escalations. Every method rejects with STORE_UNAVAILABLE. */
export class Notifications {
  readonly #options: NotificationsOptions;
  readonly #tests = new Semaphore({ permits: MAX_TESTS });

  constructor(options: NotificationsOptions) {
    this.#options = options;
  }

  /** Returns the address in links; throws NOTIFICATIONS_NOT_CONFIGURED without one. */
  #publicUrl(): string {
    const { publicUrl } = this.#options;
    if (publicUrl !== undefined) return publicUrl;
    throw notConfigured(
      "`ACP_PUBLIC_URL` is not set, so messages could lead nowhere; set it to the dashboard's address",
    );
  }

  /** Returns the address to which a workspace's Slack app sends its requests; undefined without a public address. */
  slackRequestUrl(workspaceId: string): string | undefined {
    const { publicUrl } = this.#options;
    return publicUrl === undefined ? undefined : publicUrl + slackPathOf(workspaceId);
  }

  /** Reads the settings with their secrets. Throws ENCRYPTION_KEY_DIFFERS. */
  settings(workspaceId: string): Promise<WholeSettings> {
    const { database, encryptor } = this.#options;
    return readSettings(database, encryptor, workspaceId);
  }

  /** Changes the settings. Throws INVALID_FIELD and TARGET_NOT_ALLOWED. */
  async updateSettings({ workspaceId, keyId }: NotificationCaller, update: SettingsUpdate): Promise<PublicSettings> {
    const { database, logs, encryptor, targets, wake } = this.#options;
    if (update.smtp) await targets.addressesOf(update.smtp.host, "smtp.host");
    const log = await logs.of(workspaceId);
    const after = await updateSettings(log, keyId, encryptor, update, (reader, settings) =>
      this.#alignSlackChannel(reader, workspaceId, settings),
    );
    // Messages that the earlier settings could not send are tried at once.
    await stored(database.pool.query({ ...refreshChannels, values: [workspaceId, null, null] }));
    wake();
    return after;
  }

  /** Makes the channel of the whole workspace in Slack follow the settings. */
  async #alignSlackChannel(reader: Reader, workspaceId: string, { slackChannel }: PublicSettings): Promise<void> {
    const { rows } = await reader.query<ChannelRow & {}>({ ...listChannels, values: [workspaceId, ""] });
    for (const row of rows) {
      if (row.label !== slackChannel) await this.#remove(reader, workspaceId, row.webhookId, "");
    }
    if (slackChannel === "" || rows.some(({ label }) => label === slackChannel)) return;
    await this.#insert(
      reader,
      { workspaceId, holder: "", kind: "slack", label: slackChannel },
      { slack: slackChannel },
    );
  }

  /** Returns the preferences of the caller. */
  preferences({ workspaceId, keyId }: NotificationCaller): Promise<Preferences> {
    return readPreferences(this.#options.database, workspaceId, keyId);
  }

  /** Sets the preferences of the caller; messages that quiet hours held back follow the new ones. Throws INVALID_FIELD. */
  async setPreferences({ workspaceId, keyId }: NotificationCaller, preferences: Preferences): Promise<void> {
    const { database, wake } = this.#options;
    await writePreferences(database, workspaceId, keyId, preferences);
    await stored(database.pool.query({ ...refreshChannels, values: [workspaceId, keyId, null] }));
    wake();
  }

  /** Returns the public key with which browsers subscribe. */
  async pushPublicKey({ workspaceId }: NotificationCaller): Promise<string> {
    const { database, encryptor } = this.#options;
    return (await pushKeysOf(database.pool, encryptor, workspaceId)).publicKey;
  }

  /** Lists the channels of the caller, oldest first. */
  async channels(caller: NotificationCaller): Promise<readonly Channel[]> {
    return (await this.#rows(caller)).map(channelFrom);
  }

  async #rows({ workspaceId, keyId }: NotificationCaller): Promise<readonly ChannelRow[]> {
    const { pool } = this.#options.database;
    return (await stored(pool.query<ChannelRow>({ ...listChannels, values: [workspaceId, keyId] }))).rows;
  }

  /**
   * Adds a channel for escalations from now on; an address that the caller has already is the channel that exists. Throws
   * NOTIFICATIONS_NOT_CONFIGURED, INVALID_FIELD and TARGET_NOT_ALLOWED.
   */
  async add(caller: NotificationCaller, draft: ChannelDraft): Promise<Channel> {
    this.#publicUrl();
    const { workspaceId, keyId: holder } = caller;
    const address = await this.#checked(workspaceId, draft);
    const known = (await this.#rows(caller)).find((row) => this.#isAt(row, address));
    if (known?.isActive) return channelFrom(known);
    const { pool } = this.#options.database;
    if (known !== undefined) await this.#remove(pool, workspaceId, known.webhookId, holder);
    const label = draft.kind === "email" ? draft.email : checkedText("label", draft.label) || "a browser";
    const row = await stored(this.#insert(pool, { workspaceId, holder, kind: draft.kind, label }, address));
    if (row === undefined)
      throw invalidField(draft.kind, `must be one of at most ${MOST[draft.kind]}; remove another first`);
    this.#options.wake();
    return channelFrom(row);
  }

  /** Returns the address of a draft, checked. */
  async #checked(workspaceId: string, draft: ChannelDraft): Promise<ChannelAddress> {
    if (draft.kind === "email") {
      if ((await this.settings(workspaceId)).smtp !== null) return { email: draft.email };
      throw notConfigured("the workspace has no mail server; an administrator sets one under Notifications");
    }
    const { targets, pushHosts } = this.#options;
    const { endpoint, p256dh, auth } = draft.push;
    assertEndpoint(endpoint, pushHosts);
    await targets.check(endpoint, "push.endpoint");
    return { push: { endpoint, p256dh, auth } };
  }

  #isAt(row: ChannelRow, address: ChannelAddress): boolean {
    try {
      const known = JSON.parse(secretFrom(this.#options.encryptor, row, "sealed_secret")) as ChannelAddress;
      if (address.push !== undefined) return known.push?.endpoint === address.push.endpoint;
      return known.email !== undefined && known.email === address.email;
    } catch {
      return false;
    }
  }

  async #insert(
    reader: Reader,
    {
      workspaceId,
      holder,
      kind,
      label,
    }: Pick<StoredWebhook, "workspaceId" | "holder" | "label"> & { readonly kind: ChannelKind },
    address: ChannelAddress,
  ): Promise<ChannelRow | undefined> {
    const { encryptor, logs } = this.#options;
    const webhookId = createId("nch");
    const sealed = sealedFrom(encryptor, { workspaceId, webhookId }, "sealed_secret", JSON.stringify(address));
    const what = [
      workspaceId,
      webhookId,
      kind,
      holder,
      label,
      `${kind}:`,
      `{${EVENTS[kind].join(",")}}`,
      logs.clock.now(),
      sealed,
    ];
    const { rows } = await reader.query<StoredWebhook & {}>({ ...insertChannel, values: [...what, MOST[kind]] });
    return rows[0] === undefined ? undefined : { ...rows[0], error: null };
  }

  async #remove(
    reader: Reader,
    workspaceId: string,
    channelId: string,
    holder: string,
  ): Promise<ChannelRow | undefined> {
    await reader.query({ ...deleteSlackMessages, values: [workspaceId, channelId, null] });
    const { rows } = await reader.query<ChannelRow & {}>({
      ...deleteChannel,
      values: [workspaceId, channelId, holder],
    });
    return rows[0];
  }

  /** Adds the channel that tells a Slack account, in the transaction that links it. Undefined: the holder has as many as there may be. */
  async addSlackAccount(
    reader: Reader,
    workspaceId: string,
    holder: string,
    userId: string,
  ): Promise<string | undefined> {
    const place = { workspaceId, holder, kind: "slack", label: `Slack ${userId}` } as const;
    return (await this.#insert(reader, place, { slack: userId }))?.webhookId;
  }

  /** Removes a channel of the caller, and unlinks its Slack account. Throws NOTIFICATION_CHANNEL_NOT_FOUND. */
  async remove({ workspaceId, keyId }: NotificationCaller, channelId: string): Promise<Channel> {
    const log = await this.#options.logs.of(workspaceId);
    const row = await this.#row({ workspaceId, keyId }, channelId);
    if (row.kind !== "slack") {
      const removed = await stored(this.#remove(this.#options.database.pool, workspaceId, channelId, keyId));
      if (removed === undefined) throw channelNotFound(channelId);
    } else {
      await log.change(keyId, async ({ transaction, seal }) => {
        const reader = readerWithin(transaction);
        if ((await this.#remove(reader, workspaceId, channelId, keyId)) === undefined) throw channelNotFound(channelId);
        type Row = { readonly teamId: string; readonly userId: string; readonly holder: string };
        const { rows } = await reader.query<Row>({ ...unlinkSlackAccount, values: [workspaceId, channelId] });
        for (const { teamId, userId, holder } of rows) {
          seal({ type: "slack_account_unlinked", holder, team_id: teamId, user_id: userId });
        }
      });
    }
    this.#options.wake();
    return channelFrom(row);
  }

  async #row({ workspaceId, keyId }: NotificationCaller, channelId: string): Promise<ChannelRow> {
    const { pool } = this.#options.database;
    const values = [workspaceId, channelId, keyId];
    const { rows } = await stored(pool.query<ChannelRow>({ ...readChannel, values }));
    if (rows[0] === undefined) throw channelNotFound(channelId);
    return rows[0];
  }

  /** Sends a test message through a channel of the caller, and returns its error; null if it was accepted. */
  async test(caller: NotificationCaller, channelId: string, signal: AbortSignal): Promise<string | null> {
    const row = await this.#row(caller, channelId);
    const request = { id: createId("msg"), timeoutMs: TEST_MS, signal };
    const send = () => this.#options.sender.test(row, request);
    const told = await this.#tests.run(send, { key: caller.workspaceId, signal });
    if (told !== undefined) return told.error;
    throw new ControlPlaneError(ErrorReason.CANCELLED, "the caller disconnected before the test was sent");
  }

  /** Creates a code that links a Slack account to the caller. Throws NOTIFICATIONS_NOT_CONFIGURED. */
  async linkSlack({
    workspaceId,
    keyId,
  }: NotificationCaller): Promise<{ readonly code: string; readonly expiresAtMs: number }> {
    this.#publicUrl();
    const { database, logs } = this.#options;
    if (!(await this.settings(workspaceId)).hasSlack) {
      throw notConfigured("the workspace has no Slack app; an administrator sets one under Notifications");
    }
    const letters = Array.from({ length: CODE_LENGTH }, () => CODE_ALPHABET[randomInt(CODE_ALPHABET.length)]);
    const code = letters.join("").replaceAll(/(.{4})(?=.)/g, "$1-");
    const nowMs = logs.clock.now();
    const expiresAtMs = nowMs + CODE_LIFETIME_MS;
    const values = [workspaceId, hashOfCode(code), keyId, expiresAtMs, nowMs];
    await stored(database.pool.query({ ...insertSlackCode, values }));
    return { code, expiresAtMs };
  }
}
