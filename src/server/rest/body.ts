import type { IncomingMessage } from "node:http";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";

/** What is left of an unread body up to this size is read and dropped to keep the connection; a larger rest closes it. */
const DRAIN_LIMIT_BYTES = 64 * 1024;
const EMPTY = Buffer.alloc(0);

/**
 * Reads a request body whole. Throws BODY_TOO_LARGE as soon as the declared or the received size passes
 * `maxBytes`, UNSUPPORTED_MEDIA_TYPE when a body is not JSON in plain UTF-8, CANCELLED when the client leaves.
 */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  if (!mayHaveBody(request)) return EMPTY;
  const declared = Number(request.headers["content-length"] ?? 0);
  if (declared > maxBytes) throw tooLarge(maxBytes);
  assertPlainEncoding(request);
  const isJson = isJsonMediaType(request.headers["content-type"]);
  if (!isJson && declared > 0) throw unsupported(request.headers["content-type"]);
  const body = await collect(request, maxBytes);
  if (!isJson && body.length > 0) throw unsupported(request.headers["content-type"]);
  return body;
}

/** Whether the connection can serve another request once this one is answered, however far its body was read. */
export function canKeepConnection(request: IncomingMessage): boolean {
  // From HTTP/2 on each request is a stream of its own.
  if (request.httpVersionMajor > 1 || request.complete || !mayHaveBody(request)) return true;
  const declared = request.headers["content-length"];
  return declared !== undefined && Number(declared) <= DRAIN_LIMIT_BYTES;
}

function mayHaveBody(request: IncomingMessage): boolean {
  const { "content-length": length, "transfer-encoding": encoding } = request.headers;
  return encoding !== undefined || (length !== undefined && length !== "0") || request.httpVersionMajor > 1;
}

function collect(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (error?: Error) => {
      request.off("data", onData).off("end", onEnd).off("error", onLost).off("close", onLost);
      if (error === undefined) resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, size));
      else reject(error);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      chunks.push(chunk);
      if (size <= maxBytes) return;
      request.pause();
      settle(tooLarge(maxBytes));
    };
    const onEnd = () => settle();
    const onLost = (cause?: unknown) => settle(lost(cause));
    request.on("data", onData).on("end", onEnd).on("error", onLost).on("close", onLost);
  });
}

function assertPlainEncoding(request: IncomingMessage): void {
  const encoding = request.headers["content-encoding"];
  if (encoding === undefined || encoding.toLowerCase() === "identity") return;
  const text = `content encoding \`${encoding}\` is not supported; send the body uncompressed`;
  throw new ControlPlaneError(ErrorReason.UNSUPPORTED_MEDIA_TYPE, text, { content_encoding: encoding });
}

function isJsonMediaType(contentType: string | undefined): boolean {
  const [type = "", ...parameters] = (contentType ?? "").split(";").map((part) => part.trim().toLowerCase());
  if (type !== "application/json") return false;
  const charset = parameters.find((parameter) => parameter.startsWith("charset="));
  return charset === undefined || /^charset="?utf-?8"?$/.test(charset);
}

function unsupported(contentType = ""): ControlPlaneError {
  const text = `content type \`${contentType}\` is not supported; send \`application/json\` in utf-8`;
  return new ControlPlaneError(ErrorReason.UNSUPPORTED_MEDIA_TYPE, text, { content_type: contentType });
}

function tooLarge(maxBytes: number): ControlPlaneError {
  const text = `the request body is larger than ${maxBytes} bytes`;
  return new ControlPlaneError(ErrorReason.BODY_TOO_LARGE, text, { max_bytes: String(maxBytes) });
}

function lost(cause: unknown): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.CANCELLED, "the client left before the request was complete", {}, { cause });
}
