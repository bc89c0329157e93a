import type { JsonMembers } from "../verify/index.ts";
import { at, idsIn, listAt, textAt } from "./members.ts";

/** What a decision names: the things whose entries tell how it came about. */
export interface Subject {
  readonly decisionId: string;
  readonly index: number;
  /** The agent that acted. */
  readonly actorId: string;
  /** The actor, and the agent that it acted for. */
  readonly agentIds: ReadonlySet<string>;
  /** The version of each mandate that was evaluated or observed, with the digest where the decision names it. */
  readonly mandates: ReadonlyMap<string, { readonly version: unknown; readonly digest: string }>;
  readonly tool: { readonly name: string; readonly version: unknown; readonly digest: string } | undefined;
  /** Sessions, credentials, grants, windows, contracts, tokens and policies. */
  readonly authorityIds: ReadonlySet<string>;
  readonly keyId: string;
  /** Escalations that it made, or was presented. */
  readonly escalationIds: ReadonlySet<string>;
}

function mandatesOf(decision: JsonMembers): Subject["mandates"] {
  const named = [...listAt(decision, "mandates"), ...listAt(decision, "observed")];
  return new Map(
    named.map((each) => [textAt(each, "mandate_id"), { version: at(each, "version"), digest: textAt(each, "digest") }]),
  );
}

function toolOf(decision: JsonMembers): Subject["tool"] {
  const version = at(decision, "action", "tool_version");
  if (version === undefined) return undefined;
  return { name: textAt(decision, "action", "tool"), version, digest: textAt(decision, "action", "tool_digest") };
}

const AUTHORITY = /^(ses|crd|grt|tmw|itc|fed|mtp)_/;

/** Reads out of a decision's body what it names. */
export function subjectOf(decision: JsonMembers): Subject {
  const actorId = textAt(decision, "action", "agent_id");
  const named = ["session_id", "grant_id", "intent_contract_id", "key_id"].map((name) => textAt(decision, name));
  const reasons = listAt(decision, "reasons").flatMap((reason) => idsIn(textAt(reason, "message")));
  const lent = listAt(decision, "authority").map(String);
  const escalations = ["escalation_id", "used_escalation_id", "presented_escalation_id"];
  return {
    decisionId: textAt(decision, "decision_id"),
    index: Number(decision.seq),
    actorId,
    agentIds: new Set([actorId, textAt(decision, "on_behalf_of")].filter((id) => id !== "")),
    mandates: mandatesOf(decision),
    tool: toolOf(decision),
    authorityIds: new Set([...named, ...lent, ...reasons].filter((id) => AUTHORITY.test(id))),
    keyId: textAt(decision, "key_id"),
    escalationIds: new Set(escalations.map((name) => textAt(decision, name)).filter((id) => id !== "")),
  };
}
