/* Unary gRPC calls over a connection for load. */
import { createMessageReader, framed } from "./grpc-messages.ts";
import { headerBlockOf, readableFields } from "./hpack.ts";
import { connectHttp2, type Http2Connection } from "./http2-connection.ts";
import type { Target } from "./plan.ts";

/** The header block of every call to a method. */
export function headOf({ address, apiKey }: Target, path: string): Buffer {
  return headerBlockOf([
    [":method", "POST"],
    [":scheme", "http"],
    [":path", path],
    [":authority", address],
    ["content-type", "application/grpc"],
    ["te", "trailers"],
    ["x-api-key", apiKey],
  ]);
}

function decoded(message: string): string {
  try {
    return decodeURIComponent(message);
  } catch {
    return message;
  }
}

/** What a reply says that ended without what was expected of it: status and message of gRPC, or what else its end holds. */
export function faultFrom(lastBlock: Buffer): Error {
  const fields = readableFields(lastBlock);
  const message = fields.get("grpc-message");
  if (message !== undefined) return new Error(`status ${fields.get("grpc-status")}: ${decoded(message)}`);
  const told = Array.from(fields, ([name, value]) => `${name}: ${value}`).join(", ");
  return new Error(`a reply ended too early${told === "" ? "" : `; ${told}`}`);
}

/** What a caller calls with, and what it is told. */
export interface Calls {
  /** The body of the next call; undefined when there is none any more. */
  next(): Buffer | undefined;
  /** A message came; its bytes MUST NOT be used after the call. */
  onMessage(message: Buffer): void;
  /** The reply has ended, with exactly one message. */
  onReply(): void;
}

/** Makes calls of a unary method one after the other. Rejects with the first that failed. */
export function callInTurn(connection: Http2Connection, head: Buffer, calls: Calls): Promise<void> {
  return new Promise((resolve, reject) => {
    let messages = 0;
    const reader = createMessageReader((message) => {
      messages += 1;
      calls.onMessage(message);
    });
    const call = (): void => {
      const body = calls.next();
      if (body === undefined) resolve();
      else connection.send(connection.open(head, receiver), body, true);
    };
    const receiver = {
      onData: reader.take,
      onEnd(lastBlock: Buffer) {
        if (messages !== 1 || !reader.isBetweenMessages()) return reject(faultFrom(lastBlock));
        messages = 0;
        calls.onReply();
        call();
      },
      onFault: reject,
    };
    call();
  });
}

/** Makes one call on a connection of its own; gives the message of the reply. */
export async function callOnce(target: Target, path: string, message: Buffer): Promise<Buffer> {
  const connection = connectHttp2(target.address);
  const bodies = [framed(message)];
  let reply: Buffer = Buffer.alloc(0);
  const onMessage = (bytes: Buffer): void => {
    reply = Buffer.from(bytes);
  };
  try {
    await callInTurn(connection, headOf(target, path), {
      next: () => bodies.pop(),
      onMessage,
      onReply: () => undefined,
    });
    return reply;
  } finally {
    connection.close();
  }
}
