import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { ControlPlaneError } from "../errors.ts";
import { resolveEscalation } from "../escalation/escalation.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { type Database, stored } from "../store/database.ts";
import {
  deleteSlackChannel,
  hasSlackMessage,
  insertSlackRequest,
  linkSlackAccount,
  readSlackAccount,
  takeSlackCode,
} from "../store/sql/slack.ts";
import { readerWithin } from "../store/transaction.ts";
import type { Targets } from "../webhook/target.ts";
import { hashOfCode, LINK_COMMAND, type Notifications } from "./notifications.ts";
import type { WholeSettings } from "./settings.ts";
import { APPROVE_ACTION, postEphemeral, REJECT_ACTION } from "./slack.ts";
import { mayAnswer, roleOf } from "./standing.ts";

/** Headers of a request of Slack. */
export interface SlackHead {
  readonly workspaceId: string;
  /** `X-Slack-Signature` and `X-Slack-Request-Timestamp`. */
  readonly signature: string | undefined;
  readonly timestamp: string | undefined;
}

/** A request of Slack as it arrived. */
interface SlackRequest extends SlackHead {
  /** The body as it arrived, which the signature covers. */
  readonly body: string;
}

/** A request that Slack may have signed. */
export interface AdmittedRequest {
  /** The workspace; empty if it has no Slack app. */
  readonly workspaceId: string;
  /**
   * Serves the request. Undefined for one that is refused: the workspace has no Slack app, the signature is wrong or older than 5
   * minutes, or the request was served before, on any process. Rejects with STORE_UNAVAILABLE.
   */
  serve(body: string): Promise<SlackReply>;
}

/** Answer to a request; undefined for one that is refused. */
export type SlackReply = { readonly json: object | null } | undefined;

/** Dependencies of the inbox. */
export interface SlackInboxOptions {
  readonly notifications: Notifications;
  readonly database: Database;
  readonly logs: WorkspaceLogs;
  readonly targets: Targets;
  readonly slackUrl: string;
  readonly publicUrl: string | undefined;
  /** Looks for new channels at once. */
  readonly wake: () => void;
}

/** Seconds by which the time of a request may differ from ours. */
const MAX_AGE_SECONDS = 300;
/** Milliseconds for which a request is remembered: longer than any signature of it is good. */
const REMEMBERED_MS = 2 * MAX_AGE_SECONDS * 1000;
const MAX_WORKSPACE_ID = 64;
const SIGNATURE = /^v0=[0-9a-f]{64}$/;
/** Milliseconds for telling a person in Slack why a press did not count: Slack waits 3 s for the answer to the press. */
const TELL_MS = 2_000;

/** A press of a button, as far as it counts. */
interface Press {
  readonly teamId: string;
  readonly userId: string;
  readonly action: string;
  readonly escalationId: string;
  readonly channel: string;
  readonly ts: string;
}

/** Tests the headers of a request: the form of its signature, and its age. */
function mayBeSigned({ signature = "", timestamp = "" }: SlackHead, nowMs: number): boolean {
  if (!SIGNATURE.test(signature) || !/^\d{1,12}$/.test(timestamp)) return false;
  return Math.abs(nowMs / 1000 - Number(timestamp)) <= MAX_AGE_SECONDS;
}

/** Tests Slack's signature (version `v0`) of a request. */
function isSignedBySlack(secret: string, request: SlackRequest, nowMs: number): boolean {
  if (!mayBeSigned(request, nowMs)) return false;
  const { signature = "", timestamp, body } = request;
  const expected = Buffer.from(`v0=${createHmac("sha256", secret).update(`v0:${timestamp}:${body}`).digest("hex")}`);
  const given = Buffer.from(signature);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
const objectOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};

/** Reads a press; undefined for anything else that Slack sends, such as a button that only opens a link. */
function pressFrom(payload: string): Press | undefined {
  let read: Readonly<Record<string, unknown>>;
  try {
    read = objectOf(JSON.parse(payload));
  } catch {
    return undefined;
  }
  const [first] = Array.isArray(read.actions) ? read.actions : [];
  const action = textOf(objectOf(first).action_id);
  if (read.type !== "block_actions" || (action !== APPROVE_ACTION && action !== REJECT_ACTION)) return undefined;
  return {
    teamId: textOf(objectOf(read.team).id),
    userId: textOf(objectOf(read.user).id),
    action,
    escalationId: textOf(objectOf(first).value),
    channel: textOf(objectOf(read.channel).id) || textOf(objectOf(read.container).channel_id),
    ts: textOf(objectOf(read.container).message_ts) || textOf(objectOf(read.message).ts),
  };
}

const uncounted = (why: string): string => `Your answer did not count: ${why}.`;

const said = (text: string): SlackReply => ({ json: { response_type: "ephemeral", text } });

/** Serves what a workspace's Slack app sends: the command that links an account, and presses of buttons. */
export class SlackInbox {
  readonly #options: SlackInboxOptions;

  constructor(options: SlackInboxOptions) {
    this.#options = options;
  }

  /**
   * Admits a request by its headers. Undefined for one that Slack cannot have signed, or not within 5 minutes. A workspace without a Slack
   * app looks like any other from outside. Rejects with STORE_UNAVAILABLE.
   */
  async admit(head: SlackHead): Promise<AdmittedRequest | undefined> {
    const { workspaceId } = head;
    const { notifications, logs } = this.#options;
    if (workspaceId.length > MAX_WORKSPACE_ID || workspaceId.includes("\u0000")) return undefined;
    if (!mayBeSigned(head, logs.clock.now())) return undefined;
    const settings = await notifications.settings(workspaceId);
    return {
      workspaceId: settings.hasSlack ? workspaceId : "",
      serve: (body) => this.#serve({ ...head, body }, settings),
    };
  }

