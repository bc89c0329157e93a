import type { IncomingMessage, ServerResponse } from "node:http";
import { ControlPlaneError, ErrorReason, invalidField } from "../../errors.ts";

/** What a request of the proxy asks for. */
export interface ProxyTarget {
  readonly workspaceId: string;
  /** Path below `/v1`, with its slash and without the query: `/chat/completions`. */
  readonly path: string;
  /** The query with its question mark; empty for none. */
  readonly query: string;
}

const ROUTE = /^\/api\/redact\/([^/?]+)\/openai\/v1(\/[^?]*)?(\?.*)?$/;
/** Segments that lead elsewhere, also encoded; the model's service might read them. */
const CLIMBS = /(^|\/)(\.|%2e){1,2}(\/|$)|\\|%5c/i;

/** Reads a URL; undefined for one that is not of the proxy. Throws INVALID_FIELD for one that leads out of `/v1`. */
export function targetFrom(url: string): ProxyTarget | undefined {
  const [, workspace, path = "/", query = ""] = ROUTE.exec(url) ?? [];
  if (workspace === undefined) return undefined;
  if (CLIMBS.test(path)) throw invalidField("path", "must not hold `.` or `..` as a segment");
  try {
    return { workspaceId: decodeURIComponent(workspace), path, query };
  } catch (error) {
    throw invalidField("path", "is not encoded as a URL is", error);
  }
}

/** Reads a body whole. Rejects with BODY_TOO_LARGE past `maxBytes`, and with CANCELLED when the caller goes away. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      size += (chunk as Buffer).length;
      if (size > maxBytes) break;
      chunks.push(chunk as Buffer);
    }
  } catch (error) {
    throw new ControlPlaneError(ErrorReason.CANCELLED, "the caller went away", {}, { cause: error });
  }
  if (size <= maxBytes) return Buffer.concat(chunks);
  // What follows is read and dropped, so that the caller gets to read the answer.
  request.resume();
  const message = `the request is larger than ${maxBytes} bytes`;
  throw new ControlPlaneError(ErrorReason.BODY_TOO_LARGE, message, { max_bytes: String(maxBytes) });
}

/** Aborts when the caller goes away before the answer has ended. */
export function callerGone(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  if (response.destroyed) gone.abort();
  response.once("close", () => {
    if (!response.writableEnded) gone.abort();
  });
  return gone.signal;
}

/** Sends a whole body. Does nothing once an answer has begun. */
export function sendWhole(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string,
): void {
  if (response.headersSent || response.destroyed) return;
  const own = { "cache-control": "no-store", "x-content-type-options": "nosniff" };
  response.writeHead(status, { ...own, ...headers, "content-length": String(Buffer.byteLength(body)) }).end(body);
}

/** Sends a piece of an answer; resolves when there is room for more, or nobody reads any more. */
export async function sendPiece(response: ServerResponse, text: string): Promise<void> {
  if (text === "" || response.destroyed || response.write(text)) return;
  await new Promise<void>((resolve) => {
    const go = (): void => {
      response.off("drain", go);
      response.off("close", go);
      resolve();
    };
    response.once("drain", go);
    response.once("close", go);
  });
}
