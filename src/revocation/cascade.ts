import type { AuthorityItem } from "../state/authority.ts";
import type { AuthorityKind, RevokedIds } from "../state/control-changes.ts";
import type { WorkspaceState } from "../state/workspace.ts";

/** What revoking an agent ends, by the keys of the certificate's counts; every list in the order of the ids. */
export interface Cascade {
  readonly ended: RevokedIds;
  readonly items: readonly AuthorityItem[];
}

const idsOf = (items: Iterable<AuthorityItem>): string[] => [...items].map(({ sealed }) => sealed.id).sort();

/** Whether an item has not expired: what expired is over already, and replicas forget it at different times. */
const isOpen =
  (nowMs: number) =>
  ({ sealed }: AuthorityItem): boolean =>
    sealed.expires_at_ms === null || sealed.expires_at_ms > nowMs;

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
 * contracts, tokens and tool policies, except what expired by `nowMs`. A grant that hangs from a received one counts as
 * received, whoever gave it; each counts once.
 */
export function cascadeOf(state: WorkspaceState, agentId: string, nowMs: number): Cascade {
  const { authority } = state;
  const open = (items: Iterable<AuthorityItem>): AuthorityItem[] => [...items].filter(isOpen(nowMs));
  const own = (kind: AuthorityKind): AuthorityItem[] => open(authority.ofAgent(agentId, kind));
  const received = withChildren(state, authority.ofAgent(agentId, "grant"));
  const given = withChildren(
    state,
    [...authority.givenBy(agentId)].filter(({ sealed }) => !received.has(sealed.id)),
  );
  for (const id of received.keys()) given.delete(id);
  const all = {
    sessions: own("session"),
    credentials: own("credential"),
    grants_given: open(given.values()),
    grants_received: open(received.values()),
    temporal_windows: own("temporal_window"),
    intent_contracts: own("intent_contract"),
    federation_tokens: own("federation_token"),
    mcp_tool_policies: own("mcp_tool_policy"),
  };
  return {
    ended: {
      sessions: idsOf(all.sessions),
      credentials: idsOf(all.credentials),
      grants_given: idsOf(all.grants_given),
      grants_received: idsOf(all.grants_received),
      temporal_windows: idsOf(all.temporal_windows),
      intent_contracts: idsOf(all.intent_contracts),
      federation_tokens: idsOf(all.federation_tokens),
      mcp_tool_policies: idsOf(all.mcp_tool_policies),
    },
    items: Object.values(all).flat(),
  };
}
