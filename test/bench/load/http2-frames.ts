/*
 * Frames of HTTP/2 (RFC 9113, section 4): reading them out of chunks that are cut anywhere, and writing many in one go.
 */

/** What a frame is. */
export const FrameType = {
  DATA: 0,
  HEADERS: 1,
  RST_STREAM: 3,
  SETTINGS: 4,
  PING: 6,
  GOAWAY: 7,
  WINDOW_UPDATE: 8,
  CONTINUATION: 9,
} as const;

/** Bits of a frame's flags; which of them a frame may have depends on its type. */
export const Flag = { END_STREAM: 1, ACK: 1, END_HEADERS: 4, PADDED: 8, PRIORITY: 32 } as const;

/** What a setting is about. */
export const Setting = { HEADER_TABLE_SIZE: 1, ENABLE_PUSH: 2, INITIAL_WINDOW_SIZE: 4 } as const;

/** Bytes of the largest payload that every peer takes, and that this client takes. */
export const FRAME_SIZE = 16_384;
/** Largest stream id, window and increment of one. */
export const MOST_31_BITS = 2 ** 31 - 1;
/** What a client sends before its first frame. */
export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

const HEAD_LENGTH = 9;
const NOTHING = Buffer.alloc(0);
/** Bytes that are reserved at once for what is written. */
const SLAB_LENGTH = 32_768;

/** Takes a frame in. `payload` MUST NOT be used after the call: its memory is written over. */
export type OnFrame = (type: number, flags: number, streamId: number, payload: Buffer) => void;

/** Creates a function that takes chunks and calls `onFrame` for each frame that is whole. It throws what `onFrame` throws. */
export function createFrameReader(onFrame: OnFrame): (chunk: Buffer) => void {
  let rest: Buffer = NOTHING;
  return (chunk) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    while (bytes.length - at >= HEAD_LENGTH) {
      const length = bytes.readUIntBE(at, 3);
      if (length > FRAME_SIZE) throw new Error(`the server sent a frame of ${length} bytes`);
      const from = at + HEAD_LENGTH;
      if (bytes.length < from + length) break;
      const streamId = bytes.readUInt32BE(at + 5) & MOST_31_BITS;
      onFrame(bytes[at + 3] as number, bytes[at + 4] as number, streamId, bytes.subarray(from, from + length));
      at = from + length;
    }
    // A copy, as the chunk's memory is written over.
    rest = at === bytes.length ? NOTHING : Buffer.from(bytes.subarray(at));
  };
}

/** Gathers what is to be sent. */
export interface FrameWriter {
  /** Adds bytes that are no frame. */
  raw(bytes: Buffer): void;
  /** Adds a frame whose payload is `bytes` between `from` and `to`, which are copied. The whole of them by default. */
  frame(type: number, flags: number, streamId: number, bytes?: Buffer, from?: number, to?: number): void;
  /** Hands on what was added since the last time. */
  flush(): void;
}

/** Creates a writer that hands on what it gathered as one piece, which it never writes to again. */
export function createFrameWriter(send: (bytes: Buffer) => void): FrameWriter {
  let slab = Buffer.allocUnsafeSlow(SLAB_LENGTH);
  let from = 0;
  let to = 0;
  const flush = (): void => {
    if (from === to) return;
    send(slab.subarray(from, to));
    from = to;
  };
  const reserve = (length: number): void => {
    if (to + length <= slab.length) return;
    flush();
    slab = Buffer.allocUnsafeSlow(Math.max(SLAB_LENGTH, length));
    from = to = 0;
  };
  return {
    flush,
    raw(bytes) {
      reserve(bytes.length);
      to += bytes.copy(slab, to);
    },
    frame(type, flags, streamId, bytes = NOTHING, start = 0, end = bytes.length) {
      reserve(HEAD_LENGTH + end - start);
      slab.writeUIntBE(end - start, to, 3);
      slab[to + 3] = type;
      slab[to + 4] = flags;
      slab.writeUInt32BE(streamId, to + 5);
      to += HEAD_LENGTH;
      to += bytes.copy(slab, to, start, end);
    },
  };
}

/** The payload of a frame with 32-bit numbers. */
export function numbersOf(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value, index * 4);
  return bytes;
}

/** The payload of SETTINGS. */
export function settingsOf(settings: readonly (readonly [setting: number, value: number])[]): Buffer {
  const bytes = Buffer.alloc(settings.length * 6);
  for (const [index, [setting, value]] of settings.entries()) {
    bytes.writeUInt16BE(setting, index * 6);
    bytes.writeUInt32BE(value, index * 6 + 2);
  }
  return bytes;
}

/** The settings of a payload. */
export function readSettings(payload: Buffer): [setting: number, value: number][] {
  return Array.from({ length: Math.floor(payload.length / 6) }, (_, index) => [
    payload.readUInt16BE(index * 6),
    payload.readUInt32BE(index * 6 + 2),
  ]);
}

/** What a frame of DATA or HEADERS holds beside padding and priority. */
export function contentOf(flags: number, payload: Buffer): Buffer {
  if ((flags & (Flag.PADDED | Flag.PRIORITY)) === 0) return payload;
  const isPadded = (flags & Flag.PADDED) !== 0;
  const from = (isPadded ? 1 : 0) + ((flags & Flag.PRIORITY) === 0 ? 0 : 5);
  return payload.subarray(from, payload.length - (isPadded ? (payload[0] as number) : 0));
}
