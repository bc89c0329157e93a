import type { IncomingMessage, ServerResponse } from "node:http";
import { errorBodyFrom } from "./errors.ts";

/** Returns a request header by its lower-case name; joins several values by `, `. */
export function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "object" ? value.join(", ") : value;
}

/** Calls back once a response is sent to its end, or its connection is closed. */
export function onceClosed(response: ServerResponse, listener: () => void): void {
  if (response.closed || response.destroyed) listener();
  else response.once("close", listener);
}

/** Headers of responses made for one caller. */
export const NEVER_STORED = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

/** Permissions policy of every page: none of them needs a device. */
export const PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=()";

/** Sends a JSON text that is never cached. */
export function sendJson(
  response: ServerResponse,
  status: number,
  json: string | Buffer,
  headers: Readonly<Record<string, string>> = {},
): void {
  sendText(response, status, "application/json", json, headers);
}

/** Sends a text of any type that is never cached. */
export function sendText(
  response: ServerResponse,
  status: number,
  contentType: string,
  text: string | Buffer,
  headers: Readonly<Record<string, string>> = {},
): void {
  const own = { "content-type": contentType, "content-length": Buffer.byteLength(text) };
  response.writeHead(status, { ...NEVER_STORED, ...headers, ...own }).end(text);
}

/** Maximum unread bytes of a body that are read and dropped to keep the connection. A larger rest closes the connection. */
const DRAIN_LIMIT_BYTES = 64 * 1024;

/** Sends any thrown value as a REST error. Does nothing once the response has started. */
export function sendError(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) return;
  const { status, body, headers } = errorBodyFrom(error);
  const connection = canKeepConnection(response.req) ? {} : { connection: "close" };
  sendJson(response, status, JSON.stringify(body), { ...headers, ...connection });
}

/** True for a request that may come with a body; over HTTP/2 its headers need not say so. */
export function mayHaveBody(request: IncomingMessage): boolean {
  const { "content-length": length, "transfer-encoding": encoding } = request.headers;
  return encoding !== undefined || (length !== undefined && length !== "0") || request.httpVersionMajor > 1;
}

function canKeepConnection(request: IncomingMessage): boolean {
  // In HTTP/2 each request is a stream of its own.
  if (request.httpVersionMajor > 1 || request.complete || !mayHaveBody(request)) return true;
  const declared = request.headers["content-length"];
  return declared !== undefined && Number(declared) <= DRAIN_LIMIT_BYTES;
}
