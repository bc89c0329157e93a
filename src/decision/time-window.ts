import type { AgentState } from "../state/agents.ts";
import type { AuthorityItem } from "../state/authority.ts";
import { isInForce } from "../state/authority-status.ts";
import type { WorkspaceState } from "../state/workspace.ts";

/** Finds the open temporal window of an agent that admits an action type: the one that closes first, ties by id. */
export function openWindow(
  { authority }: WorkspaceState,
  { agentId }: AgentState,
  normalisedType: string,
  nowMs: number,
): AuthorityItem | undefined {
  let first: AuthorityItem | undefined;
  const endOf = ({ sealed }: AuthorityItem): number => sealed.expires_at_ms ?? Number.POSITIVE_INFINITY;
  for (const window of authority.heldBy(agentId, "temporal_window")) {
    if (!isInForce(window, nowMs) || !window.admits?.matches(normalisedType)) continue;
    const isEarlier = first === undefined || endOf(window) < endOf(first);
    const isTie = first !== undefined && endOf(window) === endOf(first) && window.sealed.id < first.sealed.id;
    if (isEarlier || isTie) first = window;
  }
  return first;
}
