import { keysOfAgent } from "../registry/keys.ts";
import { type AuthorityItem, chainOf } from "../state/authority.ts";
import type { AuthorityKind, RevokedIds } from "../state/control-changes.ts";
import { ESCALATION_STATUS_NUMBERS } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type ApiKeyRow, EscalationEntity, type EscalationRow } from "../store/entities.ts";
import type { Transaction } from "../store/transaction.ts";

/** The authority that a revocation ends, by the keys of the certificate's counts. */
type RevokedAuthority = { readonly [K in keyof RevokedIds]: readonly AuthorityItem[] };

/** Everything that revoking an agent at some time ends. */
export interface RevocationPlan {
  /** Sorted by id. */
  readonly items: RevokedAuthority;
  /** API keys bound to the agent that have not expired, sorted by id. The certificate counts them as credentials. */
  readonly keys: readonly ApiKeyRow[];
  /** The agent's pending escalations, expired ones included. */
  readonly pending: readonly EscalationRow[];
}

const sorted = (items: readonly AuthorityItem[]): AuthorityItem[] =>
  items.toSorted((a, b) => (a.sealed.id < b.sealed.id ? -1 : 1));

/** Tests that something has not expired. Expired items are left out, since replicas forget them at different times. */
const isOpen = (expiresAtMs: number | null | undefined, nowMs: number): boolean =>
  (expiresAtMs ?? Number.POSITIVE_INFINITY) > nowMs;

function withChildren({ authority }: WorkspaceState, grants: Iterable<AuthorityItem>): Map<string, AuthorityItem> {
  const found = new Map<string, AuthorityItem>();
  for (const grant of grants) {
    for (const item of found.has(grant.sealed.id) ? [] : authority.withChildren(grant.sealed.id))
      found.set(item.sealed.id, item);
  }
  return found;
}

/**
 * Tests whether a grant that ends with an agent counts as given. What the agent neither gave nor received counts with the nearest
 * grant of its chain that the agent did.
 */
function isGiven(grant: AuthorityItem, agentId: string): boolean {
  const nearest = chainOf(grant).find(
    ({ sealed }) => sealed.grantor_agent_id === agentId || sealed.agent_id === agentId,
  );
  return nearest?.sealed.grantor_agent_id === agentId;
}

/**
 * Collects what depends on an agent: its sessions, credentials, grants given and received with all child grants, windows,
 * contracts, tokens and tool policies, unless expired. Each grant counts once.
 */
function authorityOf(state: WorkspaceState, agentId: string, nowMs: number): RevokedAuthority {
  const { authority } = state;
  const open = (items: Iterable<AuthorityItem>): AuthorityItem[] =>
    sorted([...items].filter(({ sealed }) => isOpen(sealed.expires_at_ms, nowMs)));
  const own = (kind: AuthorityKind): AuthorityItem[] => open(authority.heldBy(agentId, kind));
  const grants = withChildren(state, [...authority.heldBy(agentId, "grant"), ...authority.givenBy(agentId)]);
  const given = Map.groupBy(grants.values(), (grant) => isGiven(grant, agentId));
  return {
    sessions: own("session"),
    credentials: own("credential"),
    grants_given: open(given.get(true) ?? []),
    grants_received: open(given.get(false) ?? []),
    temporal_windows: own("temporal_window"),
    intent_contracts: own("intent_contract"),
    federation_tokens: own("federation_token"),
    mcp_tool_policies: own("mcp_tool_policy"),
  };
}

/** Collects what revoking an agent now ends. Reads the state before it waits for the database. */
export async function planRevocation(
  transaction: Transaction,
  state: WorkspaceState,
  agentId: string,
  nowMs: number,
): Promise<RevocationPlan> {
  const { workspaceId } = state;
  const items = authorityOf(state, agentId, nowMs);
  const keys = await keysOfAgent(transaction, workspaceId, agentId);
  const status = ESCALATION_STATUS_NUMBERS.pending;
  const pending = await transaction.find(EscalationEntity, { workspaceId, agentId, status });
  const open = keys.filter(({ expiresAtMs }) => isOpen(expiresAtMs, nowMs));
  return { items, keys: open.sort((a, b) => (a.keyId < b.keyId ? -1 : 1)), pending };
}

/** Returns the ids of the items in a plan, as the certificate lists them. */
export function endedBy({ items, keys }: RevocationPlan): RevokedIds {
  const ids = Object.entries(items).map(([kind, all]) => [kind, all.map(({ sealed }) => sealed.id)]);
  const ended = Object.fromEntries(ids) as RevokedIds;
  return { ...ended, credentials: [...ended.credentials, ...keys.map(({ keyId }) => keyId)].sort() };
}
