import type { MessageInitShape } from "@bufbuild/protobuf";
import { AgentStatus } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { MandateMode, MandateStatus } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, DecisionPath, type ReasonSchema, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { Decision as DecisionWord, ScopeWord } from "../policy/types.ts";
import type { MandateStatusWord } from "../registry/mandate-view.ts";
import type { AgentStatus as AgentStatusWord } from "../state/agents.ts";
import type { DecisionPath as DecisionPathWord, DecisionReason } from "../state/types.ts";

export { timestampFromMs } from "@bufbuild/protobuf/wkt";

const DECISIONS: Readonly<Record<DecisionWord, Decision>> = {
  allow: Decision.ALLOW,
  block: Decision.BLOCK,
  escalate: Decision.ESCALATE,
};

const PATHS: Readonly<Record<DecisionPathWord, DecisionPath>> = {
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
};

const SCOPES: Readonly<Record<ScopeWord, Scope>> = {
  agent: Scope.AGENT,
  department: Scope.DEPARTMENT,
  workspace: Scope.WORKSPACE,
};

const AGENT_STATUSES: Readonly<Record<AgentStatusWord, AgentStatus>> = {
  active: AgentStatus.ACTIVE,
  deactivated: AgentStatus.DEACTIVATED,
  revoked: AgentStatus.REVOKED,
};

const MODES: Readonly<Record<"enforce" | "observe", MandateMode>> = {
  enforce: MandateMode.ENFORCE,
  observe: MandateMode.OBSERVE,
};

const MANDATE_STATUSES: Readonly<Record<MandateStatusWord, MandateStatus>> = {
  active: MandateStatus.ACTIVE,
  stale: MandateStatus.STALE,
  archived: MandateStatus.ARCHIVED,
};

/** The word of an enum value; undefined for UNSPECIFIED and for a value that has none. */
function wordOf<W extends string>(enums: Readonly<Record<W, number>>, value: number): W | undefined {
  return (Object.keys(enums) as W[]).find((word) => enums[word] === value);
}

/** The enum value of a decision. */
export const decisionEnum = (word: DecisionWord): Decision => DECISIONS[word];
/** The word of a decision; undefined for UNSPECIFIED. */
export const decisionWord = (value: Decision): DecisionWord | undefined => wordOf(DECISIONS, value);
/** The enum value of the step that decided. */
export const decisionPathEnum = (word: DecisionPathWord): DecisionPath => PATHS[word];
/** The enum value of a scope. */
export const scopeEnum = (word: ScopeWord): Scope => SCOPES[word];
/** The word of a scope; undefined for UNSPECIFIED. */
export const scopeWord = (value: Scope): ScopeWord | undefined => wordOf(SCOPES, value);
/** The enum value of an agent's status. */
export const agentStatusEnum = (word: AgentStatusWord): AgentStatus => AGENT_STATUSES[word];
/** The word of an agent's status; undefined for UNSPECIFIED. */
export const agentStatusWord = (value: AgentStatus): AgentStatusWord | undefined => wordOf(AGENT_STATUSES, value);
/** The enum value of a mandate's mode. */
export const mandateModeEnum = (word: "enforce" | "observe"): MandateMode => MODES[word];
/** The word of a mandate's mode; undefined for UNSPECIFIED. */
export const mandateModeWord = (value: MandateMode): "enforce" | "observe" | undefined => wordOf(MODES, value);
/** The enum value of a mandate's status. */
export const mandateStatusEnum = (word: MandateStatusWord): MandateStatus => MANDATE_STATUSES[word];
/** The word of a mandate's status; undefined for UNSPECIFIED. */
export const mandateStatusWord = (value: MandateStatus): MandateStatusWord | undefined =>
  wordOf(MANDATE_STATUSES, value);

/** The message of one reason of a decision. */
export function reasonMessageFrom(reason: DecisionReason): MessageInitShape<typeof ReasonSchema> {
  return { ...reason };
}
