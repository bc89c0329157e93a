import { OutcomeTracking, PromptSource } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { AgentOrder, AgentRequirement, AgentStatus } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { AuthorityStatus, OutsideContract } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { ObservationSource } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ListKind } from "../../gen/agentcontrol/v1/list_service_pb.js";
import { LimitOrder, MandateMode, MandateStatus } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import {
  Decision,
  DecisionPath,
  OutcomeStatus,
  ProposalKind,
  ProposalStatus,
  Scope,
  ValueKind,
} from "../../gen/agentcontrol/v1/resources_pb.js";
import type { LimitOrder as LimitOrderName } from "../dryrun/limits.ts";
import type { ListKind as ListKindName } from "../policy/lists/kinds.ts";
import type { Decision as DecisionName, ScopeWord as ScopeName } from "../policy/types.ts";
import type { AgentOrder as AgentOrderName } from "../registry/agents.ts";
import type { MandateStatusWord as MandateStatusName } from "../registry/mandates.ts";
import type { ProposalStatusWord } from "../registry/proposals.ts";
import type { AgentStatus as AgentStatusName } from "../state/agents.ts";
import type { AuthorityStatus as AuthorityStatusName } from "../state/authority-status.ts";
import type {
  AgentRequirement as AgentRequirementName,
  OutcomeTracking as OutcomeTrackingName,
  OutsideContract as OutsideContractName,
  PromptSource as PromptSourceName,
  ProposedChange,
} from "../state/control-changes.ts";
import type { OutcomeStatus as OutcomeStatusName } from "../state/outcomes.ts";
import type { DecisionPath as DecisionPathName, DecisionReason } from "../state/types.ts";

/** Maps the lower-case names that domain code uses to the values of one proto enum, and back. */
export interface EnumMapping<Name extends string, Value extends number> {
  readonly toProto: Readonly<Record<Name, Value>>;
  /** Returns undefined for UNSPECIFIED and for unknown values. */
  fromProto(value: Value): Name | undefined;
}

function createMapping<Name extends string, Value extends number>(
  valueByName: Readonly<Record<Name, Value>>,
): EnumMapping<Name, Value> {
  const names = Object.keys(valueByName) as Name[];
  const nameByValue = new Map(names.map((name) => [valueByName[name], name]));
  return {
    toProto: valueByName,
    fromProto: (value) => nameByValue.get(value),
  };
}

/** Decisions on an action. */
export const decisionMapping = createMapping<DecisionName, Decision>({
  allow: Decision.ALLOW,
  block: Decision.BLOCK,
  escalate: Decision.ESCALATE,
});

/** Kinds of values that provenance rules look for. */
export const valueKindMapping = createMapping<NonNullable<DecisionReason["valueKind"]>, ValueKind>({
  destination: ValueKind.DESTINATION,
  credential: ValueKind.CREDENTIAL,
  host: ValueKind.HOST,
  resource: ValueKind.RESOURCE,
  path: ValueKind.PATH,
  number: ValueKind.NUMBER,
  text: ValueKind.TEXT,
});

/** Steps that can settle a decision. */
export const decisionPathMapping = createMapping<DecisionPathName, DecisionPath>({
  revoked: DecisionPath.REVOKED,
  permissions: DecisionPath.PERMISSIONS,
  policy: DecisionPath.POLICY,
  approved: DecisionPath.APPROVED,
  default: DecisionPath.DEFAULT,
  delegation: DecisionPath.DELEGATION,
  session: DecisionPath.SESSION,
  intent_contract: DecisionPath.INTENT_CONTRACT,
  credential: DecisionPath.CREDENTIAL,
  mcp_tool_policy: DecisionPath.MCP_TOOL_POLICY,
  unknown_tool: DecisionPath.UNKNOWN_TOOL,
  mcp_definition: DecisionPath.MCP_DEFINITION,
  halted: DecisionPath.HALTED,
});

/** Decisions on an action that an intent contract covers and does not admit. */
export const outsideContractMapping = createMapping<OutsideContractName, OutsideContract>({
  block: OutsideContract.BLOCK,
  escalate: OutsideContract.ESCALATE,
  rules: OutsideContract.RULES,
});

/** Kinds of content that a session observes. */
export const observationSourceMapping = createMapping<"prompt" | "result", ObservationSource>({
  prompt: ObservationSource.PROMPT,
  result: ObservationSource.RESULT,
});

