import { createHash } from "node:crypto";
import type { Escalation } from "../escalation/escalation.ts";
import type { TargetAnswer, Targets } from "../webhook/target.ts";
import type { Told } from "./email.ts";
import { type EscalationMessage, factsOf } from "./escalation-message.ts";
import { unlinked } from "./plain-text.ts";

/** Ids of the buttons under a message. */
export const APPROVE_ACTION = "acp_approve";
export const REJECT_ACTION = "acp_reject";

/** A message in Slack. */
export interface SlackMessage {
  /** Text of the notification, in Slack's mark-up. */
  readonly text: string;
  readonly blocks: readonly object[];
}

/** Place of a message in Slack. */
export interface SlackPlace {
  readonly channel: string;
  readonly ts: string;
}

/** A way to call Slack's Web API as an app. */
export interface SlackApi {
  readonly targets: Targets;
  readonly url: string;
  readonly token: string;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** Escapes a text for Slack's mark-up. */
const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Creates the text and facts that every message about an escalation has. Rich text is shown as it is: Slack reads no mark-up in it. */
function partsOf(message: EscalationMessage, heading: string): { readonly text: string; readonly blocks: object[] } {
  const { agent, actionType } = message;
  const facts = factsOf(message).flatMap(([name, value]) => [
    { type: "text", text: `\n${name}: `, style: { bold: true } },
    { type: "text", text: value },
  ]);
  const elements = [{ type: "text", text: heading, style: { bold: true } }, ...facts];
  const section = { type: "rich_text", elements: [{ type: "rich_text_section", elements }] };
  return { text: escaped(`${heading}: ${unlinked(agent)} – ${unlinked(actionType)}`), blocks: [section] };
}

const openButton = ({ url }: EscalationMessage) => ({
  type: "button",
  action_id: "acp_open",
  text: { type: "plain_text", text: "Open" },
  url,
});

function answerButton(action: string, label: string, style: "primary" | "danger", { escalationId }: EscalationMessage) {
  return { type: "button", action_id: action, style, value: escalationId, text: { type: "plain_text", text: label } };
}

/** Creates the message of an escalation that waits. It has buttons for the answer only if it shows what they approve. */
export function waitingMessage(message: EscalationMessage): SlackMessage {
  const { text, blocks } = partsOf(message, "An action waits for an answer");
  const { approved } = message;
  if (approved === undefined)
    return { text, blocks: [...blocks, { type: "actions", elements: [openButton(message)] }] };
  const shown = { type: "rich_text_preformatted", elements: [{ type: "text", text: approved }] };
  const buttons = [
    answerButton(APPROVE_ACTION, "Approve", "primary", message),
    answerButton(REJECT_ACTION, "Reject", "danger", message),
    openButton(message),
  ];
  return {
    text,
    blocks: [...blocks, { type: "rich_text", elements: [shown] }, { type: "actions", elements: buttons }],
  };
}

/** Creates the message of an escalation that was answered, or whose time is up. `by` is the name of who answered. */
export function answeredMessage(
  message: EscalationMessage,
  { status, resolvedBy }: Pick<Escalation, "status" | "resolvedBy">,
  by: string,
): SlackMessage {
  const heading = headingOf(status, resolvedBy, by);
  const { text, blocks } = partsOf(message, heading);
  return { text, blocks: [...blocks, { type: "actions", elements: [openButton(message)] }] };
}

function headingOf(status: Escalation["status"], resolvedBy: string | null, by: string): string {
  if (resolvedBy === "expiry") return "Rejected: nobody answered in time";
  if (resolvedBy === "withdrawal") return "Withdrawn by who asked";
  return `${status === "approved" ? "Approved" : "Rejected"} by ${unlinked(by)}`;
}

/** Response of Slack's Web API. */
interface SlackAnswer extends Told {
  readonly place: SlackPlace | undefined;
}

/** Calls a method of Slack's Web API once. MUST NOT reject. */
export async function callSlack(api: SlackApi, method: string, body: object): Promise<SlackAnswer> {
  const { targets, url, token, timeoutMs, signal } = api;
  const answer = await targets.post({
    url: `${url}/${method}`,
    headers: { "Content-Type": "application/json; charset=utf-8", Authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
    timeoutMs,
    readsBody: true,
    ...(signal === undefined ? {} : { signal }),
  });
  return slackAnswerFrom(answer);
}

const CODE = /^[a-z0-9_]{1,60}$/;

function slackAnswerFrom(answer: TargetAnswer): SlackAnswer {
  if (answer.kind === "fault") return { error: answer.error, answer, place: undefined };
  const { body = "", ...rest } = answer;
  const failed = (error: string): SlackAnswer => ({ error, answer: rest, place: undefined });
  if (answer.status !== 200) return failed(`Slack answered with status ${answer.status}`);
  const read = jsonFrom(body);
  if (read.ok !== true) {
    const code = typeof read.error === "string" && CODE.test(read.error) ? read.error : "an answer without a reason";
    return failed(`Slack refused: ${code}`);
  }
  const { channel, ts } = read;
  const place = typeof channel === "string" && typeof ts === "string" ? { channel, ts } : undefined;
  return { error: null, answer: rest, place };
}

function jsonFrom(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** Returns the id under which Slack knows a message, in the form of a UUID: the same for the same `msg_…`. */
function clientMessageId(id: string): string {
  const hex = createHash("sha256").update(id).digest("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    "-",
  );
}

/** Members of every message that is posted. Its `id` is the same at every attempt. */
const posted = (id: string) => ({
  client_msg_id: clientMessageId(id),
  mrkdwn: false,
  unfurl_links: false,
  unfurl_media: false,
});

/** Posts a message to a channel or a person. */
export const postMessage = (api: SlackApi, id: string, channel: string, message: SlackMessage): Promise<SlackAnswer> =>
  callSlack(api, "chat.postMessage", { channel, ...message, ...posted(id) });

/** Reminds of a message in its thread, and shows the reminder in the channel too. */
export const postReminder = (
  api: SlackApi,
  id: string,
  { channel, ts }: SlackPlace,
  message: EscalationMessage,
): Promise<SlackAnswer> =>
  callSlack(api, "chat.postMessage", {
    channel,
    thread_ts: ts,
    reply_broadcast: true,
    text: partsOf(message, "Still waiting for an answer").text,
    ...posted(id),
  });

/** Replaces a message. */
export const updateMessage = (api: SlackApi, place: SlackPlace, message: SlackMessage): Promise<SlackAnswer> =>
  callSlack(api, "chat.update", { ...place, ...message });

/** Tells one person something that the others in the channel do not see. */
export const postEphemeral = (api: SlackApi, channel: string, user: string, text: string): Promise<SlackAnswer> =>
  callSlack(api, "chat.postEphemeral", { channel, user, text: escaped(text) });
