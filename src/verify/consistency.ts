import { areEqual } from "./bytes.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { rootsFromConsistency } from "./merkle.ts";
import { VerificationError } from "./verification-error.ts";

/** A consistency proof in an answer of the service. */
export interface AnsweredConsistency {
  readonly from: bigint;
  readonly to: bigint;
  readonly path: readonly Uint8Array[];
  readonly fromRoot: Uint8Array;
  readonly toRoot: Uint8Array;
}

/** Refuses an earlier checkpoint from another log. */
export function assertSameLog(earlier: Checkpoint, { origin }: Checkpoint): void {
  if (earlier.origin === origin) return;
  const message = `the earlier checkpoint is of \`${earlier.origin}\`, not of \`${origin}\``;
  throw new VerificationError("checkpoint", message);
}

/** Refuses an earlier checkpoint that covers more entries than a later one. */
export function assertNotCutOff(earlier: Checkpoint, { treeSize: to }: Checkpoint): void {
  const { treeSize: from, place = "an earlier checkpoint" } = earlier;
  if (from <= to) return;
  const message = `the log was cut off: ${place} covers ${from} entries, this one ${to}`;
  throw new VerificationError("truncated", message, to, from - 1);
}

/**
 * Verifies by a proof of the service that a log only grew from one checkpoint to another. Their signatures MUST have been
 * verified. Equal sizes, and an empty earlier log, need no proof. Throws `VerificationError`.
 */
export async function assertGrown(
  earlier: Checkpoint,
  later: Checkpoint,
  proof: AnsweredConsistency | undefined,
): Promise<void> {
  assertSameLog(earlier, later);
  assertNotCutOff(earlier, later);
  const { treeSize: from, root: fromRoot } = earlier;
  const { treeSize: to, root: toRoot } = later;
  if (from === to) {
    if (areEqual(fromRoot, toRoot)) return;
    throw new VerificationError("rewritten", `the log was rewritten: its ${from} entries have another root now`);
  }
  if (from === 0) return;
  if (proof === undefined) refuse("the service gave no consistency proof");
  if (proof.from !== BigInt(from) || proof.to !== BigInt(to)) {
    refuse(`the service proved growth from ${proof.from} to ${proof.to} entries, not from ${from} to ${to}`);
  }
  if (!areEqual(proof.fromRoot, fromRoot)) {
    throw new VerificationError("rewritten", `the log was rewritten: its first ${from} entries have another root now`);
  }
  if (!areEqual(proof.toRoot, toRoot)) refuse("the proof names another root than the signed one");
  const roots = await rootsFromConsistency({ from, to, fromRoot, toRoot, path: proof.path });
  if (roots === undefined) refuse("the proof has the wrong length for these sizes");
  if (areEqual(roots.earlier, fromRoot) && areEqual(roots.later, toRoot)) return;
  refuse(`the service does not prove that its log of ${to} entries begins with the log of ${from}`);
}

function refuse(message: string): never {
  throw new VerificationError("proof", message);
}