  async #serve(request: SlackRequest, settings: WholeSettings): Promise<SlackReply> {
    const { workspaceId, body } = request;
    const { slackSigningSecret: secret } = settings;
    const nowMs = this.#options.logs.clock.now();
    if (secret === undefined || !isSignedBySlack(secret, request, nowMs)) return undefined;
    if (!(await this.#isNew(request, nowMs))) return undefined;
    const form = new URLSearchParams(body);
    if (form.get("ssl_check") === "1") return { json: null };
    if (form.has("command")) return this.#link(workspaceId, form, nowMs);
    const press = pressFrom(form.get("payload") ?? "");
    if (press === undefined) return { json: null };
    const fault = await this.#answer(workspaceId, press, nowMs);
    if (fault !== undefined) await this.#tell(settings, press, fault);
    return { json: null };
  }

  async #isNew({ workspaceId, timestamp = "", body }: SlackRequest, nowMs: number): Promise<boolean> {
    const digest = createHash("sha256").update(`${timestamp}:${body}`).digest();
    const values = [workspaceId, digest, nowMs + REMEMBERED_MS, nowMs];
    const { pool } = this.#options.database;
    return (await stored(pool.query({ ...insertSlackRequest, values }))).rows.length > 0;
  }

  /** Links the account that typed a code to the key or person who asked for the code. */
  async #link(workspaceId: string, form: URLSearchParams, nowMs: number): Promise<SlackReply> {
    const [teamId, userId] = [form.get("team_id") ?? "", form.get("user_id") ?? ""];
    const unknown = said(
      "This code is unknown, was used, or its time is over. Get a new one on the dashboard, under Notifications.",
    );
    if (form.get("command") !== LINK_COMMAND || !/^[A-Z0-9]{2,40}$/.test(teamId) || !/^[A-Z0-9]{2,40}$/.test(userId)) {
      return unknown;
    }
    const { logs, database, notifications, wake } = this.#options;
    const hash = hashOfCode(form.get("text") ?? "");
    const log = await logs.of(workspaceId);
    const reply = await log.change("system", async ({ transaction, seal }) => {
      const reader = readerWithin(transaction);
      type Code = { readonly holder: string };
      const { rows } = await reader.query<Code>({ ...takeSlackCode, values: [workspaceId, hash, nowMs] });
      const [code] = rows;
      if (code === undefined) return unknown;
      const { holder } = code;
      if (!mayAnswer(await roleOf(database.pool, workspaceId, holder, nowMs))) return unknown;
      const before = await reader.query<{ channelId: string }>({
        ...readSlackAccount,
        values: [workspaceId, teamId, userId],
      });
      for (const { channelId } of before.rows) {
        await reader.query({ ...deleteSlackChannel, values: [workspaceId, channelId] });
      }
      const channelId = await notifications.addSlackAccount(reader, workspaceId, holder, userId);
      if (channelId === undefined)
        return said("You have linked as many Slack accounts as a person may. Remove one first.");
      await reader.query({ ...linkSlackAccount, values: [workspaceId, teamId, userId, holder, channelId, nowMs] });
      seal({ type: "slack_account_linked", holder, team_id: teamId, user_id: userId });
      return said("This Slack account is linked: you are told here of actions that wait for an answer.");
    });
    wake();
    return reply;
  }

  /** Answers an escalation by a press. Returns what the person is told; undefined if the message will show it. */
  async #answer(workspaceId: string, press: Press, nowMs: number): Promise<string | undefined> {
    const { database, logs } = this.#options;
    const { pool } = database;
    const { teamId, userId, escalationId, channel, ts, action } = press;
    const values = [workspaceId, teamId, userId];
    const { rows } = await stored(pool.query<{ holder: string }>({ ...readSlackAccount, values }));
    const holder = rows[0]?.holder;
    if (holder === undefined)
      return uncounted(
        `link this Slack account first: ask the dashboard for a code under Notifications, then type ${LINK_COMMAND} with it here`,
      );
    if (!mayAnswer(await roleOf(pool, workspaceId, holder, nowMs))) {
      return uncounted(
        "your key has ended or may not answer, or you are no longer signed in to the dashboard; sign in there and press again",
      );
    }
    // A press answers only what a message of ours showed.
    const shown = await stored(pool.query({ ...hasSlackMessage, values: [workspaceId, escalationId, channel, ts] }));
    if (shown.rows.length === 0)
      return uncounted("this message is out of date, or hides what it would approve; answer on the dashboard");
    try {
      const resolution = action === APPROVE_ACTION ? "approved" : "rejected";
      const context = { log: await logs.of(workspaceId), pool };
      const { status } = await resolveEscalation(context, { escalationId, resolution, note: null, by: holder });
      return status === "pending" ? "Your approval counts; more are needed." : undefined;
    } catch (error) {
      if (error instanceof ControlPlaneError && error.cause === undefined) return uncounted(error.message);
      throw error;
    }
  }

  async #tell({ slackBotToken: token }: WholeSettings, { channel, userId }: Press, fault: string): Promise<void> {
    const { targets, slackUrl: url } = this.#options;
    if (token === undefined) return;
    await postEphemeral({ targets, url, token, timeoutMs: TELL_MS }, channel, userId, fault);
  }
}
