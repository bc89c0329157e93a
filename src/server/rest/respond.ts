import type { IncomingMessage, ServerResponse } from "node:http";
import { JSON_TYPE } from "./accept.ts";
import { canKeepConnection } from "./body.ts";
import type { RestErrorBody } from "./call.ts";

const NEVER_STORED = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

/** Sends a whole JSON text with status 200. */
export function sendJson(response: ServerResponse, text: string): void {
  const headers = { ...NEVER_STORED, "content-type": JSON_TYPE, "content-length": Buffer.byteLength(text) };
  response.writeHead(200, headers).end(text);
}

/** Sends an error. A request body that is too long to be worth reading closes the connection afterwards. */
export function sendError(request: IncomingMessage, response: ServerResponse, error: RestErrorBody): void {
  const text = JSON.stringify(error.body);
  const type = { "content-type": JSON_TYPE, "content-length": Buffer.byteLength(text) };
  const close = canKeepConnection(request) ? {} : { connection: "close" };
  response.writeHead(error.status, { ...NEVER_STORED, ...error.headers, ...type, ...close }).end(text);
}

/** Sends 204 with the methods that a path answers. */
export function sendAllow(response: ServerResponse, allow: string): void {
  response.writeHead(204, { allow }).end();
}

/** Sends the headers of a stream; its body follows piece by piece. */
export function openStream(response: ServerResponse, contentType: string): void {
  response.writeHead(200, { ...NEVER_STORED, "content-type": contentType, "x-accel-buffering": "no" });
  response.flushHeaders();
}
