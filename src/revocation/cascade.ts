import type { AuthorityItem, RevokedIds, WorkspaceState } from "../ledger/index.ts";

/** What revoking an agent ends, by the keys of the certificate's counts; every list in the order of the ids. */
export interface Cascade {
  readonly ended: RevokedIds;
  readonly items: readonly AuthorityItem[];
}

const idsOf = (items: Iterable<AuthorityItem>): string[] => [...items].map(({ sealed }) => sealed.id).sort();

function withChildren({ authority }: WorkspaceState, grants: Iterable<AuthorityItem>): Map<string, AuthorityItem> {
  const found = new Map<string, AuthorityItem>();
  for (const grant of grants) {
    for (const item of found.has(grant.sealed.id) ? [] : authority.withChildren(grant.sealed.id))
      found.set(item.sealed.id, item);
  }
  return found;
}

/**
 * Everything that hangs on an agent: its sessions, credentials, grants given and received with all child grants, windows,
 * contracts, tokens and tool policies. A grant that hangs from a received one counts as received, whoever gave it;
 * each counts once.
 */
export function cascadeOf(state: WorkspaceState, agentId: string): Cascade {
  const { authority } = state;
  const received = withChildren(state, authority.ofAgent(agentId, "grant"));
  const given = withChildren(
    state,
    [...authority.givenBy(agentId)].filter(({ sealed }) => !received.has(sealed.id)),
  );
  for (const id of received.keys()) given.delete(id);
  const own = {
    sessions: [...authority.ofAgent(agentId, "session")],
    credentials: [...authority.ofAgent(agentId, "credential")],
    grants_given: [...given.values()],
    grants_received: [...received.values()],
    temporal_windows: [...authority.ofAgent(agentId, "temporal_window")],
    intent_contracts: [...authority.ofAgent(agentId, "intent_contract")],
    federation_tokens: [...authority.ofAgent(agentId, "federation_token")],
    mcp_tool_policies: [...authority.ofAgent(agentId, "mcp_tool_policy")],
  };
  return {
    ended: {
      sessions: idsOf(own.sessions),
      credentials: idsOf(own.credentials),
      grants_given: idsOf(own.grants_given),
      grants_received: idsOf(own.grants_received),
      temporal_windows: idsOf(own.temporal_windows),
      intent_contracts: idsOf(own.intent_contracts),
      federation_tokens: idsOf(own.federation_tokens),
      mcp_tool_policies: idsOf(own.mcp_tool_policies),
    },
    items: Object.values(own).flat(),
  };
}
