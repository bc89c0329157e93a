/* HTTP/1.1 in bytes, so that a request is exactly what a case makes of it. */
import { connect } from "node:net";
import { buffer } from "node:stream/consumers";

/** Milliseconds after which a request without an answer is given up. */
const PATIENCE_MS = 20_000;

/**
 * Sends bytes over a connection of their own; gives the answer as Latin-1 text. `isWhole`: says that nothing follows, so that a broken
 * request is not waited for. Default false.
 */
export async function exchangeBytes(port: number, bytes: Buffer, isWhole = false): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port, allowHalfOpen: isWhole });
  socket.setTimeout(PATIENCE_MS, () => socket.destroy(new Error("no answer in time")));
  // The service may close a connection while it is still being written to.
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  const errors: Error[] = [];
  socket.on("error", (error) => errors.push(error));
  if (isWhole) socket.end(bytes);
  else socket.write(bytes);
  const answer = await buffer(socket).catch(() => Buffer.alloc(0));
  await closed;
  return answer.length === 0 ? `no answer (${errors[0]?.message ?? "closed"})` : answer.toString("latin1");
}

/** A response, in parts. */
export interface RawResponse {
  /** NaN for an answer that is no response. */
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** Takes a response apart. */
export function responseFrom(answer: string): RawResponse {
  const [head = "", ...rest] = answer.split("\r\n\r\n");
  const body = rest.join("\r\n\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1]);
  return { status, head, body: /transfer-encoding: chunked/i.test(head) ? dechunked(body) : body };
}

/** Writes bytes as chunks of a size. */
export function chunked(bytes: Buffer, size: number): Buffer {
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += size) {
    const part = bytes.subarray(at, at + size).toString("latin1");
    parts.push(`${part.length.toString(16)}\r\n${part}\r\n`);
  }
  return Buffer.from(`${parts.join("")}0\r\n\r\n`, "latin1");
}

function dechunked(text: string): string {
  let whole = "";
  for (let at = 0; ; ) {
    const end = text.indexOf("\r\n", at);
    const length = Number.parseInt(text.slice(at, end), 16);
    if (end < 0 || !(length > 0)) return whole;
    whole += text.slice(end + 2, end + 2 + length);
    at = end + 2 + length + 2;
  }
}
