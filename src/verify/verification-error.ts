/** Reasons for a failed verification. The words are part of the output and stay the same between versions. */
export type VerificationFault =
  /** A member is missing or malformed. */
  | "malformed"
  /** The checkpoint is not in C2SP form. */
  | "checkpoint"
  /** No trusted key made the signature. */
  | "signature"
  /** A body is not in its RFC 8785 form. */
  | "canonical"
  /** A body is of a version that is not known. */
  | "version"
  /** A body does not hash to its leaf. */
  | "leaf_hash"
  /** An entry is missing, duplicated or misplaced. */
  | "order"
  /** An entry belongs to another workspace. */
  | "workspace"
  /** An entry is older than its predecessor. */
  | "time"
  /** The root that an entry was sealed on is not the root of its predecessors. */
  | "previous_root"
  /** Two entries claim the same id. */
  | "duplicate_id"
  /** An approval does not meet the sealed demands, counts the asker, the editor or one person twice, or is used without being given. */
  | "approval"
  /** The entries do not hash to the checkpoint's root. */
  | "root"
  /** A proof does not lead to the checkpoint's root. */
  | "proof"
  /** An earlier checkpoint covers more entries than there are. */
  | "truncated"
  /** The entries do not hash to an earlier checkpoint's root. */
  | "rewritten"
  /** A certificate differs from its signed body. */
  | "contradiction";

/** Reports a failed verification and its reason in one line. */
export class VerificationError extends Error {
  override readonly name = "VerificationError";
  readonly fault: VerificationFault;
  /** First entry that cannot be trusted; null if the fault is outside the entries. */
  readonly index: number | null;
  /** Last entry that may contain the fault; equal to `index` if the place is exact. */
  readonly lastIndex: number | null;

  constructor(fault: VerificationFault, message: string, index: number | null = null, lastIndex = index) {
    super(message);
    this.fault = fault;
    this.index = index;
    this.lastIndex = lastIndex;
  }
}
