import { bytesFromBase64 } from "./form.ts";
import type { PublicKey } from "./public-key.ts";
import { VerificationError } from "./verification-error.ts";

/** What a log's operator signed: at this size the log has this root (c2sp.org/tlog-checkpoint). */
export interface Checkpoint {
  /** The log's name, the same for all of its checkpoints. */
  readonly origin: string;
  readonly treeSize: number;
  readonly root: Buffer;
  /** The whole note. */
  readonly note: string;
}

/** A checkpoint whose signature was verified, and the key that made it. */
export interface SignedCheckpoint extends Checkpoint {
  readonly key: PublicKey;
}

interface NoteSignature {
  readonly name: string;
  readonly keyId: string;
  readonly bytes: Buffer;
}

/** Signatures on one note: the specification asks for at least 16. */
const MAX_SIGNATURES = 64;
const SIGNATURE_LINE = /^— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/u;

const refuse = (what: string): never => {
  throw new VerificationError("checkpoint", `the checkpoint ${what}`);
};

function signatureFrom(line: string): NoteSignature {
  const [, name = "", base64 = ""] = SIGNATURE_LINE.exec(line) ?? refuse("has a line that is no signature");
  const bytes = bytesFromBase64(base64);
  if (bytes === undefined || bytes.length < 5) return refuse("has a signature that is no base64 of a key id and more");
  return { name, keyId: bytes.toString("hex", 0, 4), bytes: bytes.subarray(4) };
}

/** Splits a note into the text that is signed, its last line end included, and the signatures. */
function partsOf(note: string): { readonly text: string; readonly signatures: readonly NoteSignature[] } {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the specification forbids them
  if (/[\u0000-\u0009\u000b-\u001f]/.test(note) || !note.isWellFormed()) refuse("holds control characters");
  const blank = note.lastIndexOf("\n\n");
  if (blank < 0 || !note.endsWith("\n")) refuse("has no blank line before its signatures");
  const lines = note.slice(blank + 2, -1).split("\n");
  if (lines.length > MAX_SIGNATURES) refuse(`has more than ${MAX_SIGNATURES} signatures`);
  return { text: note.slice(0, blank + 1), signatures: lines.map(signatureFrom) };
}

function checkpointFrom(note: string, text: string): Checkpoint {
  const [origin = "", size = "", root = "", ...more] = text.slice(0, -1).split("\n");
  if (origin === "") refuse("has no origin");
  if (!/^(0|[1-9]\d*)$/.test(size) || !Number.isSafeInteger(Number(size)))
    refuse("has no tree size on its second line");
  const bytes = bytesFromBase64(root, 32) ?? refuse("has no root hash on its third line");
  if (more.includes("")) refuse("has an empty line in its text");
  return { origin, treeSize: Number(size), root: bytes, note };
}

/**
 * Verifies a checkpoint with keys that are trusted (c2sp.org/signed-note, ECDSA). A signature counts if its line names the
 * log and a key that is known; lines of others are passed over, and one of a known key that does not fit refuses the note.
 */
export function verifyCheckpoint(note: string, keys: readonly PublicKey[]): SignedCheckpoint {
  const { text, signatures } = partsOf(note);
  const checkpoint = checkpointFrom(note, text);
  const signed = Buffer.from(text, "utf8");
  let key: PublicKey | undefined;
  for (const { name, keyId, bytes } of signatures) {
    const known = keys.filter(({ noteKeyId }) => name === checkpoint.origin && noteKeyId === keyId);
    if (known.length === 0) continue;
    key = known.find((each) => each.signed(signed, bytes));
    if (key === undefined) break;
  }
  if (key !== undefined) return { ...checkpoint, key };
  const { origin, treeSize } = checkpoint;
  throw new VerificationError(
    "signature",
    `the checkpoint of size ${treeSize} of \`${origin}\` is not signed by any of the ${keys.length} trusted keys`,
  );
}
