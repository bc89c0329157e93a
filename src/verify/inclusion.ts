import { areEqual } from "./bytes.ts";
import {
  type AnsweredCheckpoint,
  type Checkpoint,
  type SignedCheckpoint,
  verifyAnsweredCheckpoint,
} from "./checkpoint.ts";
import type { LogEntry } from "./entry.ts";
import { hashOfLeaf, rootFromInclusion } from "./merkle.ts";
import type { PublicKey } from "./public-key.ts";
import { VerificationError } from "./verification-error.ts";

/** An inclusion proof in an answer of the service. */
export interface AnsweredProof {
  readonly leafIndex: bigint;
  readonly leafHash: Uint8Array;
  readonly treeSize: bigint;
  readonly auditPath: readonly Uint8Array[];
  readonly rootHash: Uint8Array;
  readonly checkpoint?: AnsweredCheckpoint | undefined;
}

/** Verifies the proof of a service for an entry, up to a signature by one of the keys. Throws `VerificationError`. */
export async function verifyAnsweredProof(
  entry: LogEntry,
  proof: AnsweredProof,
  keys: readonly PublicKey[],
): Promise<SignedCheckpoint> {
  assertSamePlace(entry, proof);
  const leaf = await hashOfLeaf(entry.body);
  assertSameLeaf(leaf, entry, proof);
  assertLeadsTo(proof.rootHash, await rootReached(leaf, proof), entry.index);
  const checkpoint = await verifyAnsweredCheckpoint(assertCheckpoint(proof), keys);
  assertSigns(checkpoint, proof);
  return checkpoint;
}

/** Refuses a proof for another index than the entry's. */
export function assertSamePlace({ index }: LogEntry, { leafIndex }: AnsweredProof): void {
  if (BigInt(index) === leafIndex) return;
  throw new VerificationError("proof", `the proof is of entry ${leafIndex}, not of entry ${index}`, index);
}

/** Refuses an entry whose text does not hash to the leaf named by the entry and the proof. */
export function assertSameLeaf(leaf: Uint8Array, { index, leafHash }: LogEntry, proof: AnsweredProof): void {
  if (areEqual(leaf, leafHash) && areEqual(leaf, proof.leafHash)) return;
  const message = `entry ${index} was changed, or its leaf was: its body does not hash to its leaf`;
  throw new VerificationError("leaf_hash", message, index);
}

/** Computes the root that a proof leads to from a leaf; undefined if the path does not fit the tree. */
export function rootReached(
  leaf: Uint8Array,
  { leafIndex, treeSize, auditPath }: AnsweredProof,
): Promise<Uint8Array | undefined> {
  return rootFromInclusion(leaf, { leafIndex: Number(leafIndex), treeSize: Number(treeSize), auditPath });
}

/** Refuses a proof whose computed root differs from the checkpoint's; undefined marks a path that does not fit the tree. */
export function assertLeadsTo(root: Uint8Array, reached: Uint8Array | undefined, leafIndex: number): void {
  if (reached !== undefined && areEqual(reached, root)) return;
  const why = reached === undefined ? "has the wrong length for its place in the tree" : "leads to another root";
  throw new VerificationError("proof", `the proof of entry ${leafIndex} ${why}`);
}

/** Returns the checkpoint of a proof. Throws `malformed` if it is missing. */
export function assertCheckpoint({ checkpoint }: AnsweredProof): AnsweredCheckpoint {
  if (checkpoint !== undefined) return checkpoint;
  throw new VerificationError("malformed", "the proof has no checkpoint");
}

/** Refuses a proof in another tree than the checkpoint's. */
export function assertSigns({ treeSize, root }: Checkpoint, proof: AnsweredProof): void {
  if (BigInt(treeSize) !== proof.treeSize) {
    throw new VerificationError("proof", "the checkpoint signs a tree of another size than the proof's");
  }
  if (areEqual(root, proof.rootHash)) return;
  throw new VerificationError("proof", "the checkpoint signs another root than the proof's");
}