/** Statuses of an action's outcome. */
export const outcomeStatusMapping = createMapping<OutcomeStatusName, OutcomeStatus>({
  succeeded: OutcomeStatus.SUCCEEDED,
  failed: OutcomeStatus.FAILED,
  cancelled: OutcomeStatus.CANCELLED,
  pending: OutcomeStatus.PENDING,
  unknown: OutcomeStatus.UNKNOWN,
});

/** Callers who may say what an agent was asked. */
export const promptSourceMapping = createMapping<PromptSourceName, PromptSource>({
  agent: PromptSource.AGENT,
  operator: PromptSource.OPERATOR,
});

/** Allowed actions whose outcomes are tracked. */
export const outcomeTrackingMapping = createMapping<OutcomeTrackingName, OutcomeTracking>({
  tracked: OutcomeTracking.TRACKED,
  all: OutcomeTracking.ALL,
});

/** Orders of limits. */
export const limitOrderMapping = createMapping<LimitOrderName, LimitOrder>({
  rule: LimitOrder.RULE,
  fill: LimitOrder.FILL,
});

/** Scopes of mandates and of counting rules. */
export const scopeMapping = createMapping<ScopeName, Scope>({
  agent: Scope.AGENT,
  department: Scope.DEPARTMENT,
  workspace: Scope.WORKSPACE,
});

/** Statuses of an agent. */
export const agentStatusMapping = createMapping<AgentStatusName, AgentStatus>({
  active: AgentStatus.ACTIVE,
  deactivated: AgentStatus.DEACTIVATED,
  revoked: AgentStatus.REVOKED,
});

/** Things that every action of an agent must have. */
export const agentRequirementMapping = createMapping<AgentRequirementName, AgentRequirement>({
  session: AgentRequirement.SESSION,
  prompt: AgentRequirement.PROMPT,
  contract: AgentRequirement.CONTRACT,
});

/** Orders of a list of agents. */
export const agentOrderMapping = createMapping<AgentOrderName, AgentOrder>({
  newest: AgentOrder.NEWEST,
  name: AgentOrder.NAME,
  lowest_trust: AgentOrder.LOWEST_TRUST,
  highest_trust: AgentOrder.HIGHEST_TRUST,
});

/** Statuses of a session, credential, grant or another kind of authority. */
export const authorityStatusMapping = createMapping<AuthorityStatusName, AuthorityStatus>({
  active: AuthorityStatus.ACTIVE,
  ended: AuthorityStatus.ENDED,
  expired: AuthorityStatus.EXPIRED,
  used_up: AuthorityStatus.USED_UP,
});

/** Modes of a mandate. */
export const mandateModeMapping = createMapping<"enforce" | "observe", MandateMode>({
  enforce: MandateMode.ENFORCE,
  observe: MandateMode.OBSERVE,
});

/** Kinds of lists. */
export const listKindMapping = createMapping<ListKindName, ListKind>({
  text: ListKind.TEXT,
  host: ListKind.HOST,
  email_domain: ListKind.EMAIL_DOMAIN,
});

/** Statuses of a mandate. */
export const mandateStatusMapping = createMapping<MandateStatusName, MandateStatus>({
  active: MandateStatus.ACTIVE,
  stale: MandateStatus.STALE,
  archived: MandateStatus.ARCHIVED,
});

/** Kinds of proposed changes. */
export const proposalKindMapping = createMapping<ProposedChange["kind"], ProposalKind>({
  create_mandate: ProposalKind.CREATE_MANDATE,
  update_mandate: ProposalKind.UPDATE_MANDATE,
  restore_mandate: ProposalKind.RESTORE_MANDATE,
  archive_mandate: ProposalKind.ARCHIVE_MANDATE,
  apply_pack: ProposalKind.APPLY_PACK,
  put_list: ProposalKind.PUT_LIST,
  add_list_values: ProposalKind.ADD_LIST_VALUES,
  remove_list_values: ProposalKind.REMOVE_LIST_VALUES,
  delete_list: ProposalKind.DELETE_LIST,
  update_workspace: ProposalKind.UPDATE_WORKSPACE,
});

/** Statuses of proposals. */
export const proposalStatusMapping = createMapping<ProposalStatusWord, ProposalStatus>({
  pending: ProposalStatus.PENDING,
  accepted: ProposalStatus.ACCEPTED,
  rejected: ProposalStatus.REJECTED,
  expired: ProposalStatus.EXPIRED,
  stale: ProposalStatus.STALE,
});
