import { areEqual, type Bytes, bytesFromBase64, HASH_BYTES } from "./bytes.ts";
import { assertKeyId, type PublicKey } from "./public-key.ts";
import { parseNote, refuseCheckpoint, signerOf, verifierKeyOf } from "./signed-note.ts";
import { VerificationError } from "./verification-error.ts";

/** A checkpoint: the statement that a log has this root at this size (c2sp.org/tlog-checkpoint). */
export interface Checkpoint {
  /** Name of the log, the same in all of its checkpoints. */
  readonly origin: string;
  readonly treeSize: number;
  readonly root: Bytes;
  /** Complete note. */
  readonly note: string;
  /** Place at which it was kept, for messages. */
  readonly place?: string | undefined;
}

/** A checkpoint with a verified signature, and the key that made it. */
export interface SignedCheckpoint extends Checkpoint {
  readonly key: PublicKey;
}

/** Names an earlier checkpoint in a message. */
export const nameOf = ({ treeSize, place }: Checkpoint): string =>
  place === undefined ? `the earlier checkpoint of size ${treeSize}` : `${place}, of size ${treeSize},`;

/** Parses the checkpoint of a note, without verifying its signature. Throws `checkpoint`. */
export function parseCheckpoint(note: string): Checkpoint {
  const { text } = parseNote(note);
  const [origin = "", size = "", root = "", ...more] = text.slice(0, -1).split("\n");
  if (origin === "") refuseCheckpoint("has no origin on its first line");
  if (!/^(0|[1-9]\d*)$/.test(size) || !Number.isSafeInteger(Number(size))) {
    refuseCheckpoint("has no tree size on its second line");
  }
  const bytes = bytesFromBase64(root, HASH_BYTES) ?? refuseCheckpoint("has no root hash on its third line");
  if (more.includes("")) refuseCheckpoint("has an empty line in its text");
  return { origin, treeSize: Number(size), root: bytes, note };
}

/** Verifies a checkpoint with trusted keys (c2sp.org/signed-note, ECDSA). Throws `VerificationError`. */
export async function verifyCheckpoint(note: string, keys: readonly PublicKey[]): Promise<SignedCheckpoint> {
  const checkpoint = parseCheckpoint(note);
  const { origin, treeSize } = checkpoint;
  const key = await signerOf(parseNote(note), origin, keys);
  if (key === undefined) {
    const trusted = keys.length === 1 ? "the one trusted key" : `any of the ${keys.length} trusted keys`;
    const message = `the checkpoint of size ${treeSize} of \`${origin}\` is not signed by ${trusted}`;
    throw new VerificationError("signature", message);
  }
  assertKeyId(key);
  return { ...checkpoint, key };
}

/** Checkpoint in an answer of the service: the note, and the service's claims about it. */
export interface AnsweredCheckpoint {
  readonly origin: string;
  readonly treeSize: bigint;
  readonly rootHash: Uint8Array;
  readonly note: string;
  readonly verifierKey: string;
}

/** Verifies the checkpoint of an answer and the answer's claims about it. Throws `VerificationError`. */
export async function verifyAnsweredCheckpoint(
  answered: AnsweredCheckpoint,
  keys: readonly PublicKey[],
): Promise<SignedCheckpoint> {
  const checkpoint = await verifyCheckpoint(answered.note, keys);
  assertSameAsNote(answered, checkpoint);
  assertVerifierKey(answered, checkpoint.key);
  return checkpoint;
}

function contradicts(what: string): never {
  throw new VerificationError("contradiction", `the answer names another ${what}`);
}

/** Refuses an answer whose log, size or root differs from its note. */
export function assertSameAsNote(answered: AnsweredCheckpoint, { origin, treeSize, root }: Checkpoint): void {
  if (origin !== answered.origin) contradicts("log than the note");
  if (BigInt(treeSize) !== answered.treeSize) contradicts("size than the note");
  if (!areEqual(root, answered.rootHash)) contradicts("root than the note");
}

/** Refuses an answer whose key differs from the one that signed its note. */
export function assertVerifierKey({ origin, verifierKey }: AnsweredCheckpoint, key: PublicKey): void {
  if (verifierKey !== verifierKeyOf(origin, key)) contradicts("verifier key than the one that signed");
}

/** Tests whether an origin is the log of a workspace. */
export const isLogOf = (origin: string, workspaceId: unknown): boolean =>
  typeof workspaceId === "string" && origin.endsWith(`/vault/${workspaceId}`);
