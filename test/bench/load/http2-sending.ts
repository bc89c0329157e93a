/*
 * What a peer allows to be sent (RFC 9113, section 5.2): a window for each stream and one for the connection. What does not
 * fit waits until they grow.
 */
import { Flag, FRAME_SIZE, FrameType, type FrameWriter } from "./http2-frames.ts";

/** Bytes that either side may send on a stream and on a connection before it is told anything else. */
export const DEFAULT_WINDOW = 65_535;

/** The body that a stream sends. */
export interface Outgoing {
  readonly streamId: number;
  /** Bytes that may be sent; below zero after the peer made its windows smaller. */
  window: number;
  readonly queue: Buffer[];
  /** Bytes of the first in the queue that are sent. */
  sent: number;
  /** Whether the queue holds all that is to come. */
  isComplete: boolean;
  /** Whether all is sent. */
  hasEnded: boolean;
}

/** Sends the bodies of a connection. */
export interface Sender {
  begin(streamId: number): Outgoing;
  /** Sends bytes as soon as the windows allow. They are read until then. */
  push(outgoing: Outgoing, bytes: Buffer, isLast: boolean): void;
  /** Sends nothing more of a body. */
  drop(outgoing: Outgoing): void;
  /** The peer allows so many bytes more, on a stream or on the connection. */
  widen(outgoing: Outgoing | "connection", bytes: number): void;
  /** The peer changed the window that streams begin with, which holds for those that are `open` as well. */
  resize(bytes: number, open: Iterable<Outgoing>): void;
}

/** Creates the sender of a new connection. */
export function createSender(writer: FrameWriter): Sender {
  const waiting = new Set<Outgoing>();
  let window = DEFAULT_WINDOW;
  let initialWindow = DEFAULT_WINDOW;

  /** Sends a frame of the first in the queue; gives false when the windows do not allow any. */
  const sendFrame = (outgoing: Outgoing): boolean => {
    const { streamId, queue, sent } = outgoing;
    const bytes = queue[0] as Buffer;
    const left = bytes.length - sent;
    const length = Math.max(0, Math.min(left, FRAME_SIZE, window, outgoing.window));
    // A frame without bytes, which only ends the stream, needs no window.
    if (length === 0 && left > 0) return false;
    const isLast = outgoing.isComplete && queue.length === 1 && length === left;
    writer.frame(FrameType.DATA, isLast ? Flag.END_STREAM : 0, streamId, bytes, sent, sent + length);
    window -= length;
    outgoing.window -= length;
    outgoing.sent = length === left ? 0 : sent + length;
    if (length === left) queue.shift();
    outgoing.hasEnded = isLast;
    return true;
  };
  const pump = (outgoing: Outgoing): void => {
    while (outgoing.queue.length > 0) {
      if (sendFrame(outgoing)) continue;
      waiting.add(outgoing);
      return;
    }
    waiting.delete(outgoing);
  };
  const pumpAll = (): void => {
    for (const outgoing of waiting) pump(outgoing);
  };

  return {
    begin: (streamId) => ({
      streamId,
      window: initialWindow,
      queue: [],
      sent: 0,
      isComplete: false,
      hasEnded: false,
    }),
    push(outgoing, bytes, isLast) {
      outgoing.queue.push(bytes);
      outgoing.isComplete = isLast;
      pump(outgoing);
    },
    drop: (outgoing) => void waiting.delete(outgoing),
    widen(outgoing, bytes) {
      if (outgoing === "connection") {
        window += bytes;
        pumpAll();
      } else {
        outgoing.window += bytes;
        pump(outgoing);
      }
    },
    resize(bytes, open) {
      for (const outgoing of open) outgoing.window += bytes - initialWindow;
      initialWindow = bytes;
      pumpAll();
    },
  };
}
