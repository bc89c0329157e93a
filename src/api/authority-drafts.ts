import { timestampMs } from "@bufbuild/protobuf/wkt";
import type {
  CreateCredentialRequest,
  CreateFederationTokenRequest,
  CreateGrantRequest,
  CreateIntentContractRequest,
  CreateMcpToolPolicyRequest,
  CreateSessionRequest,
  CreateTemporalWindowRequest,
} from "../../gen/agentcontrol/v1/authority_service_pb.js";
import type { AuthorityDraft } from "../authority/draft.ts";
import { invalidField } from "../errors.ts";
import { decisionWord } from "./words.ts";

const numberFrom = (value: bigint | undefined): number | undefined => (value === undefined ? undefined : Number(value));

/** A number of uses. Throws INVALID_FIELD for one that JSON cannot hold exactly: what is sealed is JSON. */
function usesFrom(field: string, value: bigint | undefined): number | undefined {
  const uses = numberFrom(value);
  if (uses === undefined || Number.isSafeInteger(uses)) return uses;
  throw invalidField(field, `must be at most ${Number.MAX_SAFE_INTEGER}`);
}

/** Trust in tenths. Throws INVALID_FIELD for a number between two steps of 0.1. */
function tenthsFrom(field: string, trust: number | undefined): number | undefined {
  if (trust === undefined) return undefined;
  const tenths = Math.round(trust * 10);
  if (tenths / 10 !== trust) throw invalidField(field, "must be a multiple of 0.1");
  return tenths;
}

/** What a request for a session asks for. */
export function sessionDraft({ agentId, purpose, ttlSeconds }: CreateSessionRequest): AuthorityDraft {
  return { kind: "session", agentId, text: purpose, lastsSeconds: numberFrom(ttlSeconds) };
}

/** What a request for a credential asks for. */
export function credentialDraft({ agentId, name, ttlSeconds }: CreateCredentialRequest): AuthorityDraft {
  return { kind: "credential", agentId, text: name, lastsSeconds: numberFrom(ttlSeconds) };
}

/** What a request for a grant asks for. Throws INVALID_FIELD. */
export function grantDraft(request: CreateGrantRequest): AuthorityDraft {
  const { granteeAgentId, grantorAgentId, actionTypes, parentGrantId, ttlSeconds, maxUses } = request;
  return {
    ...{ kind: "grant", agentId: granteeAgentId, grantorAgentId, actionTypes, parentGrantId },
    lastsSeconds: numberFrom(ttlSeconds),
    maxUses: usesFrom("max_uses", maxUses),
  };
}

/** What a request for a temporal window asks for. Throws INVALID_FIELD. */
export function temporalWindowDraft(request: CreateTemporalWindowRequest): AuthorityDraft {
  const { agentId, actionTypes, startsAt, durationSeconds, maxUses, reason } = request;
  return {
    ...{ kind: "temporal_window", agentId, actionTypes, text: reason },
    startsAtMs: startsAt === undefined ? undefined : timestampMs(startsAt),
    lastsSeconds: Number(durationSeconds),
    maxUses: usesFrom("max_uses", maxUses),
  };
}

/** What a request for an intent contract asks for. Throws INVALID_FIELD. */
export function intentContractDraft(request: CreateIntentContractRequest): AuthorityDraft {
  const { agentId, goal, allowedActionTypes, allowedTools, maxActions, durationSeconds } = request;
  return {
    ...{ kind: "intent_contract", agentId, text: goal, actionTypes: allowedActionTypes, tools: allowedTools },
    lastsSeconds: numberFrom(durationSeconds),
    maxUses: usesFrom("max_actions", maxActions),
  };
}

/** What a request for a federation token asks for. Throws INVALID_FIELD. */
export function federationTokenDraft(request: CreateFederationTokenRequest): AuthorityDraft {
  const { agentId, audience, allowedActionTypes, maxTrustLevel, ttlSeconds, maxUses } = request;
  return {
    ...{ kind: "federation_token", agentId, audience, actionTypes: allowedActionTypes },
    maxTrustTenths: tenthsFrom("max_trust_level", maxTrustLevel),
    lastsSeconds: Number(ttlSeconds),
    maxUses: usesFrom("max_uses", maxUses),
  };
}

/** What a request for an MCP tool policy asks for. */
export function mcpToolPolicyDraft(request: CreateMcpToolPolicyRequest): AuthorityDraft {
  const { agentId = null, server, tool, decision } = request;
  return { kind: "mcp_tool_policy", agentId, server, tool, decision: decisionWord(decision) };
}
