import { actionPartsOf } from "./decision.ts";
import { canonicalText, isJsonRecord, type JsonRecord, type JsonValue, listAt, textAt, valueAt } from "./json.ts";
import { VerificationError } from "./verification-error.ts";

type Member = JsonValue | undefined;

/** Maximum number of members named by a refusal. */
const MAX_NAMED = 5;

/** Refuses a GetDecision answer that contradicts the sealed text of the decision. */
export function assertAnswers(answer: JsonRecord, body: JsonRecord): void {
  const different = contradictions(answer, body).map((path) => `\`${path}\``);
  if (different.length === 0) return;
  const message = `the answer and the sealed text differ in ${different.slice(0, MAX_NAMED).join(", ")}`;
  throw new VerificationError("contradiction", message);
}

/**
 * Returns the members of a GetDecision answer that contradict the sealed text. The answer is REST JSON, or Protobuf's JSON
 * in snake case. Skips members that are not sealed: the digest of the tool, the digest of an action
 * without a dependent approval, and the sentence for a decision made without a rule.
 */
function contradictions(answer: JsonRecord, body: JsonRecord): readonly string[] {
  const { arguments: given, metadata } = actionPartsOf(body);
  const parts: Record<string, Member> = { "receipt.action.arguments": given, "receipt.action.metadata": metadata };
  const isPart = ([path, part]: [string, Member]) => textOf(valueAt(answer, path) ?? undefined) === textOf(part);
  const isSaid = ([path, member]: [string, Member]) => isSame(answeredAt(answer, path), member);
  const different = Object.entries(sealedMembers(body)).filter((each) => !isSaid(each));
  return [...different, ...Object.entries(parts).filter((each) => !isPart(each))].map(([path]) => path);
}

/** Enum members: the prefix of their words in Protobuf's JSON, for lists by the names of the members. */
const ENUMS: Readonly<Record<string, string | Readonly<Record<string, string>>>> = {
  "decision.decision": "DECISION",
  "decision.decision_path": "DECISION_PATH",
  "receipt.mandates": { decision: "DECISION" },
  "receipt.observed": { would_decide: "DECISION" },
  "receipt.reasons": { decision: "DECISION" },
  "receipt.authorisation.collective_limits": { scope: "SCOPE", kind: "LIMIT_KIND" },
};

/** Returns a member of the answer with enum words in the form of the log. */
function answeredAt(answer: JsonRecord, path: string, value: Member = valueAt(answer, path)): Member {
  const prefixes = ENUMS[path];
  if (prefixes === undefined) return value;
  if (typeof prefixes === "string") return wordOf(prefixes, value);
  if (!Array.isArray(value)) return value;
  return value.map((each) => {
    if (!isJsonRecord(each)) return each;
    const reasons = each.reasons && { reasons: answeredAt(each, "receipt.reasons", each.reasons) ?? null };
    const words = Object.entries(prefixes).map(([member, prefix]) => [member, wordOf(prefix, each[member]) ?? null]);
    return { ...each, ...reasons, ...Object.fromEntries(words) };
  });
}

const wordOf = (prefix: string, value: Member): Member =>
  typeof value === "string" && value.startsWith(`${prefix}_`) ? value.slice(prefix.length + 1).toLowerCase() : value;

const textOf = (value: Member): string => (value === undefined ? "" : canonicalText(value));
const isSame = (answered: Member, sealed: Member): boolean => textOf(lean(answered)) === textOf(lean(sealed));

/** Drops default values, as Protobuf's JSON does, and writes numbers as strings, as it does for 64-bit ones. */
function lean(value: Member): Member {
  if (typeof value === "number") return value === 0 ? undefined : String(value);
  if (value === "0" || value === "" || value === false || value === null) return undefined;
  if (Array.isArray(value)) return value.length === 0 ? undefined : value.map((each) => lean(each) ?? null);
  if (!isJsonRecord(value)) return value;
  const members = Object.entries(value).flatMap(([name, member]) => {
    const rest = lean(member);
    return rest === undefined ? [] : [[name, rest] as const];
  });
  return members.length === 0 ? undefined : Object.fromEntries(members);
}

/** Returns the members of the answer with their values in the sealed text. */
function sealedMembers(body: JsonRecord): Record<string, Member> {
  const at = (path: string): Member => valueAt(body, path);
  return {
    ...recordMembers(body),
    "receipt.index": at("seq"),
    "receipt.action.action_type": at("action.action_type"),
    "receipt.action.action_content": at("action.action_content"),
    "receipt.action.agent_id": at("action.agent_id"),
    "receipt.action.tool": at("action.tool"),
    "receipt.action.tool_version": at("action.tool_version"),
    "receipt.authorisation.permissions": at("authorisation.permissions"),
    "receipt.authorisation.collective_limits": listAt(body, "authorisation.collective_limits").map((limit) =>
      sealedLimit(limit, body),
    ),
    "receipt.trust": at("trust"),
    "receipt.mandates": at("mandates"),
    "receipt.observed": listAt(body, "observed").map(sealedObserved),
    "receipt.guards": at("guards"),
    "receipt.policy_digest": at("policy_digest"),
    "receipt.previous_root": at("previous_root"),
    "receipt.previous_size": at("previous_size"),
    ...callMembers(body),
    ...(at("reasons") === undefined ? {} : { "receipt.reasons": listAt(body, "reasons").map(withShortTime) }),
    ...(at("action_digest") === undefined ? {} : { "receipt.action_digest": at("action_digest") }),
  };
}

