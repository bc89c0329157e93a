import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  AuthorityStatus,
  type CredentialSchema,
  type FederationTokenSchema,
  type GrantSchema,
  type IntentContractSchema,
  type McpToolPolicySchema,
  type SessionSchema,
  type TemporalWindowSchema,
} from "../../gen/agentcontrol/v1/authority_service_pb.js";
import type { AuthorityView } from "../authority/view.ts";
import type { AuthorityStatus as AuthorityStatusName } from "../state/authority-status.ts";
import { decisionEnum, timestampFromMs } from "./words.ts";

const STATUSES: Readonly<Record<AuthorityStatusName, AuthorityStatus>> = {
  active: AuthorityStatus.ACTIVE,
  ended: AuthorityStatus.ENDED,
  expired: AuthorityStatus.EXPIRED,
  used_up: AuthorityStatus.USED_UP,
};

const timeFrom = (ms: number | null | undefined) => (ms === null || ms === undefined ? undefined : timestampFromMs(ms));

/** What every kind shows. */
function commonFrom({ sealed, status, createdAtMs, endedAtMs }: AuthorityView) {
  return {
    status: STATUSES[status],
    createdAt: timestampFromMs(createdAtMs),
    expiresAt: timeFrom(sealed.expires_at_ms),
    endedAt: timeFrom(endedAtMs),
  };
}

const agentIdOf = ({ sealed }: AuthorityView): string => sealed.agent_id ?? "";
const actionTypesOf = ({ sealed }: AuthorityView): string[] => [...(sealed.action_types ?? [])];

/** What every kind that counts its uses shows. */
function usesFrom({ sealed, uses }: AuthorityView) {
  return { maxUses: sealed.max_uses === null ? undefined : BigInt(sealed.max_uses), uses: BigInt(uses) };
}

/** The message of a session. */
export function sessionFrom(view: AuthorityView): MessageInitShape<typeof SessionSchema> {
  const { id, text = "" } = view.sealed;
  return { sessionId: id, agentId: agentIdOf(view), purpose: text, ...commonFrom(view) };
}

/** The message of a credential. */
export function credentialFrom(view: AuthorityView): MessageInitShape<typeof CredentialSchema> {
  const { id, text = "", prefix = "" } = view.sealed;
  return { credentialId: id, agentId: agentIdOf(view), name: text, prefix, ...commonFrom(view) };
}

/** The message of a grant. */
export function grantFrom(view: AuthorityView): MessageInitShape<typeof GrantSchema> {
  const { id, grantor_agent_id: grantorAgentId = "", parent_grant_id: parentGrantId } = view.sealed;
  return {
    ...{ grantId: id, grantorAgentId, granteeAgentId: agentIdOf(view), parentGrantId },
    ...{ actionTypes: actionTypesOf(view), ...usesFrom(view), ...commonFrom(view) },
  };
}

/** The message of a temporal window. */
export function temporalWindowFrom(view: AuthorityView): MessageInitShape<typeof TemporalWindowSchema> {
  const { id, text = "", starts_at_ms } = view.sealed;
  return {
    ...{ temporalWindowId: id, agentId: agentIdOf(view), actionTypes: actionTypesOf(view), reason: text },
    ...{ startsAt: timeFrom(starts_at_ms), ...usesFrom(view), ...commonFrom(view) },
  };
}

/** The message of an intent contract. */
export function intentContractFrom(view: AuthorityView): MessageInitShape<typeof IntentContractSchema> {
  const { id, text = "", tools = [] } = view.sealed;
  const { maxUses: maxActions, uses: actions } = usesFrom(view);
  return {
    ...{ intentContractId: id, agentId: agentIdOf(view), goal: text, allowedActionTypes: actionTypesOf(view) },
    ...{ allowedTools: [...tools], maxActions, actions, ...commonFrom(view) },
  };
}

/** The message of a federation token: its record, never the token itself. */
export function federationTokenFrom(view: AuthorityView): MessageInitShape<typeof FederationTokenSchema> {
  const { id, audience = "", max_trust_tenths } = view.sealed;
  return {
    ...{ federationTokenId: id, agentId: agentIdOf(view), audience, allowedActionTypes: actionTypesOf(view) },
    maxTrustLevel: max_trust_tenths === undefined ? undefined : max_trust_tenths / 10,
    ...{ ...usesFrom(view), ...commonFrom(view) },
  };
}

/** The message of an MCP tool policy. */
export function mcpToolPolicyFrom(view: AuthorityView): MessageInitShape<typeof McpToolPolicySchema> {
  const { id, agent_id, server = "", tool = "", decision = "block" } = view.sealed;
  return {
    ...{ mcpToolPolicyId: id, agentId: agent_id ?? undefined, server, tool },
    ...{ decision: decisionEnum(decision), ...commonFrom(view) },
  };
}
