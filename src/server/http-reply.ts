import type { IncomingMessage, ServerResponse } from "node:http";
import { errorBodyFrom } from "./errors.ts";

/** The value of a request header by its name in lower case; several values are joined by `, `. */
export function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "object" ? value.join(", ") : value;
}

const NEVER_STORED = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

/** Sends a JSON text; it is never cached. */
export function sendJson(
  response: ServerResponse,
  status: number,
  json: string | Buffer,
  headers: Readonly<Record<string, string>> = {},
): void {
  sendText(response, status, "application/json", json, headers);
}

/** Sends a text of any type; it is never cached. */
export function sendText(
  response: ServerResponse,
  status: number,
  contentType: string,
  text: string | Buffer,
  headers: Readonly<Record<string, string>> = {},
): void {
  const body = Buffer.from(text);
  const own = { "content-type": contentType, "content-length": body.length };
  response.writeHead(status, { ...NEVER_STORED, ...headers, ...own }).end(body);
}

/** Sends anything thrown as the REST error. Does nothing once the response has started. */
export function sendError(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) return;
  const { status, body, headers } = errorBodyFrom(error);
  sendJson(response, status, JSON.stringify(body), headers);
}
