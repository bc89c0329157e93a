import type { IncomingMessage } from "node:http";
import { bodyTooLarge, cancelled } from "./refusals.ts";

/**
 * Reads a request body whole. Rejects with BODY_TOO_LARGE once it passes `maxBytes`, and with CANCELLED when the client
 * leaves. What follows a refused part is read and dropped, so that the client gets to read the answer.
 */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size <= maxBytes) chunks.push(chunk);
      else if (chunks.length > 0 || size === chunk.length) {
        chunks.length = 0;
        reject(bodyTooLarge(maxBytes));
      }
    });
    request.once("end", () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    request.once("error", () => reject(cancelled()));
    request.once("close", () => reject(cancelled()));
  });
}
