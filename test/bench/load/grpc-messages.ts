/** Bytes before each message: whether it is compressed, and its length. */
const PREFIX_LENGTH = 5;
/** Bytes of the longest message that is taken, so that a wrong length does not take all memory. */
const LONGEST = 64 * 2 ** 20;

/** A message as it goes over the wire, uncompressed. */
export function framed(message: Buffer): Buffer {
  const bytes = Buffer.alloc(PREFIX_LENGTH + message.length);
  bytes.writeUInt32BE(message.length, 1);
  message.copy(bytes, PREFIX_LENGTH);
  return bytes;
}

/** Puts messages together. */
export interface MessageReader {
  /** Takes the next bytes of the body, cut anywhere. Throws for a message that is compressed or far too long. */
  take(chunk: Buffer): void;
  /** Whether no message is begun. */
  isBetweenMessages(): boolean;
}

function lengthOf(prefix: Buffer): number {
  const length = prefix.readUInt32BE(1);
  if (prefix[0] !== 0 || length > LONGEST) throw new Error(`a reply begins with ${prefix.toString("hex")}`);
  return length;
}

/** Creates a reader that calls `onMessage` for each message, whose bytes MUST NOT be used after the call. */
export function createMessageReader(onMessage: (message: Buffer) => void): MessageReader {
  const prefix = Buffer.alloc(PREFIX_LENGTH);
  let prefixed = 0;
  // A message that its first chunk did not hold whole.
  let message: Buffer | undefined;
  let filled = 0;

  const finish = (whole: Buffer): void => {
    prefixed = 0;
    message = undefined;
    onMessage(whole);
  };
  /** Takes what it can of the chunk from `at` on; gives where it stopped. */
  const begin = (chunk: Buffer, at: number): number => {
    const copied = chunk.copy(prefix, prefixed, at);
    prefixed += copied;
    const from = at + copied;
    if (prefixed < PREFIX_LENGTH) return from;
    const length = lengthOf(prefix);
    if (chunk.length - from < length) {
      message = Buffer.allocUnsafe(length);
      filled = 0;
      return from;
    }
    finish(chunk.subarray(from, from + length));
    return from + length;
  };
  const fill = (chunk: Buffer, at: number, whole: Buffer): number => {
    const copied = chunk.copy(whole, filled, at);
    filled += copied;
    if (filled === whole.length) finish(whole);
    return at + copied;
  };
  return {
    isBetweenMessages: () => prefixed === 0,
    take(chunk) {
      for (let at = 0; at < chunk.length; ) at = message === undefined ? begin(chunk, at) : fill(chunk, at, message);
    },
  };
}
