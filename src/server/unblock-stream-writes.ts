import type { ServerInterceptingCall, ServerInterceptor } from "@grpc/grpc-js";

/** Bytes of one call's replies that may wait to be sent before its writer is held back. */
const MAX_UNSENT_BYTES = 65_536;

/**
 * Tells the writer of a stream at once that a reply is written, while less than `MAX_UNSENT_BYTES` wait to be sent. grpc-js
 * tells it only when the bytes are with the socket, so that each reply would cost a turn of the event loop and a system call
 * of its own. The order is kept: HTTP/2 sends in the order of writing.
 */
export const unblockStreamWrites: ServerInterceptor = ({ responseStream }, call) => {
  if (!responseStream) return call as ServerInterceptingCall;
  const send = call.sendMessage;
  let unsentBytes = 0;
  let heldBack: (() => void) | undefined;
  call.sendMessage = function sendMessage(this: ServerInterceptingCall, message, written) {
    const bytes = Buffer.isBuffer(message) ? message.byteLength : 0;
    unsentBytes += bytes;
    send.call(this, message, () => {
      unsentBytes -= bytes;
      if (unsentBytes >= MAX_UNSENT_BYTES) return;
      const resume = heldBack;
      heldBack = undefined;
      resume?.();
    });
    if (unsentBytes < MAX_UNSENT_BYTES) written();
    else heldBack = written;
  };
  return call as ServerInterceptingCall;
};
