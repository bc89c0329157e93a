import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ReceiptSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import {
  type ActionSchema,
  type CollectiveLimitSchema,
  type DecisionRecordSchema,
  LimitKind,
  type ReasonSchema,
} from "../../gen/agentcontrol/v1/resources_pb.js";
import { readFollowUps } from "../log/read-follow-ups.ts";
import { type DecisionBody, type DecisionReceipt, reasonFrom, type SealedReason } from "../log/receipts.ts";
import { argumentsFrom } from "../policy/names.ts";
import type { LimitState, ScopeWord } from "../policy/types.ts";
import type { ActorNames, NameOf } from "../registry/actor-names.ts";
import type { FollowUps } from "../state/outcomes.ts";
import type { DecisionReason } from "../state/types.ts";
import type { Reader } from "../store/transaction.ts";
import { digestOf } from "../tree/canonical.ts";
import { decisionMapping, decisionPathMapping, scopeMapping, valueKindMapping } from "./enum-mapping.ts";
import { actorsOf, claimMessageFrom, outcomeMessageFrom } from "./follow-ups.ts";

type SealedLimit = DecisionBody["authorisation"]["collective_limits"][number];

/** The metadata of an action, split into the tool's arguments and the rest. */
export interface ActionParts {
  /** The arguments that typed rules read; undefined when there are none. */
  readonly arguments: JsonObject | undefined;
  /** The metadata without `arguments` and `tool`; undefined when empty, or when the metadata are the arguments. */
  readonly metadata: JsonObject | undefined;
}

const unlessEmpty = (object: JsonObject | undefined): JsonObject | undefined =>
  object === undefined || Object.keys(object).length === 0 ? undefined : object;

/** Splits the metadata of an action the way typed rules read them. */
export function actionPartsFrom(metadata: JsonObject | undefined): ActionParts {
  const read = argumentsFrom(metadata);
  if (metadata === undefined || read === metadata) return { arguments: unlessEmpty(read), metadata: undefined };
  const { arguments: _arguments, tool: _tool, ...rest } = metadata;
  return { arguments: unlessEmpty(read), metadata: unlessEmpty(rest) };
}

/**
 * Converts a decision to the short record in lists and histories. `followUps`: entries about it; default: none is known. `nameOf`: names
 * of those who made them; default: none.
 */
export function decisionRecordFrom(
  receipt: DecisionReceipt,
  followUps: FollowUps = {},
  nameOf?: NameOf,
): MessageInitShape<typeof DecisionRecordSchema> {
  const { body } = receipt;
  const followed = { ...followUps, receipt };
  return {
    decisionId: body.decision_id,
    decision: decisionMapping.toProto[body.decision],
    decisionPath: decisionPathMapping.toProto[body.decision_path],
    decidedAt: timestampFromMs(Date.parse(body.at)),
    agentId: body.action.agent_id,
    actionType: body.action.action_type,
    trustScore: body.trust.capped ?? body.trust.before,
    policyName: body.policy_name,
    escalationId: body.escalation_id,
    seq: BigInt(body.seq),
    agentName: body.action.agent_name,
    tool: body.action.tool,
    reason: body.reasons[0]?.message ?? "",
    outcome: outcomeMessageFrom(followed, nameOf),
    claim: claimMessageFrom(followed, nameOf),
    outsideContract: isOutsideContract(body),
  };
}

/** Tests whether an action is outside a contract that covers it: one that refused it is sealed as the reason alone. */
const isOutsideContract = ({ contracts = [], reasons }: DecisionBody): boolean =>
  contracts.some(({ outside }) => outside === true) || reasons.some(({ code }) => code === "OUTSIDE_CONTRACT");

/** Converts decisions to records with what followed them, and the names of those who claimed and reported. */
export async function decisionRecordsFrom(
  reader: Reader,
  names: ActorNames,
  workspaceId: string,
  receipts: readonly DecisionReceipt[],
) {
  const allowed = receipts.filter(({ body }) => body.decision === "allow").map(({ body }) => body.decision_id);
  const followUps = await readFollowUps(reader, workspaceId, allowed);
  const followed = receipts.map((receipt) => ({ ...followUps.get(receipt.body.decision_id), receipt }));
  const nameOf = await names.find(workspaceId, followed.flatMap(actorsOf));
  return followed.map((each) => decisionRecordFrom(each.receipt, each, nameOf));
}

function actionFrom({ action }: DecisionBody): MessageInitShape<typeof ActionSchema> {
  return {
    actionType: action.action_type,
    actionContent: action.action_content,
    agentId: action.agent_id,
    tool: action.tool,
    toolVersion: action.tool_version,
    ...actionPartsFrom(action.metadata),
  };
}

/** Converts a reason. */
export function reasonMessageFrom({ resetsAtMs, decision, valueKind, ...reason }: DecisionReason) {
  return {
    ...reason,
    ...(resetsAtMs !== undefined && { resetsAt: timestampFromMs(resetsAtMs) }),
    ...(decision !== undefined && { decision: decisionMapping.toProto[decision] }),
    ...(valueKind !== undefined && { valueKind: valueKindMapping.toProto[valueKind] }),
  } satisfies MessageInitShape<typeof ReasonSchema>;
}

/** Converts a reason as it is sealed in an entry. */
export const reasonMessageFromSealed = (reason: SealedReason): MessageInitShape<typeof ReasonSchema> =>
  reasonMessageFrom(reasonFrom(reason));

