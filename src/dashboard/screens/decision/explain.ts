import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { listAt, numberAt, textAt, valueAt } from "../../../verify/json.ts";

/** A part of a sentence: words of ours, or a text from elsewhere, which is shown as such and may lead somewhere. */
export type Part = string | { readonly quoted: string; readonly href?: string | undefined };

/** A sentence of an explanation. */
export type Sentence = readonly Part[];

const PAST: Readonly<Record<string, string>> = {
  allow: "allowed",
  block: "blocked",
  escalate: "escalated to a person",
};
const WOULD: Readonly<Record<string, string>> = { allow: "allow", block: "block", escalate: "escalate" };

const agentPart = (id: string, name = ""): Part => ({ quoted: name || id, href: `/agents/${id}` });

/** Tells in sentences what was asked, what was decided and what followed, from the sealed text of a decision alone. */
export function explanationOf(body: JsonObject): readonly Sentence[] {
  return [asked(body), decided(body), ...approval(body), trust(body), ...capped(body), ...ended(body)];
}

function asked(body: JsonObject): Sentence {
  const tool = textAt(body, "action.tool");
  const type = textAt(body, "action.action_type");
  const principal = textAt(body, "on_behalf_of");
  return [
    "Agent ",
    agentPart(textAt(body, "action.agent_id"), textAt(body, "action.agent_name")),
    ...(principal === "" ? [] : [" asked on behalf of agent ", agentPart(principal)]),
    ...(principal === "" ? [" asked"] : []),
    " to do ",
    { quoted: type },
    ...(tool === "" ? [] : [" with the tool ", { quoted: tool, href: `/tools/${encodeURIComponent(tool)}` }]),
    ".",
  ];
}

/** What each step of deciding means. The word of the decision goes before. */
const PATHS: Readonly<Record<string, string>> = {
  revoked: " because the agent was deactivated or revoked.",
  permissions: " because the agent's permissions and capabilities do not admit this action type.",
  delegation: " because no active chain of grants lets the agent act for that principal.",
  session: " because the session that the call named is not the agent's, or has ended.",
  intent_contract: " because the intent contract that the call named does not admit the action.",
  credential: " because the credential or token of the call has ended, or is not good for this action.",
  mcp_tool_policy: " because a policy for the tools of an MCP server refuses the tool.",
  unknown_tool: " because the tool is not registered, and the workspace refuses unknown tools.",
  approved: " because a person had approved this very action, and the approval was still good.",
};

function decided(body: JsonObject): Sentence {
  const [word, path] = [textAt(body, "decision"), textAt(body, "decision_path")];
  const policy = textAt(body, "policy_name");
  const start = `It was ${PAST[word] ?? word}`;
  if (path === "policy") return [`${start} by a rule of the mandate `, { quoted: policy, href: mandateOf(body) }, "."];
  if (path === "default")
    return [`${start}: no mandate matched, and the workspace ${WOULD[word] ?? word}s by default.`];
  return [`${start}${PATHS[path] ?? "."}`];
}

/** The mandate of the most decisive reason. */
function mandateOf(body: JsonObject): string | undefined {
  const id = textAt(listAt(body, "reasons")[0], "mandate_id");
  return id === "" ? undefined : `/mandates/${id}`;
}

const escalationPart = (id: string): Part => ({ quoted: id, href: `/escalations/${id}` });

function approval(body: JsonObject): readonly Sentence[] {
  const [made, used] = [textAt(body, "escalation_id"), textAt(body, "used_escalation_id")];
  const [presented, edit] = [textAt(body, "presented_escalation_id"), textAt(body, "edit_of")];
  const first = textAt(body, "escalation_expires_at");
  return [
    ...(made === ""
      ? []
      : [["It waits for a person in the escalation ", escalationPart(made), first ? until(first) : "."]]),
    ...(used === "" ? [] : [["It used up the approval of ", escalationPart(used), "."]]),
    ...(presented === "" || presented === used
      ? []
      : [["The caller presented ", escalationPart(presented), ", which did not change the decision."]]),
    ...(edit === "" ? [] : [["A person put these arguments in place of those of ", escalationPart(edit), "."]]),
  ];
}

const until = (time: string): string => `, until ${time}.`;

function trust(body: JsonObject): Sentence {
  const [before, after] = [numberAt(body, "trust.before"), numberAt(body, "trust.after")];
  if (before === after) return [`The agent's trust stayed at ${before}.`];
  return [`The agent's trust went from ${before} to ${after}.`];
}

function capped(body: JsonObject): readonly Sentence[] {
  const cap = numberAt(body, "trust.capped");
  return cap === undefined ? [] : [[`The token of the call caps trust: it was decided with ${cap}.`]];
}

function ended(body: JsonObject): readonly Sentence[] {
  const replay = textAt(body, "replay_of");
  const first: Part = { quoted: replay, href: `/decisions/${replay}` };
  return [
    ...(replay === "" ? [] : [["It refuses a repeat of ", first, ", because something had ended since."]]),
    ...(valueAt(body, "key_ended") === true ? [["The key of the call had ended: this counts in no limit."]] : []),
  ];
}

/** One reason as it was sealed. */
export interface ShownReason {
  readonly code: string;
  readonly message: string;
  readonly mandateId: string;
  readonly mandateName: string;
  readonly rule: string;
  readonly argument: string;
  readonly wouldPass: string;
}

/** Reads the reasons; a decision that no rule gave has one of its own. */
export function reasonsIn(value: JsonValue): readonly ShownReason[] {
  return listAt(value, "reasons").map((reason) => ({
    code: textAt(reason, "code"),
    message: textAt(reason, "message"),
    mandateId: textAt(reason, "mandate_id"),
    mandateName: textAt(reason, "mandate_name"),
    rule: textAt(reason, "rule"),
    argument: textAt(reason, "argument"),
    wouldPass: textAt(reason, "would_pass"),
  }));
}
