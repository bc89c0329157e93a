import type { ServerInterceptingCall, ServerInterceptor } from "@grpc/grpc-js";

/** Bytes of one call's replies that may wait to be sent before its writer is held back. */
const MAX_UNSENT_BYTES = 65_536;

/**
 * Tells the writer of a stream's reply at once that it is written, as long as little waits. grpc-js tells it a turn of
 * the event loop later, when the bytes are with the socket, and takes the next reply only then: each reply would cost a
 * turn and a system call of its own. In order all the same: HTTP/2 sends what was written in that order.
 */
export const sendWithoutWaiting: ServerInterceptor = ({ responseStream }, call) => {
  if (!responseStream) return call as ServerInterceptingCall;
  const send = call.sendMessage;
  let unsent = 0;
  let heldBack: (() => void) | undefined;
  call.sendMessage = function sendMessage(this: ServerInterceptingCall, message, written) {
    const bytes = Buffer.isBuffer(message) ? message.byteLength : 0;
    unsent += bytes;
    send.call(this, message, () => {
      unsent -= bytes;
      if (unsent >= MAX_UNSENT_BYTES) return;
      const resume = heldBack;
      heldBack = undefined;
      resume?.();
    });
    if (unsent < MAX_UNSENT_BYTES) written();
    else heldBack = written;
  };
  return call as ServerInterceptingCall;
};
