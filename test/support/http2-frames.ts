/* Frames of HTTP/2 (RFC 9113), for callers that a library would not play. */

/** First bytes of a connection. */
export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

const [DATA, HEADERS, RST_STREAM, SETTINGS, PING] = [0, 1, 3, 4, 6];
const END_STREAM = 1;
const END_HEADERS = 4;
const CANCEL = 8;
const INITIAL_WINDOW_SIZE = 4;

export function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** Settings, with the window that each stream begins with if it is not the usual one. */
export function settingsFrame(initialWindow?: number): Buffer {
  if (initialWindow === undefined) return frame(SETTINGS, 0, 0, Buffer.alloc(0));
  const setting = Buffer.alloc(6);
  setting.writeUInt16BE(INITIAL_WINDOW_SIZE);
  setting.writeUInt32BE(initialWindow, 2);
  return frame(SETTINGS, 0, 0, setting);
}

export const pingFrame = (): Buffer => frame(PING, 0, 0, Buffer.alloc(8));

export const dataFrame = (stream: number, bytes: Buffer, isLast = false): Buffer =>
  frame(DATA, isLast ? END_STREAM : 0, stream, bytes);

export const resetFrame = (stream: number): Buffer => frame(RST_STREAM, 0, stream, Buffer.from([0, 0, 0, CANCEL]));

/** Headers of a gRPC call, as literals without indexing (RFC 7541, section 6.2.2). Names and values have less than 127 bytes. */
export function grpcHeaders(stream: number, path: string, more: Readonly<Record<string, string>>): Buffer {
  const headers = {
    ":method": "POST",
    ":scheme": "http",
    ":path": path,
    ":authority": "test",
    "content-type": "application/grpc",
    te: "trailers",
    ...more,
  };
  const block = Object.entries(headers).flatMap(([name, value]) => [
    Buffer.from([0, name.length]),
    Buffer.from(name),
    Buffer.from([value.length]),
    Buffer.from(value),
  ]);
  return frame(HEADERS, END_HEADERS, stream, Buffer.concat(block));
}
