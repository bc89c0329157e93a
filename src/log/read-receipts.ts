import { ControlPlaneError } from "../errors.ts";
import { DECISION_NUMBERS, EntryKind } from "../state/types.ts";
import { stored } from "../store/database.ts";
import { readEntriesById, readToolVersionDigest } from "../store/sql/read-entries.ts";
import type { Reader } from "../store/transaction.ts";
import { leafHash } from "../tree/merkle.ts";
import { entryDamaged } from "./head.ts";
import { type DecisionBody, type DecisionReceipt, receiptFrom } from "./receipts.ts";

/** An entry as the database holds it. */
interface StoredEntry {
  readonly workspaceId: string;
  readonly seq: number;
  readonly leafHash: Uint8Array;
  readonly body: string;
}

/** Columns that repeat what an entry seals, by name. */
type Columns = Readonly<Record<string, unknown>>;

/**
 * Parses the receipt of a decision after comparing it with its hash and its row. `columns`: what the row says beside its place;
 * `sealedIn` returns what the text says of the same. `metadata` is for the fault. Throws ENTRY_DAMAGED.
 */
export function intactReceipt(
  { workspaceId, seq, leafHash: leaf, body: text }: StoredEntry,
  columns: Columns,
  sealedIn: (body: DecisionBody) => Columns,
  metadata: Readonly<Record<string, string>>,
): DecisionReceipt {
  const damaged = (what: string): ControlPlaneError => entryDamaged(workspaceId, seq, what, metadata);
  if (!leafHash(text).equals(leaf)) throw damaged("does not hash to its leaf");
  const { receipt, sealed } = parsed(text, leaf, sealedIn) ?? {};
  if (receipt === undefined) throw damaged("seals no decision");
  const row: Columns = { workspace_id: workspaceId, seq, ...columns };
  const changed = Object.keys(row).find((name) => row[name] !== sealed?.[name]);
  if (changed !== undefined) throw damaged(`seals another \`${changed}\` than its row has`);
  return receipt;
}

/** Returns undefined for a text that is not of a decision. Throws ENTRY_DAMAGED for a version that is not known. */
function parsed(text: string, leaf: Uint8Array, sealedIn: (body: DecisionBody) => Columns) {
  try {
    const receipt = receiptFrom(text, leaf);
    const { workspace_id, seq } = receipt.body;
    return { receipt, sealed: { workspace_id, seq, ...sealedIn(receipt.body) } as Columns };
  } catch (error) {
    if (error instanceof ControlPlaneError) throw error;
    return undefined;
  }
}

/** The row of a decision, which may have been changed since it was sealed. */
export interface DecisionRow extends Omit<StoredEntry, "workspaceId"> {
  readonly entryId: string;
  readonly kind: number;
  readonly atMs: number;
  readonly agentId: string;
  readonly decision: number;
}

/** Reads the rows of decisions by id. The map lacks ids without a decision. */
export async function readDecisionRows(
  reader: Reader,
  workspaceId: string,
  decisionIds: readonly string[],
): Promise<Map<string, DecisionRow>> {
  const { rows } = await stored(reader.query<DecisionRow>({ ...readEntriesById, values: [workspaceId, decisionIds] }));
  const decisions = rows.filter(({ entryId }) => entryId.startsWith("dec_"));
  return new Map(decisions.map((row) => [row.entryId, row]));
}

/** Returns the receipt of a decision's row. Throws ENTRY_DAMAGED if the row is not as it was sealed. */
export function receiptFromRow(workspaceId: string, row: DecisionRow): DecisionReceipt {
  const { entryId, kind, atMs, agentId, decision } = row;
  const isChange = kind === EntryKind.CHANGE;
  return intactReceipt(
    { workspaceId, ...row },
    { entry_id: entryId, kind: isChange, at_ms: atMs, agent_id: agentId, decision },
    (body) => ({
      entry_id: body.decision_id,
      kind: body.type !== "decision",
      at_ms: Date.parse(body.at),
      agent_id: body.action.agent_id,
      decision: DECISION_NUMBERS[body.decision],
    }),
    { decision_id: entryId },
  );
}

/** Reads the receipt of a decision. Undefined for an unknown one. Rejects with ENTRY_DAMAGED if its row is not as it was sealed. */
export async function readReceipt(
  reader: Reader,
  workspaceId: string,
  decisionId: string,
): Promise<DecisionReceipt | undefined> {
  const row = (await readDecisionRows(reader, workspaceId, [decisionId])).get(decisionId);
  return row === undefined ? undefined : receiptFromRow(workspaceId, row);
}

/** Reads the digest of the tool version that a decision used: entries hold only its number. Undefined without a tool. */
export async function readToolDigest(
  reader: Reader,
  workspaceId: string,
  { body: { action } }: DecisionReceipt,
): Promise<string | undefined> {
  if (action.tool_version === undefined) return undefined;
  const values = [workspaceId, action.tool, action.tool_version];
  const { rows } = await stored(reader.query<{ digest: string }>({ ...readToolVersionDigest, values }));
  return rows[0]?.digest;
}
