import { hex } from "../verify/bytes.ts";
import type { SignedCheckpoint } from "../verify/checkpoint.ts";
import { verifyDecision } from "../verify/decision.ts";
import { type JsonRecord, listAt, textAt } from "../verify/json.ts";
import { hashOfLeaf } from "../verify/merkle.ts";
import { VerificationError } from "../verify/verification-error.ts";
import { csvLine, type ReportRow, reportRowOf } from "./evidence.ts";

/** Maximum number of decisions of one report: people read it, and its rows are kept in memory. */
export const MAX_DECISIONS = 20_000;
/** Maximum characters of the entries of one report. */
export const MAX_CHARACTERS = 67_108_864;
/** Decisions that are proven at once. */
const AT_ONCE = 8;

/** Decisions that a report covers. Absent members cover all. */
export interface EvidenceSelection {
  /** RFC 3339 UTC: decisions at or after this time. */
  readonly since?: string | undefined;
  /** RFC 3339 UTC: decisions before this time. */
  readonly until?: string | undefined;
  readonly agentId?: string | undefined;
  /** Mandate that fired. */
  readonly mandateId?: string | undefined;
}

/** An entry as the service answers it, which is not trusted. */
export interface AnsweredDecision {
  readonly index: number;
  /** Exact text that was hashed. */
  readonly body: string;
  /** Name of the key or person that asked, which is not sealed; undefined if there is none. */
  readonly keyName: string | undefined;
}

/** The service that is asked for evidence. */
export interface EvidenceSource {
  /** Lists the ids of the decisions of a selection's period and agent, newest first, a page at a time. */
  list(selection: EvidenceSelection): AsyncIterable<readonly string[]>;
  /** Returns the checkpoint of now. Its signature MUST have been verified. */
  checkpoint(): Promise<SignedCheckpoint>;
  decision(decisionId: string): Promise<AnsweredDecision>;
  /** Returns the hashes that prove an entry in the log at a size. */
  auditPath(index: number, treeSize: number): Promise<readonly Uint8Array[]>;
}

/** Error for a selection of more than a report holds. */
export class EvidenceLimitError extends Error {
  override readonly name = "EvidenceLimitError";
}

/** A verified decision in the forms that a report writes. */
export interface CollectedRow {
  /** Line of the table, with its end. */
  readonly line: string;
  readonly report: ReportRow;
}

/** Verified decisions, oldest first, and the checkpoint that proves each of them. */
export interface CollectedEvidence {
  readonly checkpoint: SignedCheckpoint;
  readonly rows: readonly CollectedRow[];
}

/** How a collection goes on. */
export interface CollectOptions {
  readonly signal?: AbortSignal | undefined;
  /** Hears of decisions that were proven, and of the number of all. */
  readonly onProven?: ((proven: number, all: number) => void) | undefined;
}

/**
 * Collects decisions with their proofs and verifies each: its entry is in the log of the checkpoint, and belongs to the selection. Throws
 * `VerificationError`, and `EvidenceLimitError` for more than a report holds.
 */
export async function collectEvidence(
  source: EvidenceSource,
  selection: EvidenceSelection,
  { signal, onProven }: CollectOptions = {},
): Promise<CollectedEvidence> {
  const ids = await listIds(source, selection, signal);
  // Signed after the list was read, so that it covers every decision of it.
  const checkpoint = await source.checkpoint();
  const rows: (CollectedRow | undefined)[] = [];
  let [next, proven, characters] = [0, 0, 0];
  const prove = async (): Promise<void> => {
    for (let place = next++; place < ids.length; place = next++) {
      signal?.throwIfAborted();
      const id = ids[place] as string;
      const { index, body, keyName } = await source.decision(id);
      characters += body.length;
      if (characters > MAX_CHARACTERS)
        throw new EvidenceLimitError(`the entries of these decisions have more than ${MAX_CHARACTERS} characters`);
      const auditPath = await source.auditPath(index, checkpoint.treeSize);
      const parsed = await verifyDecision({ body, leafIndex: index, auditPath }, checkpoint);
      assertSelected(parsed, id, selection);
      const leafHash = hex(await hashOfLeaf(body));
      const row = { index, body, parsed, leafHash, auditPath: auditPath.map(hex), keyName };
      if (isUnder(parsed, selection.mandateId)) rows[place] = { line: csvLine(row), report: reportRowOf(row) };
      proven += 1;
      onProven?.(proven, ids.length);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, prove));
  return { checkpoint, rows: rows.filter((row) => row !== undefined) };
}

/** Lists the ids of decisions, oldest first. */
async function listIds(
  source: EvidenceSource,
  selection: EvidenceSelection,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  const ids: string[] = [];
  for await (const page of source.list(selection)) {
    signal?.throwIfAborted();
    ids.push(...page);
    if (ids.length > MAX_DECISIONS) throw new EvidenceLimitError(`more than ${MAX_DECISIONS} decisions`);
  }
  return ids.reverse();
}

/** Refuses an entry that is another decision than the one asked for, or outside the selection's period and agent. */
function assertSelected(body: JsonRecord, id: string, { since, until, agentId }: EvidenceSelection): void {
  const atMs = Date.parse(textAt(body, "at"));
  const isOther =
    textAt(body, "decision_id") !== id ||
    (agentId !== undefined && textAt(body, "action.agent_id") !== agentId) ||
    (since !== undefined && atMs < Date.parse(since)) ||
    (until !== undefined && atMs >= Date.parse(until));
  if (isOther) throw new VerificationError("contradiction", `the service gave another decision for \`${id}\``);
}

const isUnder = (body: JsonRecord, mandateId: string | undefined): boolean =>
  mandateId === undefined || listAt(body, "mandates").some((fired) => textAt(fired, "mandate_id") === mandateId);

/** Says a selection in words, for the head of a report. */
export const selectionWords = ({ since, until, agentId, mandateId }: EvidenceSelection): readonly string[] => [
  `${since === undefined ? "from the beginning" : `from ${since}`} to ${until ?? "the end of the log"}`,
  ...(agentId === undefined ? [] : [`agent ${agentId}`]),
  ...(mandateId === undefined ? [] : [`mandate ${mandateId}`]),
];
