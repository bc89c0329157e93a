import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { actionPartsOf, canonicalText, isObject, listAt, textAt, valueAt } from "./sealed-text.ts";

type Member = JsonValue | undefined;

/**
 * Returns the members of a GetDecision answer (its JSON form, in snake case) that say something else than the sealed text does.
 * Members that are not sealed are passed over: the tool's digest, the digest of an action that no approval depends on, and the
 * sentence for a decision that no rule gave.
 */
export function contradictions(answer: JsonObject, body: JsonObject): readonly string[] {
  const { [ACTION_ARGUMENTS]: sealedArguments, [ACTION_METADATA]: sealedMetadata, ...sealed } = sealedMembers(body);
  const different = Object.entries(sealed).filter(([path, member]) => !isSame(valueAt(answer, path), member));
  const parts = [
    [ACTION_ARGUMENTS, sealedArguments],
    [ACTION_METADATA, sealedMetadata],
  ] as const;
  const differentParts = parts.filter(([path, member]) => textOf(valueAt(answer, path)) !== textOf(member));
  return [...different, ...differentParts].map(([path]) => path);
}

const ACTION_ARGUMENTS = "receipt.action.arguments";
const ACTION_METADATA = "receipt.action.metadata";

const textOf = (value: Member): string => (value === undefined ? "" : canonicalText(value));
const isSame = (answered: Member, sealed: Member): boolean => textOf(lean(answered)) === textOf(lean(sealed));

/** Drops what Protobuf leaves out of its JSON, and writes numbers as it writes 64 bit ones. */
function lean(value: Member): Member {
  if (typeof value === "number") return value === 0 ? undefined : String(value);
  if (value === "0" || value === "" || value === false || value === null) return undefined;
  if (Array.isArray(value)) return value.length === 0 ? undefined : value.map((each) => lean(each) ?? null);
  if (!isObject(value)) return value;
  const members = Object.entries(value).flatMap(([name, member]) => {
    const rest = lean(member);
    return rest === undefined ? [] : [[name, rest] as const];
  });
  return members.length === 0 ? undefined : Object.fromEntries(members);
}

/** Writes a word of the log as Protobuf's JSON writes the enum. */
const enumText = (prefix: string, word: Member): Member =>
  typeof word === "string" ? `${prefix}_${word.toUpperCase()}` : undefined;

/** The members of the answer as the sealed text says them. */
function sealedMembers(body: JsonObject): Record<string, Member> {
  const at = (path: string): Member => valueAt(body, path);
  const { arguments: given, metadata } = actionPartsOf(body);
  return {
    ...recordMembers(body),
    "receipt.index": at("seq"),
    "receipt.action.action_type": at("action.action_type"),
    "receipt.action.action_content": at("action.action_content"),
    "receipt.action.agent_id": at("action.agent_id"),
    "receipt.action.tool": at("action.tool"),
    "receipt.action.tool_version": at("action.tool_version"),
    [ACTION_ARGUMENTS]: given,
    [ACTION_METADATA]: metadata,
    "receipt.authorisation.permissions": at("authorisation.permissions"),
    "receipt.authorisation.collective_limits": listAt(body, "authorisation.collective_limits").map(sealedLimit),
    "receipt.trust": at("trust"),
    "receipt.mandates": listAt(body, "mandates").map((mandate) => withEnum(mandate, "decision")),
    "receipt.observed": listAt(body, "observed").map((mandate) => withEnum(mandate, "would_decide")),
    "receipt.guards": at("guards"),
    "receipt.policy_digest": at("policy_digest"),
    "receipt.previous_root": at("previous_root"),
    "receipt.previous_size": at("previous_size"),
    ...callMembers(body),
    ...(at("reasons") === undefined ? {} : { "receipt.reasons": at("reasons") }),
    ...(at("action_digest") === undefined ? {} : { "receipt.action_digest": at("action_digest") }),
  };
}

function recordMembers(body: JsonObject): Record<string, Member> {
  const at = (path: string): Member => valueAt(body, path);
  const reason = listAt(body, "reasons")[0];
  return {
    "decision.decision_id": at("decision_id"),
    "decision.decision": enumText("DECISION", at("decision")),
    "decision.decision_path": enumText("DECISION_PATH", at("decision_path")),
    "decision.decided_at": shortTime(textAt(body, "at")),
    "decision.agent_id": at("action.agent_id"),
    "decision.action_type": at("action.action_type"),
    "decision.trust_score": at("trust.capped") ?? at("trust.before"),
    "decision.policy_name": at("policy_name"),
    "decision.escalation_id": at("escalation_id"),
    "decision.seq": at("seq"),
    "decision.agent_name": at("action.agent_name"),
    "decision.tool": at("action.tool"),
    ...(reason === undefined ? {} : { "decision.reason": textAt(reason, "message") }),
  };
}

function callMembers(body: JsonObject): Record<string, Member> {
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
    "receipt.grant_id": at("grant_id"),
    "receipt.intent_contract_id": at("intent_contract_id"),
    "receipt.presented_escalation_id": at("presented_escalation_id"),
  };
}

/** Protobuf's JSON leaves out milliseconds that are zero. */
const shortTime = (time: string): string => time.replace(/\.000Z$/, "Z");

const withEnum = (value: JsonValue, name: string): JsonValue =>
  isObject(value) ? { ...value, [name]: enumText("DECISION", value[name]) ?? null } : value;

/** Restores what sealing leaves out of a limit because it follows from the rest. */
function sealedLimit(value: JsonValue): JsonValue {
  if (!isObject(value)) return value;
  const remaining = Math.max(0, Number(value.limit) - Number(value.count));
  return { source: "decision_log", ...value, scope: enumText("SCOPE", value.scope) ?? null, remaining };
}
