import { existsSync } from "node:fs";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { CollectedRow } from "../explain/collect-evidence.ts";
import {
  EVIDENCE_FILES,
  EVIDENCE_HEADER,
  evidenceCells,
  type ReportHead,
  reportPieces,
  tablePieces,
  UNPROVEN_COLUMNS,
} from "../explain/evidence.ts";
import { HASH_BYTES, hex } from "../verify/bytes.ts";
import type { SignedCheckpoint } from "../verify/checkpoint.ts";
import { verifyDecision } from "../verify/decision.ts";
import { indexFrom } from "../verify/json.ts";
import { hashOfLeaf } from "../verify/merkle.ts";
import { VerificationError } from "../verify/verification-error.ts";
import { readText, writeOutput } from "./bundle.ts";
import { CommandError, type CommandIo } from "./command.ts";
import { CsvError, csvRows } from "./csv.ts";

/** Evidence that is written. */
export interface Evidence extends ReportHead {
  readonly note: string;
  readonly keySet: object;
}

/** Throws `CommandError` unless a folder can be made at a path, or is there and empty. */
export async function createEvidenceFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true });
    if ((await readdir(folder)).length === 0) return;
  } catch (error) {
    throw new CommandError(`\`${folder}\` cannot be made a folder (${(error as NodeJS.ErrnoException).code})`);
  }
  throw new CommandError(`\`${folder}\` is not empty; name a new folder`);
}

/** Writes evidence to an empty folder, the table last: it is there only if everything else is. */
export async function writeEvidence(
  folder: string,
  io: CommandIo,
  { note, keySet, ...head }: Evidence,
  rows: readonly CollectedRow[],
): Promise<void> {
  const write = (name: string, pieces: Iterable<string>): Promise<void> =>
    writeOutput(join(folder, name), io, async (piece) => {
      for (const text of pieces) await piece(text);
    });
  await write(EVIDENCE_FILES.checkpoint, [note]);
  await write(EVIDENCE_FILES.keys, [`${JSON.stringify(keySet)}\n`]);
  const texts = rows.map(({ report }) => report);
  const lines = rows.map(({ line }) => line);
  await write(EVIDENCE_FILES.report, reportPieces(head, texts));
  await write(EVIDENCE_FILES.table, tablePieces(lines));
}

/** Texts of a folder of evidence that prove its table. */
export interface EvidenceProof {
  readonly note: string;
  readonly keySet: string;
}

/** Reads the checkpoint and the keys of a folder of evidence. Throws `CommandError` for any other folder. */
export async function readEvidenceProof(folder: string): Promise<EvidenceProof> {
  const missing = Object.values(EVIDENCE_FILES).find((name) => !existsSync(join(folder, name)));
  if (missing !== undefined)
    throw new CommandError(`\`${folder}\` is not a folder of \`agentctl vault report\`: it has no \`${missing}\``);
  const [note, keySet] = await Promise.all(
    [EVIDENCE_FILES.checkpoint, EVIDENCE_FILES.keys].map((name) => readText(join(folder, name))),
  );
  return { note: note ?? "", keySet: keySet ?? "" };
}

/**
 * Verifies each row of a folder's table: its entry is in the log of the checkpoint, whose signature MUST have been verified, and the other
 * cells say what the entry does. Returns the number of rows. Throws `VerificationError`, and `CommandError` for a file that is no table of
 * evidence.
 */
export async function verifyTable(folder: string, checkpoint: SignedCheckpoint): Promise<number> {
  const path = join(folder, EVIDENCE_FILES.table);
  const text = await readText(path);
  let count = -1;
  try {
    for (const cells of csvRows(text)) {
      if (count < 0 && cells.join(",") !== EVIDENCE_HEADER)
        throw new CommandError(`\`${path}\` is no table of evidence: its first line names other columns`);
      if (count >= 0) await verifyRow(cells, count + 1, checkpoint);
      count += 1;
    }
  } catch (error) {
    if (error instanceof CsvError) throw new CommandError(`\`${path}\` is no CSV: ${error.message}`);
    throw error;
  }
  if (count < 0) throw new CommandError(`\`${path}\` is empty`);
  return count;
}

const NAMES = EVIDENCE_HEADER.split(",");

async function verifyRow(cells: readonly string[], place: number, checkpoint: SignedCheckpoint): Promise<void> {
  const cell = (name: string): string => cells[NAMES.indexOf(name)] ?? "";
  const index = indexFrom(cell("index"));
  const auditPath = hashesIn(cell("audit_path"));
  const body = cell("entry");
  if (index === undefined || auditPath === undefined)
    throw new VerificationError("malformed", `decision ${place} of the table has no index, or no audit path of hashes`);
  const parsed = await verifyDecision({ body, leafIndex: index, auditPath }, checkpoint);
  const leafHash = hex(await hashOfLeaf(body));
  const wanted = evidenceCells({ index, body, parsed, leafHash, auditPath: auditPath.map(hex) });
  const other = NAMES.find((name, column) => !UNPROVEN_COLUMNS.has(name) && cells[column] !== wanted[column]);
  if (other === undefined && cells.length === NAMES.length) return;
  const what = other ?? "number of cells";
  throw new VerificationError("contradiction", `the \`${what}\` of entry ${index} is not that of its entry`, index);
}

/** Reads hashes in hexadecimal, with a space between two. */
function hashesIn(text: string): readonly Uint8Array[] | undefined {
  const words = text === "" ? [] : text.split(" ");
  if (!words.every((word) => new RegExp(`^[0-9a-f]{${HASH_BYTES * 2}}$`).test(word))) return undefined;
  return words.map((word) => Uint8Array.from(word.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16)));
}
