import { ControlPlaneError, ErrorReason, notFound } from "../errors.ts";
import { type FollowUps, followUpId, type SealedClaim, type SealedOutcome } from "../state/outcomes.ts";
import { stored } from "../store/database.ts";
import { readEntriesById, readFollowUpRows } from "../store/sql/read-entries.ts";
import type { Reader } from "../store/transaction.ts";
import { leafHash } from "../tree/merkle.ts";
import type { FollowedDecision } from "./follow-up.ts";
import { entryDamaged } from "./head.ts";
import { type DecisionRow, receiptFromRow } from "./read-receipts.ts";

/** Returns the sealed entry of a row. Throws ENTRY_DAMAGED if the row is not as it was sealed. */
function sealedFromRow(workspaceId: string, { seq, leafHash: leaf, body }: DecisionRow): SealedClaim | SealedOutcome {
  if (!leafHash(body).equals(leaf)) throw entryDamaged(workspaceId, seq, "does not hash to its leaf");
  return JSON.parse(body) as SealedClaim | SealedOutcome;
}

const MEMBERS = ["claim", "outcome", "settlement"] as const;

/**
 * Reads decisions with all entries about them. The function that it returns gives each by its id, or the fault of one that is unknown
 * (DECISION_NOT_FOUND) or not as it was sealed (ENTRY_DAMAGED).
 */
export async function readFollowed(
  reader: Reader,
  workspaceId: string,
  decisionIds: readonly string[],
): Promise<(decisionId: string) => FollowedDecision | ControlPlaneError> {
  const ids = decisionIds.flatMap((id) => [id, ...MEMBERS.map((member) => followUpId[member](id))]);
  const { rows } = await stored(reader.query<DecisionRow>({ ...readEntriesById, values: [workspaceId, ids] }));
  const byId = new Map(rows.map((row) => [row.entryId, row]));
  return (decisionId) => {
    const row = byId.get(decisionId);
    if (row === undefined || !decisionId.startsWith("dec_")) {
      return notFound(ErrorReason.DECISION_NOT_FOUND, "decision", { decision_id: decisionId });
    }
    try {
      return { receipt: receiptFromRow(workspaceId, row), ...followUpsIn(workspaceId, decisionId, byId) };
    } catch (error) {
      if (error instanceof ControlPlaneError) return error;
      throw error;
    }
  };
}

/**
 * Reads the entries about some decisions, by decision. The map lacks decisions without any. Rejects with ENTRY_DAMAGED if one is not as it
 * was sealed.
 */
export async function readFollowUps(
  reader: Reader,
  workspaceId: string,
  decisionIds: readonly string[],
): Promise<ReadonlyMap<string, FollowUps>> {
  if (decisionIds.length === 0) return new Map();
  const { rows } = await stored(reader.query<DecisionRow>({ ...readFollowUpRows, values: [workspaceId, decisionIds] }));
  const byId = new Map(rows.map((row) => [row.entryId, row]));
  return new Map(decisionIds.map((id) => [id, followUpsIn(workspaceId, id, byId)]));
}

function followUpsIn(workspaceId: string, decisionId: string, byId: ReadonlyMap<string, DecisionRow>): FollowUps {
  const found = MEMBERS.flatMap((member) => {
    const row = byId.get(followUpId[member](decisionId));
    return row === undefined ? [] : [[member, sealedFromRow(workspaceId, row)] as const];
  });
  return Object.fromEntries(found) as FollowUps;
}
