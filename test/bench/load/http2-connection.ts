/*
 * A client of HTTP/2 for load (RFC 9113, without TLS and with prior knowledge): what it takes from the machine, the service
 * it measures does not have. Header blocks and bodies come encoded, replies are handed on as they lie in the frames, and
 * what a turn of the event loop sends goes out in one write.
 */
import { connect, type Socket } from "node:net";
import {
  contentOf,
  createFrameReader,
  createFrameWriter,
  Flag,
  FrameType,
  MOST_31_BITS,
  numbersOf,
  PREFACE,
  readSettings,
  Setting,
  settingsOf,
} from "./http2-frames.ts";
import { createSender, DEFAULT_WINDOW, type Outgoing } from "./http2-sending.ts";

/** Takes in what comes on a stream. Bytes MUST NOT be used after a call: their memory is written over. */
export interface StreamReceiver {
  /** Some bytes of the body. */
  onData(bytes: Buffer): void;
  /** Everything has come. `lastBlock` is the header block that ended it; empty when the body did. */
  onEnd(lastBlock: Buffer): void;
  /** Nothing comes any more: the stream was reset, or the connection is gone. */
  onFault(error: Error): void;
}

/** A connection. */
export interface Http2Connection {
  /** Opens a stream with a header block of at most 16 KiB; gives its id. On a connection that failed calls `onFault`. */
  open(headerBlock: Buffer, receiver: StreamReceiver): number;
  /** Sends bytes on a stream as soon as the peer allows it. They MUST stay as they are. On a stream that is over: nothing. */
  send(streamId: number, bytes: Buffer, isLast: boolean): void;
  /** Closes it at once; streams that are open fail. */
  close(): void;
}

interface Stream {
  readonly receiver: StreamReceiver;
  readonly outgoing: Outgoing;
  /** Bytes that came since the peer was last allowed more. */
  received: number;
}

/** Bytes that come before the peer is allowed as many more: half of its windows. */
const RENEW_AFTER = 2 ** 30;
/** Bytes that are read at once. */
const READ_LENGTH = 65_536;
const SETTINGS = settingsOf([
  [Setting.HEADER_TABLE_SIZE, 0],
  [Setting.ENABLE_PUSH, 0],
  [Setting.INITIAL_WINDOW_SIZE, MOST_31_BITS],
]);
const NOTHING = Buffer.alloc(0);

/** Names of the error codes, by their number. */
const REASONS = [
  ...["NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED"],
  ...["FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM"],
];
const CANCEL = numbersOf(REASONS.indexOf("CANCEL"));

function reasonAt(payload: Buffer, at: number): string {
  const code = payload.readUInt32BE(at);
  return REASONS[code] ?? `error ${code}`;
}

/** A socket that reads into one piece of memory: a chunk MUST be used up in the call. */
function connectSocket(address: string, onChunk: (chunk: Buffer) => void): Socket {
  const colon = address.lastIndexOf(":");
  const buffer = Buffer.allocUnsafeSlow(READ_LENGTH);
  const callback = (length: number): boolean => {
    onChunk(buffer.subarray(0, length));
    return true;
  };
  const [host, port] = [address.slice(0, colon), Number(address.slice(colon + 1))];
  return connect({ host, port, noDelay: true, onread: { buffer, callback } });
}

