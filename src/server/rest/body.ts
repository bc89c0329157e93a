import type { IncomingMessage } from "node:http";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";
import { bodyTooLarge, cancelled } from "../errors.ts";
import { mayHaveBody } from "../http-reply.ts";

const EMPTY = Buffer.alloc(0);

/**
 * Reads a whole JSON body. Throws BODY_TOO_LARGE as soon as the declared or the received size exceeds `maxBytes`,
 * what `hold` throws for a part that arrived, UNSUPPORTED_MEDIA_TYPE for anything but JSON in plain UTF-8, and CANCELLED if the client leaves.
 */
export async function readJsonBody(
  request: IncomingMessage,
  maxBytes: number,
  hold: (bytes: number) => void,
): Promise<Buffer> {
  if (!mayHaveBody(request)) return EMPTY;
  const declared = Number(request.headers["content-length"] ?? 0);
  if (declared > maxBytes) throw bodyTooLarge(maxBytes);
  assertUncompressed(request);
  const isJson = isJsonMediaType(request.headers["content-type"]);
  if (!isJson && declared > 0) throw notJson(request.headers["content-type"]);
  const body = await collect(request, maxBytes, hold);
  if (!isJson && body.length > 0) throw notJson(request.headers["content-type"]);
  return body;
}

function collect(request: IncomingMessage, maxBytes: number, hold: (bytes: number) => void): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (error?: unknown) => {
      request.off("data", onData).off("end", onEnd).off("error", onLost).off("close", onLost);
      if (error === undefined) resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, size));
      else reject(error);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      chunks.push(chunk);
      try {
        if (size > maxBytes) throw bodyTooLarge(maxBytes);
        hold(chunk.length);
      } catch (error) {
        request.pause();
        settle(error);
      }
    };
    const onEnd = () => settle();
    const onLost = () => settle(cancelled());
    request.on("data", onData).on("end", onEnd).on("error", onLost).on("close", onLost);
  });
}

function assertUncompressed(request: IncomingMessage): void {
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

function notJson(contentType = ""): ControlPlaneError {
  const text = `content type \`${contentType}\` is not supported; send \`application/json\` in utf-8`;
  return new ControlPlaneError(ErrorReason.UNSUPPORTED_MEDIA_TYPE, text, { content_type: contentType });
}
