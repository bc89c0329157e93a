import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import {
  ControlPlaneError,
  codeFromReason,
  codeName,
  controlPlaneErrorFrom,
  ErrorReason,
  httpStatusFromReason,
  retryAfterSecondsOf,
} from "../../errors.ts";
import type { Scrubber } from "../text/scrubber.ts";
import type { ProxyCaller } from "./caller.ts";

/** Bounds of the body of a request. */
interface BodyBounds {
  readonly maxBodyBytes: number;
  /** Counts bytes as they arrive, and may throw. */
  readonly hold: (bytes: number) => void;
}

/** Reads a whole body. Rejects with BODY_TOO_LARGE beyond its bound, and with CANCELLED when the caller disconnects. */
export async function readRequestBody(
  request: IncomingMessage,
  { maxBodyBytes: maxBytes, hold }: BodyBounds,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      size += (chunk as Buffer).length;
      if (size > maxBytes) break;
      hold((chunk as Buffer).length);
      chunks.push(chunk as Buffer);
    }
  } catch (error) {
    if (error instanceof ControlPlaneError) throw error;
    throw new ControlPlaneError(ErrorReason.CANCELLED, "the caller disconnected", {}, { cause: error });
  }
  if (size <= maxBytes) return Buffer.concat(chunks);
  // The rest is read and dropped, so that the caller can read the response.
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

/** Calls back once a response is sent to its end, or its connection is closed. */
export function onceClosed(response: ServerResponse, listener: () => void): void {
  if (response.closed || response.destroyed) listener();
  else response.once("close", listener);
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

/**
 * Headers of a caller that are forwarded, with the form of their values: only words of the protocol, never free text or a key.
 */
const UP: ReadonlyMap<string, RegExp> = new Map([["openai-beta", /^[a-z][a-z0-9_-]{0,39}=v\d{1,3}$/]]);
/** Headers that select a part of the account; they are forwarded if the account is the caller's own. */
const ACCOUNT: ReadonlyMap<string, RegExp> = new Map([
  ["openai-organization", /^org-[\w-]{1,64}$/],
  ["openai-project", /^proj_[\w-]{1,64}$/],
]);
/** Headers of the model's service that are returned to the caller. */
const DOWN = /^(retry-after(-ms)?|x-should-retry|openai-(model|processing-ms|version)|x-ratelimit-[\w-]+)$/;

function pickHeaders(
  headers: IncomingHttpHeaders,
  isPicked: (name: string, value: string) => boolean,
): Record<string, string> {
  const entries = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    typeof value === "string" && isPicked(name, value) ? [[name, value]] : [],
  );
  return Object.fromEntries(entries);
}

/** Headers for the model's service. */
export function requestHeaders(
  headers: IncomingHttpHeaders,
  { authorization, isOwnAccount }: Pick<ProxyCaller, "authorization" | "isOwnAccount">,
): Record<string, string> {
  const picked = pickHeaders(headers, (name, value) => {
    const form = UP.get(name) ?? (isOwnAccount ? ACCOUNT.get(name) : undefined);
    return form?.test(value) ?? false;
  });
  const accept = "application/json, text/event-stream";
  return { ...picked, accept, ...(authorization === undefined ? {} : { authorization }) };
}

/** Headers for the caller, without headers that contain `secret` or a personal value. */
export const responseHeaders = (
  headers: IncomingHttpHeaders,
  secret: string | undefined,
  { find }: Pick<Scrubber, "find">,
): Record<string, string> =>
  pickHeaders(headers, (name, value) => {
    if (!DOWN.test(name) || (secret !== undefined && value.includes(secret))) return false;
    return find(name).length === 0 && find(value).length === 0;
  });

/** Media type of a body in lower case, without parameters; else empty. */
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
  readonly headers: Readonly<Record<string, string>>;
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

/** Converts a thrown value. The code is the reason in lower case. An unknown fault gets a fixed text. */
export function openAiErrorFrom(error: unknown): OpenAiError {
  const fault = controlPlaneErrorFrom(error);
  const status = httpStatusFromReason(fault.reason);
  const code = (ErrorReason[fault.reason] ?? codeName(codeFromReason(fault.reason))).toLowerCase();
  const param = fault.violations[0]?.field ?? null;
  const retryAfter = retryAfterSecondsOf(fault);
  const headers: Record<string, string> = retryAfter === undefined ? {} : { "retry-after": String(retryAfter) };
  return { status, body: { error: { message: fault.message, type: errorType(status), param, code } }, headers };
}

/** Converts an upstream's error in an unknown form. */
export function plainOpenAiError(status: number, message: string): OpenAiError {
  return { status, body: { error: { message, type: errorType(status), param: null, code: null } }, headers: {} };
}
