import type { Pool } from "pg";
import { decisionFromNumber } from "../state/stored-enums.ts";
import { foldDecision, type WorkspaceState } from "../state/workspace.ts";
import { bytesFromFrontier, frontierFromBytes } from "../tree/merkle.ts";
import type { DecidedBatch, DecisionColumns } from "./batch.ts";
import { catchUp, usedIdsFrom } from "./catch-up.ts";
import type { LedgerEvent, LedgerListener } from "./events.ts";

const LINE = "\n";

/** A durable batch of decisions, as a process hears of it that follows the log without reading it. */
export interface AppendedBatch {
  /** Index of its first entry. */
  readonly seq: number;
  readonly atMs: number;
  /** Lists, so that each text is one of its own: what is cut out of a longer one keeps all of it in memory. */
  readonly columns: { readonly [column in keyof DecisionColumns]: readonly string[] };
  /** Of the log with the batch; the bytes in base64. */
  readonly frontier: string;
}

/** What others are told of a batch of this process. */
export function appendedBatchFrom({ before, atMs, columns, frontier }: DecidedBatch): AppendedBatch {
  const lists = {
    ids: columns.ids.split(LINE),
    agents: columns.agents.split(LINE),
    types: columns.types.split(LINE),
    decisions: columns.decisions.split(LINE),
    used: columns.used.split(LINE),
  };
  return { seq: before.seq, atMs, columns: lists, frontier: bytesFromFrontier(frontier).toString("base64") };
}

function foldAppended(state: WorkspaceState, { seq, atMs, columns, frontier }: AppendedBatch): LedgerEvent[] {
  const { ids, agents, types, decisions, used } = columns;
  // Before anything is folded: it throws when it does not fit the size.
  const end = frontierFromBytes(seq + ids.length, Buffer.from(frontier, "base64"));
  const events = ids.map((decisionId, index): LedgerEvent => {
    const decision = decisionFromNumber(Number(decisions[index]));
    const agentId = agents[index] ?? "";
    const usedIds = usedIdsFrom(used[index] ?? "");
    const folded = { agentId, actionType: types[index] ?? "", decision, atMs, decisionId, usedIds };
    foldDecision(state, folded, seq + index + 1);
    return { kind: "decision", seq: seq + index, atMs, decisionId, agentId, decision };
  });
  Object.assign(state, { seq: end.size, lastAtMs: atMs, frontier: end });
  state.windows.settle(state.seq);
  return events;
}

/**
 * Folds a batch that another process appended, and announces it, after what it has to be read behind. A batch that the
 * state holds already, or a part of, changes nothing. MUST run while nothing tentative is in the state.
 */
export async function followBatch(
  client: Pool,
  state: WorkspaceState,
  batch: AppendedBatch,
  announce: LedgerListener,
): Promise<void> {
  if (batch.seq > state.seq) await catchUp(client, state, announce);
  if (batch.seq === state.seq) announce(foldAppended(state, batch));
}
