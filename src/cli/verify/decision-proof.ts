import { type JsonMembers, objectFromCanonical } from "./canonical-text.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { hashOfLeaf, rootFromInclusion } from "./merkle.ts";
import { assertOfLog } from "./of-log.ts";
import { VerificationError } from "./verification-error.ts";

/** A decision's entry, and what shows that it stands in the log. */
export interface DecisionProof {
  /** The exact text that was hashed. */
  readonly body: string;
  readonly leafIndex: number;
  /** The siblings from the leaf up to the root. */
  readonly auditPath: readonly Uint8Array[];
}

/**
 * Verifies that a decision is the entry of its index in the log of a checkpoint, whose signature MUST have been verified.
 * Gives the parsed body. Throws `VerificationError`.
 */
export function verifyDecision({ body, leafIndex, auditPath }: DecisionProof, checkpoint: Checkpoint): JsonMembers {
  const { treeSize, root, origin } = checkpoint;
  const found = rootFromInclusion(hashOfLeaf(body), { leafIndex, treeSize, auditPath });
  if (found === undefined || !found.equals(root)) {
    const why = found === undefined ? "has not the length that its place asks for" : "leads to another root";
    throw new VerificationError("proof", `entry ${leafIndex} is not in the log of size ${treeSize}: its proof ${why}`);
  }
  const members = objectFromCanonical(body);
  if (members === undefined) {
    throw new VerificationError("canonical", "the decision's body is no canonical JSON object (RFC 8785)", leafIndex);
  }
  if (members.seq !== leafIndex) {
    const message = `the decision was sealed as entry \`${String(members.seq)}\`, and the proof is of entry ${leafIndex}`;
    throw new VerificationError("order", message, leafIndex);
  }
  if (members.type !== "decision") throw new VerificationError("malformed", `entry ${leafIndex} is no decision`);
  assertOfLog(members, origin, leafIndex);
  return members;
}