function limitFrom(
  { mandate_id: mandateId, resets_at: resetsAt, ...limit }: SealedLimit,
  { decision_path, mandates }: DecisionBody,
): MessageInitShape<typeof CollectiveLimitSchema> {
  const resets = resetsAt === undefined ? {} : { resetsAtMs: Date.parse(resetsAt) };
  const mayExceed = decision_path === "approved" && mandates.some(({ mandate_id }) => mandate_id === mandateId);
  return limitMessageFrom({ ...limit, ...resets, mandateId, scope: limit.scope as ScopeWord }, mayExceed);
}

/** Converts a counter or budget as a decision saw it. `mayExceed`: a person approved the action, default false. */
export function limitMessageFrom(
  { budget, ...limit }: Omit<LimitState, "source"> & { readonly source: string },
  mayExceed = false,
) {
  return {
    kind: budget === undefined ? LimitKind.VELOCITY : LimitKind.BUDGET,
    ...(budget !== undefined && {
      budget: { ...budget, overByApproval: mayExceed && budget.total > budget.limit },
    }),
    scope: scopeMapping.toProto[limit.scope],
    group: limit.group,
    members: BigInt(limit.members),
    count: BigInt(limit.count),
    limit: BigInt(limit.limit),
    window: BigInt(limit.window),
    remaining: BigInt(limit.remaining),
    source: limit.source,
    mandateId: limit.mandateId,
    rule: limit.rule,
    ...(limit.resetsAtMs !== undefined && { resetsAt: timestampFromMs(limit.resetsAtMs) }),
  } satisfies MessageInitShape<typeof CollectiveLimitSchema>;
}

/**
 * Returns the sealed digest of the action, or computes it over all metadata: entries seal it only when an approval depends on
 * it.
 */
function actionDigestFrom({ action, action_digest, ...body }: DecisionBody): string {
  if (action_digest !== undefined) return action_digest;
  return digestOf({
    agent_id: action.agent_id,
    action_type: action.action_type,
    action_content: action.action_content,
    tool: action.tool ?? null,
    tool_version: action.tool_version ?? null,
    metadata: action.metadata ?? null,
    on_behalf_of: body.on_behalf_of ?? null,
    grant_id: body.grant_id ?? null,
    intent_contract_id: body.intent_contract_id ?? null,
  });
}

function mandatesFrom({ mandates, observed }: DecisionBody) {
  return {
    mandates: mandates.map(({ mandate_id: mandateId, version, digest, decision }) => ({
      mandateId,
      version,
      digest,
      decision: decisionMapping.toProto[decision],
    })),
    observed: observed.map(({ mandate_id: mandateId, version, would_decide, reasons }) => ({
      mandateId,
      version,
      wouldDecide: decisionMapping.toProto[would_decide],
      reasons: reasons.map(reasonMessageFromSealed),
    })),
  };
}

/** The intent contracts that cover the action. One that it names and that admits it without a plan is sealed among the authority alone. */
function contractsFrom({ contracts, intent_contract_id: named, authority = [] }: DecisionBody) {
  if (contracts === undefined) {
    return named !== undefined && authority.includes(named) ? [{ intentContractId: named, inside: true }] : [];
  }
  return contracts.map(({ intent_contract_id: intentContractId, outside, step, by_agent }) => {
    return { intentContractId, inside: outside !== true, step, byAgent: by_agent === true };
  });
}

/** The authority that the caller named and the authority that applied. */
function authorityFrom({ authority = [], ...body }: DecisionBody) {
  const isGrant = (id: string): boolean => id.startsWith("grt_");
  return {
    delegationChain: authority.filter(isGrant),
    authority: authority.filter((id) => !isGrant(id)),
    keyId: body.key_id,
    keyEnded: body.key_ended === true,
    replayOf: body.replay_of,
    editOf: body.edit_of,
    onBehalfOf: body.on_behalf_of ?? body.principal_id,
    sessionId: body.session_id,
    traceId: body.trace_id,
    grantId: body.grant_id,
    intentContractId: body.intent_contract_id,
    presentedEscalationId: body.presented_escalation_id,
  };
}

const guardsFrom = ({ guards = [] }: DecisionBody) =>
  guards.map(({ mandate_id: mandateId, latency_ms: latencyMs, ...rest }) => ({ mandateId, latencyMs, ...rest }));

/** Converts a receipt: everything that the decision was based on, with the exact text that is hashed. */
export function receiptMessageFrom(
  receipt: DecisionReceipt,
  toolDigest: string | undefined,
): MessageInitShape<typeof ReceiptSchema> {
  const { body, canonicalBody, leafHash } = receipt;
  return {
    index: BigInt(body.seq),
    leafHash,
    canonicalBody,
    action: actionFrom(body),
    actionDigest: actionDigestFrom(body),
    authorisation: {
      permissions: body.authorisation.permissions,
      collectiveLimits: body.authorisation.collective_limits.map((limit) => limitFrom(limit, body)),
    },
    trust: body.trust,
    reasons: body.reasons.map(reasonMessageFromSealed),
    ...mandatesFrom(body),
    guards: guardsFrom(body),
    lists: (body.lists ?? []).map(({ matched = [], ...list }) => ({ ...list, matched: [...matched] })),
    toolDigest,
    policyDigest: body.policy_digest,
    escalationId: body.used_escalation_id,
    ...authorityFrom(body),
    contracts: contractsFrom(body),
    previousRoot: Buffer.from(body.previous_root, "base64"),
    previousSize: BigInt(body.previous_size),
  };
}
