import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import {
  ControlPlaneError,
  codeFromReason,
  codeName,
  controlPlaneErrorFrom,
  ErrorReason,
  httpStatusFromReason,
  invalidField,
} from "../../errors.ts";

/** Target of a request to the proxy. */
export interface ProxyTarget {
  readonly workspaceId: string;
  /** Path below `/v1`, with its slash and without the query: `/chat/completions`. */
  readonly path: string;
  /** The query with its question mark; empty for none. */
  readonly query: string;
}

const ROUTE = /^\/api\/redact\/([^/?]+)\/openai\/v1(\/[^?]*)?(\?.*)?$/;
/** Dot segments and backslashes, also encoded, which the model's service might resolve. */
const CLIMBS = /(^|\/)(\.|%2e){1,2}(\/|$)|\\|%5c/i;

/** Parses a URL; undefined if it is not the proxy's. Throws INVALID_FIELD if it leads out of `/v1`. */
export function parseTarget(url: string): ProxyTarget | undefined {
  const [, workspace, path = "/", query = ""] = ROUTE.exec(url) ?? [];
  if (workspace === undefined) return undefined;
  if (CLIMBS.test(path)) throw invalidField("path", "must not hold `.` or `..` as a segment");
  try {
    return { workspaceId: decodeURIComponent(workspace), path, query };
  } catch (error) {
    throw invalidField("path", "is not encoded as a URL is", error);
  }
}

/** Reads a whole body. Rejects with BODY_TOO_LARGE past `maxBytes`, and with CANCELLED when the caller goes away. */
export async function readRequestBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
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
  // The rest is read and dropped, so that the caller gets to read the response.
  request.resume();
  const message = `the request is larger than ${maxBytes} bytes`;
  throw new ControlPlaneError(ErrorReason.BODY_TOO_LARGE, message, { max_bytes: String(maxBytes) });
}

/** Returns a signal that aborts when the caller disconnects before the response has ended. */
export function disconnectSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  if (response.destroyed) controller.abort();
  response.once("close", () => {
    if (!response.writableEnded) controller.abort();
  });
  return controller.signal;
}

/** Sends a response with its whole body. Does nothing if a response has begun. */
export function sendResponse(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string,
): void {
  if (response.headersSent || response.destroyed) return;
  const own = { "cache-control": "no-store", "x-content-type-options": "nosniff" };
  response.writeHead(status, { ...own, ...headers, "content-length": String(Buffer.byteLength(body)) }).end(body);
}

/** Writes a chunk with back-pressure: resolves once there is room for more, or the caller has disconnected. */
export async function writeChunk(response: ServerResponse, text: string): Promise<void> {
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

/** Headers of a caller that are forwarded; not cookies, keys and headers of the connection. */
const UP = /^(accept|user-agent|openai-(organization|project|beta)|idempotency-key|x-stainless-[\w-]+)$/;
/** Headers of the model's service that are returned to the caller. */
const DOWN = /^(retry-after(-ms)?|x-should-retry|openai-[\w-]+|x-ratelimit-[\w-]+)$/;

function pickHeaders(headers: IncomingHttpHeaders, names: RegExp): Record<string, string> {
  const entries = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    names.test(name) && typeof value === "string" ? [[name, value]] : [],
  );
  return Object.fromEntries(entries);
}

/** Headers for the model's service. */
export function requestHeaders(
  headers: IncomingHttpHeaders,
  authorization: string | undefined,
): Record<string, string> {
  return { ...pickHeaders(headers, UP), ...(authorization === undefined ? {} : { authorization }) };
}

/** Headers for the caller. */
export const responseHeaders = (headers: IncomingHttpHeaders): Record<string, string> => pickHeaders(headers, DOWN);

/** Media type of a body in lower case, without parameters; empty if there is none. */
export function mediaTypeOf(headers: IncomingHttpHeaders): string {
  const [type = ""] = (headers["content-type"] ?? "").split(";");
  return type.trim().toLowerCase();
}

/** True for a JSON media type. */
export const isJsonType = (type: string): boolean => /^application\/([\w.-]+\+)?json$/.test(type);

/** An error in OpenAI's form. */
export interface OpenAiError {
  readonly status: number;
  readonly body: { readonly error: { message: string; type: string; param: string | null; code: string | null } };
}

const TYPE_BY_STATUS: ReadonlyMap<number, string> = new Map([
  [401, "authentication_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [429, "rate_limit_error"],
]);

function errorType(status: number): string {
  return TYPE_BY_STATUS.get(status) ?? (status >= 500 ? "server_error" : "invalid_request_error");
}

/** Converts a thrown value; the code is the reason in lower case. An unknown fault gets a fixed text. */
export function openAiErrorFrom(error: unknown): OpenAiError {
  const fault = controlPlaneErrorFrom(error);
  const status = httpStatusFromReason(fault.reason);
  const code = (ErrorReason[fault.reason] ?? codeName(codeFromReason(fault.reason))).toLowerCase();
  const param = fault.violations[0]?.field ?? null;
  return { status, body: { error: { message: fault.message, type: errorType(status), param, code } } };
}

/** Converts an upstream's error of an unknown form. */
export function plainOpenAiError(status: number, message: string): OpenAiError {
  return { status, body: { error: { message, type: errorType(status), param: null, code: null } } };
}
