import type { Escalation } from "../escalation/escalation.ts";
import { unlinked } from "./plain-text.ts";

/** An escalation as a message tells it. */
export interface EscalationMessage {
  readonly escalationId: string;
  /** Names as the agent and its owner gave them. */
  readonly agent: string;
  readonly actionType: string;
  readonly tool: string | undefined;
  readonly policy: string | undefined;
  readonly expiresAtMs: number;
  /** Address of the escalation on the dashboard. */
  readonly url: string;
  /** The whole action as text; undefined where it stays behind the link. */
  readonly approved: string | undefined;
}

/** Maximum characters of what is to be approved in a message: Slack takes no longer text in one block. */
const MAX_APPROVED = 2_500;

/** A fact with its name. */
export type Fact = readonly [name: string, value: string];

/** Options of a message. */
interface MessageOptions {
  readonly publicUrl: string;
  /** True to show what is to be approved. */
  readonly showsArguments: boolean;
}

/** Creates the message of an escalation. What is to be approved is shown in whole or not at all. */
export function messageOf(
  { escalationId, expiresAtMs, receipt: { body } }: Escalation,
  { publicUrl, showsArguments }: MessageOptions,
): EscalationMessage {
  const { action, policy_name: policy } = body;
  const approved = showsArguments ? approvedText(action.action_content, action.metadata) : undefined;
  return {
    escalationId,
    agent: action.agent_name,
    actionType: action.action_type,
    tool: action.tool,
    policy,
    expiresAtMs,
    url: `${publicUrl}/escalations/${encodeURIComponent(escalationId)}`,
    approved: approved !== undefined && approved.length <= MAX_APPROVED ? approved : undefined,
  };
}

function approvedText(content: string, metadata: object | undefined): string {
  const parts = [content, metadata === undefined ? "" : JSON.stringify(metadata, null, 2)];
  return parts.filter((part) => part !== "").join("\n\n");
}

/** Returns the facts of a message in the order in which they are told, as texts without links. */
export function factsOf({ agent, actionType, tool, policy, expiresAtMs }: EscalationMessage): readonly Fact[] {
  const facts: Fact[] = [
    ["Agent", unlinked(agent)],
    ["Action", unlinked(actionType)],
  ];
  if (tool !== undefined) facts.push(["Tool", unlinked(tool)]);
  if (policy !== undefined) facts.push(["Mandate", unlinked(policy)]);
  facts.push(["Until", `${new Date(expiresAtMs).toISOString().slice(0, 16).replace("T", " ")} UTC`]);
  return facts;
}
