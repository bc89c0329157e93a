import type { Pool } from "pg";
import { catchUp } from "../../src/log/catch-up.ts";
import { completeWindows } from "../../src/state/counters/log-history.ts";
import { loadState } from "../../src/state/load.ts";
import { createWorkspaceState, type WorkspaceState } from "../../src/state/workspace.ts";
import { bytesFromFrontier, EMPTY_FRONTIER } from "../../src/tree/merkle.ts";

function countersOf(state: WorkspaceState, nowMs: number) {
  const specs = state.policies.counters();
  return [...state.agents.keys()].map((agentId) =>
    specs.map((spec) => ({ agentId, spec, reading: state.windows.read(spec, agentId, nowMs) })),
  );
}

function sequencesOf(state: WorkspaceState, nowMs: number) {
  const specs = state.policies.sequences();
  return [...state.agents.keys()].map((agentId) => specs.map((spec) => state.sequences.read(spec, agentId, nowMs)));
}

function authorityOf({ agents, authority }: WorkspaceState) {
  const kinds = ["session", "grant", "intent_contract"] as const;
  const items = [...agents.keys()].flatMap((agentId) => kinds.flatMap((kind) => [...authority.heldBy(agentId, kind)]));
  return items
    .map(({ sealed, uses, stepCalls }) => ({ id: sealed.id, uses, stepCalls }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}

/**
 * Everything in a state that a decision may depend on or a reader may see, as plain values. Completes the state's windows;
 * counters are read as of `nowMs`.
 */
export async function comparable(pool: Pool, state: WorkspaceState, nowMs: number) {
  await completeWindows(pool, state, { now: () => nowMs });
  const { agents, departments, policies } = state;
  return {
    settings: { ...state.settings },
    seq: state.seq,
    lastAtMs: state.lastAtMs,
    frontier: bytesFromFrontier(state.frontier).toString("hex"),
    agents: [...agents.values()].map(({ admitted, denied: _, ...agent }) => ({
      ...agent,
      isListed: admitted !== null,
    })),
    departments: [...departments.all.values()].map((department) => ({
      ...department,
      members: [...department.members].sort(),
    })),
    tools: [...policies.tools.values()]
      .map(({ sealed, registeredAtMs }) => ({ sealed, registeredAtMs }))
      .sort((a, b) => (a.sealed.name < b.sealed.name ? -1 : 1)),
    mandates: [...policies.mandates.values()].map(({ compiled, ...mandate }) => ({
      ...mandate,
      rules: compiled.rules.map(({ path, type, decision, stale }) => ({ path, type, decision, stale })),
      violations: compiled.violations,
    })),
    lists: [...state.lists.all.values()].sort((a, b) => (a.list.name < b.list.name ? -1 : 1)),
    packs: [...policies.packs.values()].sort((a, b) => (a.name < b.name ? -1 : 1)),
    pending: state.escalations.expired(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY),
    signingKeys: state.signingKeys.all().map(({ publicKey: _, ...key }) => key),
    authority: authorityOf(state),
    counters: countersOf(state, nowMs),
    sequences: sequencesOf(state, nowMs),
  };
}

/** The state as the tables and the trust snapshot give it. */
export const coldState = (pool: Pool, workspaceId = "default"): Promise<WorkspaceState> => loadState(pool, workspaceId);

/** The state as the entries alone give it, folded from the first. */
export async function foldedState(pool: Pool, workspaceId = "default"): Promise<WorkspaceState> {
  const { rows } = await pool.query<{ body: string }>(
    "select body from ledger_entry where workspace_id = $1 and seq = 0",
    [workspaceId],
  );
  const { workspace } = JSON.parse(rows[0]?.body ?? "{}") as { workspace: WorkspaceState["settings"] };
  const state = createWorkspaceState(workspace, { seq: 0, lastAtMs: 0, frontier: EMPTY_FRONTIER });
  await catchUp(pool, state, () => undefined);
  return state;
}