function recordMembers(body: JsonRecord): Record<string, Member> {
  const at = (path: string): Member => valueAt(body, path);
  const reason = listAt(body, "reasons")[0];
  return {
    "decision.decision_id": at("decision_id"),
    "decision.decision": at("decision"),
    "decision.decision_path": at("decision_path"),
    "decision.decided_at": shortTime(textAt(body, "at")),
    "decision.agent_id": at("action.agent_id"),
    "decision.action_type": at("action.action_type"),
    "decision.trust_score": at("trust.capped") ?? at("trust.before"),
    "decision.policy_name": at("policy_name"),
    "decision.escalation_id": at("escalation_id"),
    "decision.seq": at("seq"),
    "decision.agent_name": at("action.agent_name"),
    "decision.tool": at("action.tool"),
    ...(at("claim_id") === undefined ? {} : { "decision.claim.claim_id": at("claim_id") }),
    ...(reason === undefined ? {} : { "decision.reason": textAt(reason, "message") }),
  };
}

function callMembers(body: JsonRecord): Record<string, Member> {
  const at = (path: string): Member => valueAt(body, path);
  const authority = listAt(body, "authority");
  const isGrant = (id: JsonValue): boolean => String(id).startsWith("grt_");
  return {
    "receipt.escalation_id": at("used_escalation_id"),
    "receipt.on_behalf_of": at("on_behalf_of") ?? at("principal_id"),
    "receipt.delegation_chain": authority.filter(isGrant),
    "receipt.authority": authority.filter((id) => !isGrant(id)),
    "receipt.key_id": at("key_id"),
    "receipt.key_ended": at("key_ended"),
    "receipt.replay_of": at("replay_of"),
    "receipt.edit_of": at("edit_of"),
    "receipt.session_id": at("session_id"),
    "receipt.trace_id": at("trace_id"),
    "receipt.grant_id": at("grant_id"),
    "receipt.intent_contract_id": at("intent_contract_id"),
    "receipt.presented_escalation_id": at("presented_escalation_id"),
    "receipt.contracts": contractsOf(body),
  };
}

/** Returns the intent contracts of a decision. One that the call names and that admits it without a plan is sealed among the authority alone. */
function contractsOf(body: JsonRecord): JsonValue[] {
  const named = valueAt(body, "intent_contract_id");
  if (valueAt(body, "contracts") === undefined) {
    const isInside = named !== undefined && listAt(body, "authority").includes(named);
    return isInside ? [{ intent_contract_id: named, inside: true }] : [];
  }
  return listAt(body, "contracts").map((each) => {
    if (!isJsonRecord(each)) return each;
    const { outside, ...contract } = each;
    return { ...contract, inside: outside !== true };
  });
}

/** Shortens a time as Protobuf's JSON does, which omits zero milliseconds. */
const shortTime = (time: string): string => time.replace(/\.000Z$/, "Z");

/** Restores the members of a limit that sealing omits because they follow from the others. */
function sealedLimit(value: JsonValue, body: JsonRecord): JsonValue {
  if (!isJsonRecord(value)) return value;
  const { budget } = value;
  if (isJsonRecord(budget)) {
    const isOver = Number(budget.total) > Number(budget.limit);
    const fired = listAt(body, "mandates").some((each) => isJsonRecord(each) && each.mandate_id === value.mandate_id);
    const over_by_approval = isOver && fired && body.decision_path === "approved";
    return withShortTime({ kind: "budget", source: "decision_log", ...value, budget: { ...budget, over_by_approval } });
  }
  const remaining = Math.max(0, Number(value.limit) - Number(value.count));
  return withShortTime({ kind: "velocity", source: "decision_log", ...value, remaining });
}

/** Shortens the time at which a limit has room again, of a limit or a reason. */
function withShortTime(value: JsonValue): JsonValue {
  if (!isJsonRecord(value) || typeof value.resets_at !== "string") return value;
  return { ...value, resets_at: shortTime(value.resets_at) };
}

function sealedObserved(value: JsonValue): JsonValue {
  return isJsonRecord(value) ? { ...value, reasons: listAt(value, "reasons").map(withShortTime) } : value;
}
