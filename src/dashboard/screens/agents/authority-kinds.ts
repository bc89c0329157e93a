import type { Timestamp } from "@bufbuild/protobuf/wkt";
import {
  AuthorityService,
  type AuthorityStatus,
  type Grant,
  type ListCredentialsResponse,
  type ListFederationTokensResponse,
  type ListGrantsResponse,
  type ListIntentContractsResponse,
  type ListMcpToolPoliciesResponse,
  type ListSessionsResponse,
  type ListTemporalWindowsResponse,
  OutsideContract,
} from "../../../../gen/agentcontrol/v1/authority_service_pb.js";
import { Decision } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { type Pages, usePages } from "../../kit/lists/use-pages.ts";
import type { Call } from "../../kit/use-change.ts";

/** A piece of authority of any kind, as an item of the tree. */
export interface AuthorityItem {
  readonly kind: KindName;
  readonly id: string;
  /** Name for people; empty if it was never named. */
  readonly name: string;
  /** Scope: action types or tools. */
  readonly words: readonly string[];
  /** Remark in the dashboard's own words. */
  readonly note: string;
  readonly status: AuthorityStatus;
  readonly startsAt: Timestamp | undefined;
  readonly expiresAt: Timestamp | undefined;
  readonly uses: bigint | undefined;
  readonly maxUses: bigint | undefined;
  readonly grant: Grant | undefined;
}

/** Name of a kind of authority. */
export type KindName =
  | "sessions"
  | "credentials"
  | "grants"
  | "temporal_windows"
  | "intent_contracts"
  | "federation_tokens"
  | "mcp_tool_policies";

const REST = {
  name: "",
  words: [],
  note: "",
  startsAt: undefined,
  uses: undefined,
  maxUses: undefined,
  grant: undefined,
} as const;

const BY_AGENT = "made by the agent itself";

const sessionsOf = ({ sessions }: ListSessionsResponse): readonly AuthorityItem[] =>
  sessions.map(({ sessionId: id, purpose: name, byAgent, status, expiresAt }) => ({
    ...REST,
    kind: "sessions",
    id,
    name,
    note: byAgent ? BY_AGENT : "",
    status,
    expiresAt,
  }));

const credentialsOf = ({ credentials }: ListCredentialsResponse): readonly AuthorityItem[] =>
  credentials.map(({ credentialId: id, name, prefix, status, expiresAt }) => ({
    ...REST,
    kind: "credentials",
    id,
    name,
    note: `begins with ${prefix}`,
    status,
    expiresAt,
  }));

/** Makes the tree item of a grant. */
export const grantItem = (grant: Grant): AuthorityItem => {
  const { grantId: id, actionTypes: words, status, expiresAt, uses, maxUses } = grant;
  return { ...REST, kind: "grants", id, words, status, expiresAt, uses, maxUses, grant };
};
const grantsOf = ({ grants }: ListGrantsResponse): readonly AuthorityItem[] => grants.map(grantItem);

const windowsOf = ({ temporalWindows }: ListTemporalWindowsResponse): readonly AuthorityItem[] =>
  temporalWindows.map((each) => {
    const { temporalWindowId: id, reason: name, actionTypes: words, status, startsAt, expiresAt, uses, maxUses } = each;
    return { ...REST, kind: "temporal_windows", id, name, words, status, startsAt, expiresAt, uses, maxUses };
  });

/** Notes on contracts that do not block what is outside. */
const OUTSIDE: Readonly<Record<number, string>> = {
  [OutsideContract.ESCALATE]: "asks a person about any other action",
  [OutsideContract.RULES]: "leaves any other action to the mandates",
};

const contractsOf = ({ intentContracts }: ListIntentContractsResponse): readonly AuthorityItem[] =>
  intentContracts.map((each) => {
    const { intentContractId: id, goal: name, status, expiresAt, actions: uses, maxActions: maxUses } = each;
    const words = [
      ...each.allowedActionTypes,
      ...each.allowedTools.map((tool) => `tool ${tool}`),
      ...each.steps.map(({ tool, calls, maxCalls = "any number" }) => `step ${tool}, ${calls} of ${maxCalls}`),
    ];
    const note = [OUTSIDE[each.outside] ?? "", each.byAgent ? BY_AGENT : ""].filter((part) => part !== "").join("; ");
    return { ...REST, kind: "intent_contracts", id, name, words, note, status, expiresAt, uses, maxUses };
  });

