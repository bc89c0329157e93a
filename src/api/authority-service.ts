import { fromJson, type JsonObject, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import {
  AuthorityService,
  type CreateCredentialRequest,
  type CreateFederationTokenRequest,
  type CreateGrantRequest,
  type CreateIntentContractRequest,
  type CreateMcpToolPolicyRequest,
  type CreateSessionRequest,
  type CreateTemporalWindowRequest,
  type CredentialSchema,
  type FederationTokenSchema,
  type GrantSchema,
  type IntentContractSchema,
  type McpToolPolicySchema,
  type PlanStep,
  type PlanStepSchema,
  type SessionSchema,
  type TemporalWindowSchema,
} from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { ConditionsSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { type AuthorityView, endAuthority, getAuthority, listAuthority } from "../authority/existing-authority.ts";
import { verifyFederationToken } from "../authority/federation-token.ts";
import { authorityNotFound } from "../authority/kind-traits.ts";
import {
  type AuthorityDraft,
  createAuthority,
  createCredential,
  createFederationToken,
} from "../authority/new-authority.ts";
import type { SigningKeys } from "../authority/signing-key.ts";
import { invalidField } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { observationsOf } from "../observation/observed-numbers.ts";
import type { Authenticator } from "../registry/authenticator.ts";
import type { AuthorityKind, SealedPlanStep } from "../state/control-changes.ts";
import type { Database } from "../store/database.ts";
import { assertMayUseAgent } from "./bound-agent.ts";
import type { CallContext } from "./context.ts";
import { authorityStatusMapping, decisionMapping, outsideContractMapping } from "./enum-mapping.ts";
import { optionalNumber, optionalTimestamp, trustTenths } from "./field-values.ts";
import { type PageRequest, pageFrom } from "./paging.ts";
import { defineService, type ServiceDefinition, type ServiceFunctions } from "./service.ts";

/** Parts that AuthorityService needs. */
export interface AuthorityServiceOptions {
  readonly logs: WorkspaceLogs;
  readonly database: Database;
  /** Signs and verifies federation tokens. */
  readonly keys: SigningKeys;
  /** Forgets the keys of a workspace when one of its credentials or tokens ends. */
  readonly authenticator: Pick<Authenticator, "forget">;
}

type Functions = Partial<ServiceFunctions<typeof AuthorityService>>;

/** Creates the functions of AuthorityService. Each kind has its functions, then its draft and its message. */
export function createAuthorityService(options: AuthorityServiceOptions): ServiceDefinition {
  const calls = new AuthorityCalls(options);
  return defineService(AuthorityService, {
    ...sessionFunctions(calls),
    ...credentialFunctions(calls),
    ...grantFunctions(calls),
    ...temporalWindowFunctions(calls),
    ...intentContractFunctions(calls),
    ...federationTokenFunctions(calls),
    ...mcpToolPolicyFunctions(calls),
    async verifyFederationToken({ token, audience, actionType }, { caller }) {
      const question = { token, audience, actionType };
      const { fault, view } = await verifyFederationToken(options, caller.workspaceId, question);
      return {
        valid: fault === undefined,
        reason: fault,
        federationToken: view === undefined ? undefined : federationTokenFrom(view),
      };
    },
  });
}

/** The calls that every kind of authority has in common. */
class AuthorityCalls {
  readonly #options: AuthorityServiceOptions;

  constructor(options: AuthorityServiceOptions) {
    this.#options = options;
  }

  async create(draft: AuthorityDraft, { caller }: CallContext): Promise<AuthorityView> {
    if (draft.agentId !== null) assertMayUseAgent(caller, draft.agentId);
    const isByAgent = caller.role === Role.AGENT;
    return createAuthority(await this.#options.logs.of(caller.workspaceId), caller.keyId, { ...draft, isByAgent });
  }

  async createCredential(draft: AuthorityDraft, { caller }: CallContext) {
    return createCredential(await this.#options.logs.of(caller.workspaceId), caller.keyId, draft);
  }

  async createFederationToken(draft: AuthorityDraft, { caller }: CallContext) {
    const { logs, keys } = this.#options;
    return createFederationToken(await logs.of(caller.workspaceId), caller.keyId, draft, keys);
  }

  async get(kind: AuthorityKind, id: string, { caller }: CallContext): Promise<AuthorityView> {
    const view = await getAuthority(this.#options, caller.workspaceId, kind, id);
    if (caller.agentId !== null && caller.agentId !== view.sealed.agent_id) throw authorityNotFound(kind, id);
    return view;
  }

  /** Reads what a session observed, and which intent contract covers it. */
  async detailsOf(sessionId: string, { caller: { workspaceId } }: CallContext) {
    const { logs, database } = this.#options;
    const [observations, state] = await Promise.all([
      observationsOf(database.pool, workspaceId, sessionId),
      (async () => (await logs.of(workspaceId)).caughtUp())(),
    ]);
    return { observations, intentContractId: state.authority.contractOf(sessionId)?.sealed.id };
  }

  async list<Message>(
    kind: AuthorityKind,
    messageFrom: (view: AuthorityView) => Message,
    request: PageRequest & { readonly agentId: string; readonly parentGrantId?: string },
    { caller }: CallContext,
  ): Promise<{ items: Message[]; nextPageToken: string | undefined }> {
    const filter = { kind, agentId: request.agentId || undefined, parentGrantId: request.parentGrantId || undefined };
    const page = pageFrom(request, kind, filter.agentId, filter.parentGrantId);
    const { items, next } = await listAuthority(this.#options, caller.workspaceId, filter, page);
    return { items: items.map(messageFrom), nextPageToken: page.tokenAfter(next) };
  }

  async end(kind: AuthorityKind, id: string, { caller }: CallContext): Promise<AuthorityView> {
    const { logs, authenticator } = this.#options;
    const agent = caller.role === Role.AGENT ? caller : undefined;
    const view = await endAuthority(await logs.of(caller.workspaceId), caller.keyId, { kind, id }, agent);
    if (kind === "credential" || kind === "federation_token") authenticator.forget(caller.workspaceId);
    return view;
  }
}

function sessionFunctions(calls: AuthorityCalls) {
  return {
    async createSession(request, context) {
      return { session: sessionFrom(await calls.create(sessionDraft(request), context)) };
    },
    async listSessions(request, context) {
      const { items, nextPageToken } = await calls.list("session", sessionFrom, request, context);
      return { sessions: items, nextPageToken };
    },
    async getSession({ sessionId }, context) {
      const view = await calls.get("session", sessionId, context);
      const session = sessionFrom(view);
      // The values of an ended session are forgotten within a minute, and its contract ended with it.
      return view.status === "active" ? { session, ...(await calls.detailsOf(sessionId, context)) } : { session };
    },
    async endSession({ sessionId }, context) {
      return { session: sessionFrom(await calls.end("session", sessionId, context)) };
    },
  } satisfies Functions;
}

function sessionDraft({ agentId, purpose, ttlSeconds }: CreateSessionRequest): AuthorityDraft {
  return { kind: "session", agentId, text: purpose, lastsSeconds: optionalNumber(ttlSeconds) };
}

function sessionFrom(view: AuthorityView): MessageInitShape<typeof SessionSchema> {
  const { id, text = "" } = view.sealed;
  const byAgent = view.sealed.by_agent === true;
  return { sessionId: id, agentId: agentIdOf(view), purpose: text, byAgent, ...commonFields(view) };
}

function credentialFunctions(calls: AuthorityCalls) {
  return {
    async createCredential(request, context) {
      const { view, secret } = await calls.createCredential(credentialDraft(request), context);
      return { credential: credentialFrom(view), secret };
    },
    async listCredentials(request, context) {
      const { items, nextPageToken } = await calls.list("credential", credentialFrom, request, context);
      return { credentials: items, nextPageToken };
    },
    async getCredential({ credentialId }, context) {
      return { credential: credentialFrom(await calls.get("credential", credentialId, context)) };
    },
    async endCredential({ credentialId }, context) {
      return { credential: credentialFrom(await calls.end("credential", credentialId, context)) };
    },
  } satisfies Functions;
}

function credentialDraft({ agentId, name, ttlSeconds }: CreateCredentialRequest): AuthorityDraft {
  return { kind: "credential", agentId, text: name, lastsSeconds: optionalNumber(ttlSeconds) };
}

function credentialFrom(view: AuthorityView): MessageInitShape<typeof CredentialSchema> {
  const { id, text = "", prefix = "" } = view.sealed;
  return { credentialId: id, agentId: agentIdOf(view), name: text, prefix, ...commonFields(view) };
}

function grantFunctions(calls: AuthorityCalls) {
  return {
    async createGrant(request, context) {
      return { grant: grantFrom(await calls.create(grantDraft(request), context)) };
    },
    async listGrants(request, context) {
      const { items, nextPageToken } = await calls.list("grant", grantFrom, request, context);
      return { grants: items, nextPageToken };
    },
    async getGrant({ grantId }, context) {
      return { grant: grantFrom(await calls.get("grant", grantId, context)) };
    },
    async endGrant({ grantId }, context) {
      return { grant: grantFrom(await calls.end("grant", grantId, context)) };
    },
  } satisfies Functions;
}

function grantDraft(request: CreateGrantRequest): AuthorityDraft {
  const { granteeAgentId, grantorAgentId, actionTypes, parentGrantId, ttlSeconds, maxUses } = request;
  return {
    kind: "grant",
    agentId: granteeAgentId,
    grantorAgentId,
    actionTypes,
    parentGrantId,
    lastsSeconds: optionalNumber(ttlSeconds),
    maxUses: usesIn("max_uses", maxUses),
  };
}

function grantFrom(view: AuthorityView): MessageInitShape<typeof GrantSchema> {
  const { id, grantor_agent_id: grantorAgentId = "", parent_grant_id: parentGrantId } = view.sealed;
  return {
    grantId: id,
    grantorAgentId,
    granteeAgentId: agentIdOf(view),
    parentGrantId,
    actionTypes: actionTypesOf(view),
    ...useFields(view),
    ...commonFields(view),
  };
}

function temporalWindowFunctions(calls: AuthorityCalls) {
  return {
    async createTemporalWindow(request, context) {
      return { temporalWindow: temporalWindowFrom(await calls.create(temporalWindowDraft(request), context)) };
    },
    async listTemporalWindows(request, context) {
      const { items, nextPageToken } = await calls.list("temporal_window", temporalWindowFrom, request, context);
      return { temporalWindows: items, nextPageToken };
    },
    async getTemporalWindow({ temporalWindowId }, context) {
      return { temporalWindow: temporalWindowFrom(await calls.get("temporal_window", temporalWindowId, context)) };
    },
    async endTemporalWindow({ temporalWindowId }, context) {
      return { temporalWindow: temporalWindowFrom(await calls.end("temporal_window", temporalWindowId, context)) };
    },
  } satisfies Functions;
}

function temporalWindowDraft(request: CreateTemporalWindowRequest): AuthorityDraft {
  const { agentId, actionTypes, startsAt, durationSeconds, maxUses, reason } = request;
  return {
    kind: "temporal_window",
    agentId,
    actionTypes,
    text: reason,
    startsAtMs: startsAt === undefined ? undefined : timestampMs(startsAt),
    lastsSeconds: Number(durationSeconds),
    maxUses: usesIn("max_uses", maxUses),
  };
}

function temporalWindowFrom(view: AuthorityView): MessageInitShape<typeof TemporalWindowSchema> {
  const { id, text = "", starts_at_ms } = view.sealed;
  return {
    temporalWindowId: id,
    agentId: agentIdOf(view),
    actionTypes: actionTypesOf(view),
    reason: text,
    startsAt: optionalTimestamp(starts_at_ms),
    ...useFields(view),
    ...commonFields(view),
  };
}

function intentContractFunctions(calls: AuthorityCalls) {
  return {
    async createIntentContract(request, context) {
      return { intentContract: intentContractFrom(await calls.create(intentContractDraft(request), context)) };
    },
    async listIntentContracts(request, context) {
      const { items, nextPageToken } = await calls.list("intent_contract", intentContractFrom, request, context);
      return { intentContracts: items, nextPageToken };
    },
    async getIntentContract({ intentContractId }, context) {
      return { intentContract: intentContractFrom(await calls.get("intent_contract", intentContractId, context)) };
    },
    async endIntentContract({ intentContractId }, context) {
      return { intentContract: intentContractFrom(await calls.end("intent_contract", intentContractId, context)) };
    },
  } satisfies Functions;
}

function intentContractDraft(request: CreateIntentContractRequest): AuthorityDraft {
  const { agentId, goal, allowedActionTypes, allowedTools, maxActions, durationSeconds, steps, outside } = request;
  if (allowedActionTypes.length === 0 && steps.length === 0)
    throw invalidField("allowed_action_types", "must name at least one action type, unless the contract has `steps`");
  return {
    kind: "intent_contract",
    agentId,
    text: goal,
    actionTypes: allowedActionTypes.length === 0 ? undefined : allowedActionTypes,
    steps: steps.length === 0 ? undefined : steps.map(sealedStepFrom),
    sessionId: request.sessionId,
    outside: outsideContractMapping.fromProto(outside),
    tools: allowedTools,
    lastsSeconds: optionalNumber(durationSeconds),
    maxUses: usesIn("max_actions", maxActions),
  };
}

function intentContractFrom(view: AuthorityView): MessageInitShape<typeof IntentContractSchema> {
  const { id, text = "", tools = [], steps = [], session_id: sessionId, outside = "block" } = view.sealed;
  const { maxUses: maxActions, uses: actions } = useFields(view);
  return {
    intentContractId: id,
    agentId: agentIdOf(view),
    goal: text,
    allowedActionTypes: actionTypesOf(view),
    allowedTools: [...tools],
    maxActions,
    actions,
    steps: steps.map((step, index) => planStepFrom(step, view.stepCalls[index] ?? 0)),
    sessionId,
    outside: outsideContractMapping.toProto[outside],
    byAgent: view.sealed.by_agent === true,
    ...commonFields(view),
  };
}

/** Converts a step of a plan to the form that is sealed. */
export function sealedStepFrom({ tool, conditions, maxCalls }: PlanStep): SealedPlanStep {
  return {
    tool: tool.trim(),
    ...(conditions !== undefined && { conditions: toJson(ConditionsSchema, conditions) as JsonObject }),
    ...(maxCalls !== undefined && { max_calls: usesIn("max_calls", maxCalls) as number }),
  };
}

function planStepFrom(
  { tool, conditions, max_calls }: SealedPlanStep,
  calls: number,
): MessageInitShape<typeof PlanStepSchema> {
  return {
    tool,
    ...(conditions !== undefined && { conditions: fromJson(ConditionsSchema, conditions) }),
    ...(max_calls !== undefined && { maxCalls: BigInt(max_calls) }),
    calls: BigInt(calls),
  };
}

function federationTokenFunctions(calls: AuthorityCalls) {
  return {
    async createFederationToken(request, context) {
      const { view, secret } = await calls.createFederationToken(federationTokenDraft(request), context);
      return { federationToken: federationTokenFrom(view), token: secret };
    },
    async listFederationTokens(request, context) {
      const { items, nextPageToken } = await calls.list("federation_token", federationTokenFrom, request, context);
      return { federationTokens: items, nextPageToken };
    },
    async getFederationToken({ federationTokenId }, context) {
      return { federationToken: federationTokenFrom(await calls.get("federation_token", federationTokenId, context)) };
    },
    async endFederationToken({ federationTokenId }, context) {
      return { federationToken: federationTokenFrom(await calls.end("federation_token", federationTokenId, context)) };
    },
  } satisfies Functions;
}

function federationTokenDraft(request: CreateFederationTokenRequest): AuthorityDraft {
  const { agentId, audience, allowedActionTypes, maxTrustLevel, ttlSeconds, maxUses } = request;
  return {
    kind: "federation_token",
    agentId,
    audience,
    actionTypes: allowedActionTypes,
    maxTrustTenths: trustTenths("max_trust_level", maxTrustLevel),
    lastsSeconds: Number(ttlSeconds),
    maxUses: usesIn("max_uses", maxUses),
  };
}

/** The record of a federation token, never the token itself. */
function federationTokenFrom(view: AuthorityView): MessageInitShape<typeof FederationTokenSchema> {
  const { id, audience = "", max_trust_tenths } = view.sealed;
  return {
    federationTokenId: id,
    agentId: agentIdOf(view),
    audience,
    allowedActionTypes: actionTypesOf(view),
    maxTrustLevel: max_trust_tenths === undefined ? undefined : max_trust_tenths / 10,
    ...useFields(view),
    ...commonFields(view),
  };
}

function mcpToolPolicyFunctions(calls: AuthorityCalls) {
  return {
    async createMcpToolPolicy(request, context) {
      return { mcpToolPolicy: mcpToolPolicyFrom(await calls.create(mcpToolPolicyDraft(request), context)) };
    },
    async listMcpToolPolicies(request, context) {
      const { items, nextPageToken } = await calls.list("mcp_tool_policy", mcpToolPolicyFrom, request, context);
      return { mcpToolPolicies: items, nextPageToken };
    },
    async getMcpToolPolicy({ mcpToolPolicyId }, context) {
      return { mcpToolPolicy: mcpToolPolicyFrom(await calls.get("mcp_tool_policy", mcpToolPolicyId, context)) };
    },
    async endMcpToolPolicy({ mcpToolPolicyId }, context) {
      return { mcpToolPolicy: mcpToolPolicyFrom(await calls.end("mcp_tool_policy", mcpToolPolicyId, context)) };
    },
  } satisfies Functions;
}

function mcpToolPolicyDraft(request: CreateMcpToolPolicyRequest): AuthorityDraft {
  const { agentId = null, server, tool, decision } = request;
  return { kind: "mcp_tool_policy", agentId, server, tool, decision: decisionMapping.fromProto(decision) };
}

function mcpToolPolicyFrom(view: AuthorityView): MessageInitShape<typeof McpToolPolicySchema> {
  const { id, agent_id, server = "", tool = "", decision = "block" } = view.sealed;
  return {
    mcpToolPolicyId: id,
    agentId: agent_id ?? undefined,
    server,
    tool,
    decision: decisionMapping.toProto[decision],
    ...commonFields(view),
  };
}

/** Converts a number of uses. Throws INVALID_FIELD for one that JSON cannot hold exactly, because JSON is sealed. */
function usesIn(field: string, value: bigint | undefined): number | undefined {
  const uses = optionalNumber(value);
  if (uses === undefined || Number.isSafeInteger(uses)) return uses;
  throw invalidField(field, `must be at most ${Number.MAX_SAFE_INTEGER}`);
}

/** Fields that the messages of all kinds have. */
function commonFields({ sealed, status, createdAtMs, endedAtMs }: AuthorityView) {
  return {
    status: authorityStatusMapping.toProto[status],
    createdAt: timestampFromMs(createdAtMs),
    expiresAt: optionalTimestamp(sealed.expires_at_ms),
    endedAt: optionalTimestamp(endedAtMs),
  };
}

/** Fields that the messages of kinds with a limited number of uses have. */
function useFields({ sealed, uses }: AuthorityView) {
  return { maxUses: sealed.max_uses === null ? undefined : BigInt(sealed.max_uses), uses: BigInt(uses) };
}

const agentIdOf = ({ sealed }: AuthorityView): string => sealed.agent_id ?? "";
const actionTypesOf = ({ sealed }: AuthorityView): string[] => [...(sealed.action_types ?? [])];
