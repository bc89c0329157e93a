import { AuthorityService } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { verifyFederationToken } from "../authority/verify-token.ts";
import { type AuthorityCalls, type AuthorityServiceOptions, createAuthorityCalls } from "./authority-calls.ts";
import {
  credentialDraft,
  federationTokenDraft,
  grantDraft,
  intentContractDraft,
  mcpToolPolicyDraft,
  sessionDraft,
  temporalWindowDraft,
} from "./authority-drafts.ts";
import {
  credentialFrom,
  federationTokenFrom,
  grantFrom,
  intentContractFrom,
  mcpToolPolicyFrom,
  sessionFrom,
  temporalWindowFrom,
} from "./authority-messages.ts";
import { defineService, type ServiceDefinition, type ServiceFunctions } from "./service.ts";

export type { AuthorityServiceOptions } from "./authority-calls.ts";

type Functions = Partial<ServiceFunctions<typeof AuthorityService>>;

/** Creates the functions of AuthorityService. */
export function createAuthorityService(options: AuthorityServiceOptions): ServiceDefinition {
  const calls = createAuthorityCalls(options);
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
      return { session: sessionFrom(await calls.get("session", sessionId, context)) };
    },
    async endSession({ sessionId }, context) {
      return { session: sessionFrom(await calls.end("session", sessionId, context)) };
    },
  } satisfies Functions;
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
