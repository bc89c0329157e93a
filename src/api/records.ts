import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import type { ReceiptSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type {
  ActionSchema,
  CollectiveLimitSchema,
  DecisionRecordSchema,
  ReasonSchema,
} from "../../gen/agentcontrol/v1/resources_pb.js";
import type { DecisionBody, DecisionReceipt, SealedReason } from "../log/receipts.ts";
import { argumentsFrom } from "../policy/action-source.ts";
import type { ScopeWord } from "../policy/types.ts";
import { digestOf } from "../tree/canonical.ts";
import { decisionEnum, decisionPathEnum, scopeEnum, timestampFromMs } from "./words.ts";

type SealedLimit = DecisionBody["authorisation"]["collective_limits"][number];

/** The arguments of an action, and what else its caller said of it. */
export interface ActionParts {
  /** What typed rules read; undefined when there is nothing to read. */
  readonly arguments: JsonObject | undefined;
  /** The metadata without `arguments` and `tool`; undefined when nothing is left, or the metadata are the arguments. */
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

/** A decision as lists and histories show it. */
export function decisionRecordFrom({ body }: DecisionReceipt): MessageInitShape<typeof DecisionRecordSchema> {
  return {
    decisionId: body.decision_id,
    decision: decisionEnum(body.decision),
    decisionPath: decisionPathEnum(body.decision_path),
    decidedAt: timestampFromMs(Date.parse(body.at)),
    agentId: body.action.agent_id,
    actionType: body.action.action_type,
    trustScore: body.trust.before,
    policyName: body.policy_name,
    escalationId: body.escalation_id,
    seq: BigInt(body.seq),
  };
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

/** The message of one reason as an entry seals it. */
export function reasonMessageFromSealed(reason: SealedReason): MessageInitShape<typeof ReasonSchema> {
  return {
    code: reason.code,
    message: reason.message,
    mandateId: reason.mandate_id,
    mandateName: reason.mandate_name,
    rule: reason.rule,
    argument: reason.argument,
    wouldPass: reason.would_pass,
  };
}

function limitFrom(limit: SealedLimit): MessageInitShape<typeof CollectiveLimitSchema> {
  return {
    scope: scopeEnum(limit.scope as ScopeWord),
    group: limit.group,
    members: BigInt(limit.members),
    count: BigInt(limit.count),
    limit: BigInt(limit.limit),
    window: BigInt(limit.window),
    remaining: BigInt(limit.remaining),
    source: limit.source,
    mandateId: limit.mandate_id,
    rule: limit.rule,
  };
}

/** Entries seal the digest only where an approval is concerned; elsewhere it follows from what they seal. */
function actionDigestFrom({ action, action_digest, on_behalf_of }: DecisionBody): string {
  if (action_digest !== undefined) return action_digest;
  return digestOf({
    agent_id: action.agent_id,
    action_type: action.action_type,
    action_content: action.action_content,
    tool: action.tool ?? null,
    tool_version: action.tool_version ?? null,
    arguments: argumentsFrom(action.metadata) ?? null,
    on_behalf_of: on_behalf_of ?? null,
  });
}

function mandatesFrom({ mandates, observed }: DecisionBody) {
  return {
    mandates: mandates.map(({ mandate_id: mandateId, version, digest, decision }) => ({
      mandateId,
      version,
      digest,
      decision: decision === undefined ? undefined : decisionEnum(decision),
    })),
    observed: observed.map(({ mandate_id: mandateId, version, would_decide, reasons }) => ({
      mandateId,
      version,
      wouldDecide: decisionEnum(would_decide),
      reasons: reasons.map(reasonMessageFromSealed),
    })),
  };
}

/** What the action was attempted under, as its caller named it and as it was found. */
function authorityFrom({ authority = [], ...body }: DecisionBody) {
  const isGrant = (id: string): boolean => id.startsWith("grt_");
  return {
    delegationChain: authority.filter(isGrant),
    authority: authority.filter((id) => !isGrant(id)),
    keyId: body.key_id,
    onBehalfOf: body.on_behalf_of,
    sessionId: body.session_id,
    grantId: body.grant_id,
    intentContractId: body.intent_contract_id,
    presentedEscalationId: body.presented_escalation_id,
  };
}

const guardsFrom = ({ guards = [] }: DecisionBody) =>
  guards.map(({ mandate_id: mandateId, latency_ms: latencyMs, ...rest }) => ({ mandateId, latencyMs, ...rest }));

/** Everything that a decision was based on, with the exact text that is hashed. */
export function receiptMessageFrom(receipt: DecisionReceipt): MessageInitShape<typeof ReceiptSchema> {
  const { body, canonicalBody, leafHash } = receipt;
  return {
    index: BigInt(body.seq),
    leafHash,
    canonicalBody,
    action: actionFrom(body),
    actionDigest: actionDigestFrom(body),
    authorisation: {
      permissions: body.authorisation.permissions,
      collectiveLimits: body.authorisation.collective_limits.map(limitFrom),
    },
    trust: body.trust,
    reasons: body.reasons.map(reasonMessageFromSealed),
    ...mandatesFrom(body),
    guards: guardsFrom(body),
    toolDigest: body.action.tool_digest,
    escalationId: body.used_escalation_id,
    ...authorityFrom(body),
    previousRoot: Buffer.from(body.previous_root, "base64"),
    previousSize: BigInt(body.previous_size),
  };
}
