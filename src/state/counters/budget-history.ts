import { findPageEnd, readAmounts, sumAmounts } from "../../store/sql/budget-amounts.ts";
import type { Reader } from "../../store/transaction.ts";
import type { WorkspaceState } from "../workspace.ts";
import type { Amounts, MissingAmounts, PotAmount, PotSum } from "./budget-pots.ts";

/** Decisions that one read returns one by one. */
const PAGE = 4_096;
/** Time after every entry. */
const NEVER = 8_640_000_000_000_000;

/** State of an amount; the numbers are stored and never change. */
export const AmountState = {
  /** Reserved by an allowed action whose outcome is open. */
  RESERVED: 1,
  /** Paid by an action that succeeded. */
  CAPTURED: 2,
} as const;

interface AmountRow {
  readonly at: number;
  readonly decisionSeq: number;
  readonly agentId: string;
  readonly principalId: string | null;
  readonly state: number;
  readonly millionths: number;
}

/** The stretch of a pot that is read, as it stands at a place of the log. */
interface Stretch {
  readonly reader: Reader;
  readonly workspaceId: string;
  readonly pot: string;
  /** Index to stop before for decisions. */
  readonly seq: number;
  /** Index to stop before for outcomes. */
  readonly outcomesBefore: number;
}

async function readFrom({ reader, ...stretch }: Stretch, from: number, before: number): Promise<readonly PotAmount[]> {
  const values = [stretch.workspaceId, stretch.pot, from, before, stretch.seq, stretch.outcomesBefore];
  const { rows } = await reader.query<AmountRow>({ ...readAmounts, values });
  return rows.map(({ at, agentId, principalId, state, millionths }) => ({
    at,
    agentId,
    principalId: principalId ?? undefined,
    reserved: state === AmountState.RESERVED ? millionths : 0,
    captured: state === AmountState.CAPTURED ? millionths : 0,
  }));
}

async function sumFrom({ reader, ...stretch }: Stretch, from: number, before: number): Promise<readonly PotSum[]> {
  if (from >= before) return [];
  const values = [stretch.workspaceId, stretch.pot, from, before, stretch.seq, stretch.outcomesBefore];
  type Row = Pick<AmountRow, "agentId" | "principalId" | "state"> & { readonly millionths: string };
  const { rows } = await reader.query<Row>({ ...sumAmounts, values });
  return rows.map(({ agentId, principalId, state, millionths }) => ({
    agentId,
    principalId: principalId ?? undefined,
    reserved: state === AmountState.RESERVED ? BigInt(millionths) : 0n,
    captured: state === AmountState.CAPTURED ? BigInt(millionths) : 0n,
  }));
}

/**
 * Reads the amounts that a window waits for as they stand at the end of the log that the state is at: `page` decisions (default 4,096)
 * one by one, the rest as sums, so that memory does not grow with the stretch. `outcomesBefore`: index to stop before for outcomes of these
 * decisions; default: that end.
 */
export async function loadAmounts(
  reader: Reader,
  { workspaceId, seq, lastAtMs }: Pick<WorkspaceState, "workspaceId" | "seq" | "lastAtMs">,
  { pot, from, before }: MissingAmounts,
  { page = PAGE, outcomesBefore = seq }: { readonly page?: number; readonly outcomesBefore?: number } = {},
): Promise<Amounts> {
  const stretch = { reader, workspaceId, pot, seq, outcomesBefore };
  const values = [workspaceId, pot, from, before ?? NEVER, seq, page - 1];
  const [end] = (await reader.query<{ atMs: number }>({ ...findPageEnd, values })).rows;
  // Further amounts may come at the time of the last entry.
  const stop = before ?? lastAtMs;
  const next = end === undefined ? undefined : end.atMs + 1;
  if (next === undefined || next >= stop) {
    return { oldest: await readFrom(stretch, from, before ?? NEVER), left: undefined, rest: [], newest: [] };
  }
  const oldest = await readFrom(stretch, from, next);
  const left = { from: next, before: stop };
  if (before !== undefined) return { oldest, left, rest: [], newest: [] };
  const [rest, newest] = [await sumFrom(stretch, next, stop), await readFrom(stretch, stop, NEVER)];
  return { oldest, left, rest, newest };
}
