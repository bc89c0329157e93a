/** Why something does not verify; the words stay the same from version to version. */
export type VerificationFault =
  /** A member is missing or has another form than the format says. */
  | "malformed"
  /** The checkpoint is no C2SP checkpoint. */
  | "checkpoint"
  /** No trusted key signed it. */
  | "signature"
  /** A body is not in its RFC 8785 form. */
  | "canonical"
  /** A body does not hash to its leaf. */
  | "leaf_hash"
  /** An entry is missing, comes twice or stands at another place. */
  | "order"
  /** An entry is of another workspace. */
  | "workspace"
  /** An entry is older than the one before it. */
  | "time"
  /** The root that an entry was sealed on is not that of the entries before it. */
  | "previous_root"
  /** Two entries claim one id. */
  | "duplicate_id"
  /** The entries do not hash to the checkpoint's root. */
  | "root"
  /** A proof does not lead to the checkpoint's root. */
  | "proof"
  /** An earlier checkpoint covers more entries than there are. */
  | "truncated"
  /** The entries do not hash to an earlier checkpoint's root. */
  | "rewritten"
  /** A certificate says one thing and its signed body another. */
  | "contradiction";

/** What was looked at does not verify. The message is one line and says what is wrong. */
export class VerificationError extends Error {
  override readonly name = "VerificationError";
  readonly fault: VerificationFault;
  /** The first entry that cannot be trusted; null when the fault is of no entry. */
  readonly index: number | null;
  /** The last entry that the fault may be in: `index` where it is known exactly. */
  readonly lastIndex: number | null;

  constructor(fault: VerificationFault, message: string, index: number | null = null, lastIndex = index) {
    super(message);
    this.fault = fault;
    this.index = index;
    this.lastIndex = lastIndex;
  }
}
