import type { ServerInterceptingCall, ServerInterceptor } from "@grpc/grpc-js";

/** Maximum unsent bytes of a call before back-pressure stops its writer. */
const MAX_UNSENT_BYTES = 65_536;

/**
 * Confirms each write of a stream at once while fewer than `MAX_UNSENT_BYTES` are unsent. grpc-js confirms a write only when
 * the socket has the bytes, so each reply would cost an event-loop turn and a system call. Replies keep their order: HTTP/2
 * sends in the order of writing.
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
