import { ControlPlaneError, ErrorReason } from "../../errors.ts";

/** Bytes before each message of gRPC: a flag for compression, and the length. */
const HEAD_BYTES = 5;
const EMPTY = Buffer.alloc(0);

/** A message as it lies in a body. */
export interface Frame {
  readonly bytes: Buffer;
  readonly isCompressed: boolean;
}

/** Returns a message in its frame. */
export function framed(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(HEAD_BYTES + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, HEAD_BYTES);
  return frame;
}

/** Creates MALFORMED_REQUEST for a body that breaks the rules of gRPC. */
export function malformed(problem: string): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.MALFORMED_REQUEST, `the request is not valid gRPC: ${problem}`, { problem });
}

/**
 * Cuts a body into its messages as it arrives. Holds at most twice the bytes that have arrived of an unfinished message, however
 * small the pieces are and whatever length its head announces.
 */
export class FrameReader {
  readonly #assertLength: (bytes: number) => void;
  /** Bytes of the head or message that is arriving, in the beginning of `#buffer`. */
  #filled = 0;
  #buffer = EMPTY;
  /** Length of that head or message. */
  #wanted = HEAD_BYTES;
  #isHead = true;
  #isCompressed = false;

  /** `assertLength` throws for a message that is too long; it is called before anything of the message is kept. */
  constructor(assertLength: (bytes: number) => void) {
    this.#assertLength = assertLength;
  }

  /** True in the middle of a message. */
  get isWithinMessage(): boolean {
    return this.#filled > 0 || !this.#isHead;
  }

  /** Yields the messages that the next piece completes. Throws MALFORMED_REQUEST, and what `assertLength` throws. */
  *read(piece: Buffer): Generator<Frame> {
    for (let at = 0; at < piece.length; ) {
      const end = Math.min(at + this.#wanted - this.#filled, piece.length);
      const whole = this.#joined(piece.subarray(at, end));
      at = end;
      if (whole === undefined) return;
      if (this.#isHead) this.#begin(whole);
      else yield this.#ended(whole);
      // Nothing of an empty message is still to come.
      if (!this.#isHead && this.#wanted === 0) yield this.#ended(EMPTY);
    }
  }

  /** Returns the whole head or message once `part` completes it. */
  #joined(part: Buffer): Buffer | undefined {
    if (this.#filled === 0 && part.length === this.#wanted) return part;
    const filled = this.#filled + part.length;
    if (filled > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.min(this.#wanted, Math.max(filled, 2 * this.#buffer.length)));
      this.#buffer.copy(larger, 0, 0, this.#filled);
      this.#buffer = larger;
    }
    part.copy(this.#buffer, this.#filled);
    this.#filled = filled;
    if (filled < this.#wanted) return undefined;
    const whole = this.#buffer.subarray(0, filled);
    this.#buffer = EMPTY;
    this.#filled = 0;
    return whole;
  }

  #begin(head: Buffer): void {
    const flag = head[0] as number;
    if (flag > 1) throw malformed(`a message begins with the byte ${flag}`);
    const length = head.readUInt32BE(1);
    this.#assertLength(length);
    this.#isCompressed = flag === 1;
    this.#isHead = false;
    this.#wanted = length;
  }

  #ended(bytes: Buffer): Frame {
    this.#isHead = true;
    this.#wanted = HEAD_BYTES;
    return { bytes, isCompressed: this.#isCompressed };
  }
}