const tokensOf = ({ federationTokens }: ListFederationTokensResponse): readonly AuthorityItem[] =>
  federationTokens.map((each) => {
    const { federationTokenId: id, audience: name, allowedActionTypes: words, maxTrustLevel } = each;
    const { status, expiresAt, uses, maxUses } = each;
    const note = maxTrustLevel === undefined ? "" : `trust counts as at most ${maxTrustLevel}`;
    return { ...REST, kind: "federation_tokens", id, name, words, note, status, expiresAt, uses, maxUses };
  });

const DECISIONS: Readonly<Record<number, string>> = {
  [Decision.ALLOW]: "allows",
  [Decision.BLOCK]: "blocks",
  [Decision.ESCALATE]: "escalates",
};
const policiesOf = ({ mcpToolPolicies }: ListMcpToolPoliciesResponse): readonly AuthorityItem[] =>
  mcpToolPolicies.map(({ mcpToolPolicyId: id, server, tool, decision, status, expiresAt }) => ({
    ...REST,
    kind: "mcp_tool_policies",
    id,
    name: `${server} / ${tool}`,
    note: DECISIONS[decision] ?? "",
    status,
    expiresAt,
  }));

const PAGE_SIZE = 100;
const { method } = AuthorityService;

/** Texts and calls of a kind of authority. */
interface Kind {
  readonly title: string;
  /** Its singular with the article. */
  readonly one: string;
  /** Hook that lists the authority of one agent. */
  readonly usePages: (agentId: string) => Pages<AuthorityItem>;
  readonly end: (call: Call, id: string) => Promise<unknown>;
}

/** Kinds of authority, in display order. */
export const KINDS: Readonly<Record<KindName, Kind>> = {
  sessions: {
    title: "Sessions",
    one: "a session",
    usePages: (agentId) => usePages(method.listSessions, { agentId, pageSize: PAGE_SIZE }, sessionsOf),
    end: (call, sessionId) => call(method.endSession, { sessionId }),
  },
  credentials: {
    title: "Credentials",
    one: "a credential",
    usePages: (agentId) => usePages(method.listCredentials, { agentId, pageSize: PAGE_SIZE }, credentialsOf),
    end: (call, credentialId) => call(method.endCredential, { credentialId }),
  },
  grants: {
    title: "Grants",
    one: "a grant",
    usePages: (agentId) => usePages(method.listGrants, { agentId, pageSize: PAGE_SIZE }, grantsOf),
    end: (call, grantId) => call(method.endGrant, { grantId }),
  },
  temporal_windows: {
    title: "Temporal windows",
    one: "a temporal window",
    usePages: (agentId) => usePages(method.listTemporalWindows, { agentId, pageSize: PAGE_SIZE }, windowsOf),
    end: (call, temporalWindowId) => call(method.endTemporalWindow, { temporalWindowId }),
  },
  intent_contracts: {
    title: "Intent contracts",
    one: "an intent contract",
    usePages: (agentId) => usePages(method.listIntentContracts, { agentId, pageSize: PAGE_SIZE }, contractsOf),
    end: (call, intentContractId) => call(method.endIntentContract, { intentContractId }),
  },
  federation_tokens: {
    title: "Federation tokens",
    one: "a federation token",
    usePages: (agentId) => usePages(method.listFederationTokens, { agentId, pageSize: PAGE_SIZE }, tokensOf),
    end: (call, federationTokenId) => call(method.endFederationToken, { federationTokenId }),
  },
  mcp_tool_policies: {
    title: "MCP tool policies of this agent",
    one: "an MCP tool policy",
    usePages: (agentId) => usePages(method.listMcpToolPolicies, { agentId, pageSize: PAGE_SIZE }, policiesOf),
    end: (call, mcpToolPolicyId) => call(method.endMcpToolPolicy, { mcpToolPolicyId }),
  },
};

/** Names of the kinds, in display order. */
export const KIND_NAMES = Object.keys(KINDS) as readonly KindName[];

/** Methods whose answers a change of authority affects. */
export const LISTS = [
  method.listSessions,
  method.listCredentials,
  method.listGrants,
  method.listTemporalWindows,
  method.listIntentContracts,
  method.listFederationTokens,
  method.listMcpToolPolicies,
];
