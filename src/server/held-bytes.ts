import { potSizeFor, SharedPot } from "../async/shared-pot.ts";
import { overShare } from "../errors.ts";

/**
 * Bytes that a process holds at once of bodies on one kind of route, from their arrival until their calls end, or of one kind of
 * answers. One workspace alone may hold half of them.
 */
const MAX_HELD_BYTES = 268_435_456;

/** Bytes that a call which may wait for a person counts besides its body. */
export const WAITING_OVERHEAD = 4_096;

/** Returns the bytes that a process holds at once, where one body or answer has at most `maxBytes`. */
export function maxHeldBytesFor(maxBytes: number): number {
  return potSizeFor(maxBytes, MAX_HELD_BYTES);
}

/** Creates the pot of bytes of answers to unary calls that their callers have not read. */
export function createAnswerBytes(size: number = MAX_HELD_BYTES): SharedPot {
  return new SharedPot({
    name: "answer_bytes",
    size,
    unit: "bytes of answers that are not read",
    advice: "the request may have taken effect; read what was answered, or ask for less at once",
    retryAfterSeconds: 1,
    refuse: overShare,
  });
}

/** Creates the pot of bytes of one kind of route. */
export function createHeldBytes(
  name: "request_bytes" | "mcp_message_bytes" | "hook_bytes" | "kept_result_bytes",
  size: number = MAX_HELD_BYTES,
): SharedPot {
  return new SharedPot({
    name,
    size,
    unit: "bytes of requests",
    advice: "send less at once",
    retryAfterSeconds: 1,
    refuse: overShare,
  });
}