/** Connects to `host:port`. What is sent before the connection stands leaves as soon as it does. */
export function connectHttp2(address: string): Http2Connection {
  const streams = new Map<number, Stream>();
  let received = 0;
  let nextId = 1;
  let fault: Error | undefined;
  /** Whether what is written leaves at the end of this turn anyway. */
  let isTurning = false;
  /** A header block that goes on in further frames, and whether its stream ends with it. */
  let block: { readonly parts: Buffer[]; readonly isLast: boolean } | undefined;

  const fail = (error: Error): void => {
    if (fault !== undefined) return;
    fault = error;
    socket.destroy();
    for (const { receiver } of streams.values()) receiver.onFault(error);
    streams.clear();
  };
  const inTurn = (act: () => void): void => {
    isTurning = true;
    try {
      act();
      if (fault === undefined) writer.flush();
    } catch (error) {
      fail(error as Error);
    }
    isTurning = false;
  };
  const leaveSoon = (): void => {
    if (isTurning) return;
    isTurning = true;
    queueMicrotask(() => inTurn(() => undefined));
  };
  const allow = (streamId: number, bytes: number): void =>
    writer.frame(FrameType.WINDOW_UPDATE, 0, streamId, numbersOf(bytes));

  const finish = (streamId: number, stream: Stream, lastBlock: Buffer): void => {
    // Forgotten last: a receiver that throws is told of the failure.
    stream.receiver.onEnd(lastBlock);
    streams.delete(streamId);
    if (stream.outgoing.hasEnded) return;
    sender.drop(stream.outgoing);
    writer.frame(FrameType.RST_STREAM, 0, streamId, CANCEL);
  };

  const onData = (flags: number, streamId: number, payload: Buffer): void => {
    received += payload.length;
    if (received >= RENEW_AFTER) {
      allow(0, received);
      received = 0;
    }
    const stream = streams.get(streamId);
    if (stream === undefined) return;
    stream.received += payload.length;
    if (stream.received >= RENEW_AFTER) {
      allow(streamId, stream.received);
      stream.received = 0;
    }
    stream.receiver.onData(contentOf(flags, payload));
    if ((flags & Flag.END_STREAM) !== 0) finish(streamId, stream, NOTHING);
  };

  const onBlock = (streamId: number, isLast: boolean, whole: Buffer): void => {
    const stream = isLast ? streams.get(streamId) : undefined;
    if (stream !== undefined) finish(streamId, stream, whole);
  };

  const onHeaders = (flags: number, streamId: number, payload: Buffer): void => {
    const isLast = (flags & Flag.END_STREAM) !== 0;
    const content = contentOf(flags, payload);
    if ((flags & Flag.END_HEADERS) !== 0) onBlock(streamId, isLast, content);
    else block = { parts: [Buffer.from(content)], isLast };
  };

  const onContinuation = (flags: number, streamId: number, payload: Buffer): void => {
    block?.parts.push(Buffer.from(payload));
    if (block === undefined || (flags & Flag.END_HEADERS) === 0) return;
    const { parts, isLast } = block;
    block = undefined;
    onBlock(streamId, isLast, Buffer.concat(parts));
  };

  const onSettings = (flags: number, payload: Buffer): void => {
    if ((flags & Flag.ACK) !== 0) return;
    const open = Array.from(streams.values(), ({ outgoing }) => outgoing);
    writer.frame(FrameType.SETTINGS, Flag.ACK, 0);
    for (const [setting, value] of readSettings(payload)) {
      if (setting === Setting.INITIAL_WINDOW_SIZE) sender.resize(value, open);
    }
  };

  const onWindowUpdate = (streamId: number, payload: Buffer): void => {
    const widened = streamId === 0 ? "connection" : streams.get(streamId)?.outgoing;
    if (widened !== undefined) sender.widen(widened, payload.readUInt32BE(0) & MOST_31_BITS);
  };

  const onReset = (streamId: number, payload: Buffer): void => {
    const stream = streams.get(streamId);
    if (stream === undefined) return;
    streams.delete(streamId);
    sender.drop(stream.outgoing);
    stream.receiver.onFault(new Error(`the server reset a stream: ${reasonAt(payload, 0)}`));
  };

  const onGoAway = (payload: Buffer): void => {
    const told = payload.toString("latin1", 8);
    fail(new Error(`the server goes away: ${reasonAt(payload, 4)}${told === "" ? "" : `, ${told}`}`));
  };

  const readFrames = createFrameReader((type, flags, streamId, payload) => {
    // What follows on a failure in the same chunk is nobody's any more.
    if (fault !== undefined) return;
    if (type === FrameType.DATA) onData(flags, streamId, payload);
    else if (type === FrameType.HEADERS) onHeaders(flags, streamId, payload);
    else if (type === FrameType.CONTINUATION) onContinuation(flags, streamId, payload);
    else if (type === FrameType.WINDOW_UPDATE) onWindowUpdate(streamId, payload);
    else if (type === FrameType.SETTINGS) onSettings(flags, payload);
    else if (type === FrameType.RST_STREAM) onReset(streamId, payload);
    else if (type === FrameType.GOAWAY) onGoAway(payload);
    else if (type === FrameType.PING && (flags & Flag.ACK) === 0) writer.frame(type, Flag.ACK, 0, payload);
  });

  const socket = connectSocket(address, (chunk) => inTurn(() => readFrames(chunk)));
  socket.on("error", fail);
  socket.on("end", () => fail(new Error("the server closed the connection")));
  socket.on("close", () => fail(new Error("the connection was closed")));
  const writer = createFrameWriter((bytes) => void socket.write(bytes));
  const sender = createSender(writer);

  writer.raw(PREFACE);
  writer.frame(FrameType.SETTINGS, 0, 0, SETTINGS);
  allow(0, MOST_31_BITS - DEFAULT_WINDOW);
  leaveSoon();
  return {
    open(headerBlock, receiver) {
      const streamId = nextId;
      if (streamId > MOST_31_BITS) fail(new Error("the connection has no stream ids left"));
      if (fault === undefined) {
        nextId += 2;
        streams.set(streamId, { receiver, outgoing: sender.begin(streamId), received: 0 });
        writer.frame(FrameType.HEADERS, Flag.END_HEADERS, streamId, headerBlock);
        leaveSoon();
      } else {
        receiver.onFault(fault);
      }
      return streamId;
    },
    send(streamId, bytes, isLast) {
      const stream = streams.get(streamId);
      if (stream === undefined) return;
      sender.push(stream.outgoing, bytes, isLast);
      leaveSoon();
    },
    close: () => fail(new Error("the connection was closed")),
  };
}
