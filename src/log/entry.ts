import type { CompiledMandate, EvaluatedMandate, GuardFinding, LimitState, ObservedMandate } from "../policy/types.ts";
import type { Action, DecisionReason, Outcome } from "../state/types.ts";

/** Where a decision is sealed. */
export interface DecisionPlace {
  readonly workspaceId: string;
  readonly seq: number;
  /** RFC 3339 UTC. */
  readonly at: string;
  /** Root and size of the tree before the batch that the decision came with; base64. */
  readonly previousRoot: string;
  readonly previousSize: number;
}

// The entry is written member by member in the order of RFC 8785 instead of through canonicalJson: this runs for every
// decision, and most of the text is known beforehand. A test holds that both give the same bytes.

const member = (name: string, value: string | number | undefined): string =>
  value === undefined ? "" : `,"${name}":${JSON.stringify(value)}`;

function actionText(action: Action, { agentName, tool, toolName }: Outcome): string {
  const metadata = action.metadataText === "" ? "" : `,"metadata":${action.metadataText}`;
  const version = tool === undefined ? "" : `,"tool_digest":"${tool.digest}","tool_version":${tool.version}`;
  return `{"action_content":${JSON.stringify(action.actionContent)},"action_type":${JSON.stringify(action.actionType)},"agent_id":"${action.agentId}","agent_name":${JSON.stringify(agentName)}${metadata}${member("tool", toolName)}${version}}`;
}

function limitText(limit: LimitState): string {
  return `{"count":${limit.count},"group":${JSON.stringify(limit.group)},"limit":${limit.limit},"mandate_id":"${limit.mandateId}","members":${limit.members},"remaining":${limit.remaining},"rule":"${limit.rule}","scope":"${limit.scope}","source":"${limit.source}","window":${limit.window}}`;
}

function reasonText(reason: DecisionReason): string {
  const { argument, code, mandateId, mandateName, message, rule, wouldPass } = reason;
  const first = argument === undefined ? "" : `"argument":${JSON.stringify(argument)},`;
  return `{${first}"code":"${code}"${member("mandate_id", mandateId)}${member("mandate_name", mandateName)}${member("message", message)}${member("rule", rule)}${member("would_pass", wouldPass)}}`;
}

const reasonsText = (reasons: readonly DecisionReason[]): string => `[${reasons.map(reasonText).join(",")}]`;

/** The part of a mandate's text that is the same for every decision it is evaluated for. */
const mandateTexts = new WeakMap<CompiledMandate, string>();

function mandateText({ mandate, decision }: EvaluatedMandate): string {
  let text = mandateTexts.get(mandate);
  if (text === undefined) {
    text = `"digest":"${mandate.digest}","mandate_id":"${mandate.id}","version":${mandate.version}}`;
    mandateTexts.set(mandate, text);
  }
  return decision === undefined ? `{${text}` : `{"decision":"${decision}",${text}`;
}

function observedText({ mandate, decision, reasons }: ObservedMandate): string {
  return `{"mandate_id":"${mandate.id}","reasons":${reasonsText(reasons)},"version":${mandate.version},"would_decide":"${decision}"}`;
}

const leading = (name: string, value: number | undefined): string =>
  value === undefined ? "" : `"${name}":${JSON.stringify(value)},`;

function guardText({ answer, mandateId, rule, version }: GuardFinding): string {
  const verdict = answer.kind === "verdict" ? answer : undefined;
  const unavailable = answer.kind === "verdict" ? undefined : answer.cause;
  const violates = verdict === undefined ? "" : `,"violates":${verdict.violates}`;
  return (
    `{${leading("confidence", verdict?.confidence)}"latency_ms":${answer.latencyMs},"mandate_id":"${mandateId}"` +
    `${member("model", verdict?.model.toWellFormed())}${member("reason", verdict?.reason.toWellFormed())},"rule":"${rule}"` +
    `${member("unavailable", unavailable)},"version":${version}${violates}}`
  );
}

/** Written only where a semantic rule covers the action. */
const guardsText = ({ policy }: Outcome): string =>
  policy === undefined || policy.guards.length === 0 ? "" : `,"guards":[${policy.guards.map(guardText).join(",")}]`;

const authorityText = ({ authority }: Outcome): string =>
  authority.length === 0 ? "" : `,"authority":${JSON.stringify(authority)}`;

/** The RFC 8785 form of a decision's entry: what is hashed, stored and shown as its receipt. */
export function decisionBody(action: Action, outcome: Outcome, place: DecisionPlace): string {
  const { policy } = outcome;
  const limits = policy?.collectiveLimits.map(limitText).join(",") ?? "";
  const mandates = policy?.evaluated.map(mandateText).join(",") ?? "";
  const observed = policy?.observed.map(observedText).join(",") ?? "";
  return (
    `{"action":${actionText(action, outcome)}${member("action_digest", outcome.actionDigest)},"at":"${place.at}"` +
    `,"authorisation":{"collective_limits":[${limits}],"permissions":"${outcome.permissions}"}` +
    `${authorityText(outcome)}` +
    `,"decision":"${outcome.decision}","decision_id":"${action.decisionId}","decision_path":"${outcome.path}"` +
    `${member("escalation_id", outcome.escalationId)}${member("grant_id", action.grantId)}${guardsText(outcome)}` +
    `${member("intent_contract_id", action.intentContractId)},"key_id":"${action.keyId}","mandates":[${mandates}]` +
    `,"observed":[${observed}]${member("on_behalf_of", action.onBehalfOf)}${member("policy_name", outcome.policyName)}` +
    `${member("presented_escalation_id", action.escalationId)}` +
    `,"previous_root":"${place.previousRoot}","previous_size":${place.previousSize}` +
    `,"reasons":${reasonsText(outcome.reasons)},"seq":${place.seq}${member("session_id", action.sessionId)}` +
    `,"trust":{"after":${outcome.trustAfterTenths / 10},"before":${outcome.trustBeforeTenths / 10}},"type":"decision"` +
    `${member("used_escalation_id", outcome.usedEscalationId)},"workspace_id":${JSON.stringify(place.workspaceId)}}`
  );
}
