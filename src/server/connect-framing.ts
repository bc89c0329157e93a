import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { DescMethod, Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { compressionGzip } from "@connectrpc/connect-node";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { timeoutFromGrpcHeader, timeoutFromHeader, type Wire } from "./incoming.ts";
import type { MessageDecoder } from "./message-decoder.ts";
import { bodyTooLarge } from "./refusals.ts";
import { readBody } from "./request-body.ts";

/** How a content type carries messages. */
export interface Framing {
  readonly wire: Exclude<Wire, "rest">;
  readonly isJson: boolean;
  /** Messages come with a flag byte and their length before them; else the body is the message. */
  readonly isEnveloped: boolean;
  /** The request header that names the compression. */
  readonly encodingHeader: string;
}

/** The decoders of a method's request, by the form of the body. */
export interface RequestDecoders {
  readonly binary: MessageDecoder;
  readonly json: MessageDecoder;
}

/** Flag byte and big-endian length before an enveloped message. */
const PREFIX_BYTES = 5;
const COMPRESSED = 1;
const GRPC = /^application\/grpc(-web)?(?:\+(proto|json))?$/;
const CONNECT = /^application\/(connect\+)?(proto|json)$/;

/** Reads a content type; `undefined` when it is none of Connect, gRPC-Web and gRPC, or not in UTF-8. */
export function framingFrom(contentType = ""): Framing | undefined {
  const [type = "", ...parameters] = contentType.toLowerCase().split(/\s*;\s*/);
  if (parameters.some((parameter) => !/^charset="?utf-?8"?$/.test(parameter))) return undefined;
  const grpc = GRPC.exec(type);
  if (grpc !== null) {
    const wire = grpc[1] === undefined ? "grpc" : "grpc-web";
    return { wire, isJson: grpc[2] === "json", isEnveloped: true, encodingHeader: "grpc-encoding" };
  }
  const connect = CONNECT.exec(type);
  if (connect === null) return undefined;
  const isEnveloped = connect[1] !== undefined;
  const encodingHeader = isEnveloped ? "connect-content-encoding" : "content-encoding";
  return { wire: "connect", isJson: connect[2] === "json", isEnveloped, encodingHeader };
}

/** Whether a method can be called in a framing: Connect frames unary calls and streams differently. */
export function suits({ wire, isEnveloped }: Framing, method: DescMethod): boolean {
  return wire !== "connect" || isEnveloped === (method.methodKind !== "unary");
}

/** The milliseconds that the caller gives the call. Throws INVALID_FIELD for a header that cannot be read. */
export function timeoutOf({ wire }: Framing, headers: IncomingHttpHeaders): number | undefined {
  if (wire === "connect") return timeoutFromHeader("connect-timeout-ms", single(headers["connect-timeout-ms"]));
  return timeoutFromGrpcHeader(single(headers["grpc-timeout"]));
}

/** A header's value; several values are joined by `, `. */
export function single(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === "object" ? value.join(", ") : value;
}

/** The body that stands for a message without fields; what the framework is given for a request that was read here. */
export function emptyBody({ isJson, isEnveloped }: Framing): Uint8Array {
  const message = Buffer.from(isJson ? "{}" : "");
  if (!isEnveloped) return message;
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** Reads the one request message of a call. Rejects with a `ControlPlaneError` for a body that holds none. */
export async function readRequest(
  http: IncomingMessage,
  framing: Framing,
  decoders: RequestDecoders,
  maxBytes: number,
): Promise<Message> {
  const body = await readBody(http, framing.isEnveloped ? maxBytes + PREFIX_BYTES : maxBytes);
  const { bytes, isCompressed } = framing.isEnveloped ? opened(body, maxBytes) : { bytes: body, isCompressed: true };
  const encoding = single(http.headers[framing.encodingHeader]);
  const plain = isCompressed ? await decompressed(bytes, encoding, maxBytes) : bytes;
  return framing.isJson ? decoders.json(plain) : decoders.binary(plain);
}

function opened(body: Buffer, maxBytes: number): { bytes: Buffer; isCompressed: boolean } {
  const size = body.length < PREFIX_BYTES ? -1 : body.readUInt32BE(1);
  if (size > maxBytes) throw bodyTooLarge(maxBytes);
  if (body.length !== PREFIX_BYTES + size) throw notOneMessage();
  return { bytes: body.subarray(PREFIX_BYTES), isCompressed: (body.readUInt8(0) & COMPRESSED) !== 0 };
}

function notOneMessage(): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.INVALID_FIELD, "the request body must hold exactly one whole message");
}

async function decompressed(bytes: Buffer, encoding: string | undefined, maxBytes: number): Promise<Uint8Array> {
  if (encoding === undefined || encoding === "" || encoding === "identity") return bytes;
  if (encoding !== compressionGzip.name) throw unsupportedEncoding(encoding);
  try {
    return await compressionGzip.decompress(bytes, maxBytes);
  } catch (cause) {
    const isTooLarge = cause instanceof ConnectError && cause.code === Code.ResourceExhausted;
    throw isTooLarge ? bodyTooLarge(maxBytes) : brokenCompression(cause);
  }
}

function unsupportedEncoding(encoding: string): ControlPlaneError {
  const text = `content encoding \`${encoding}\` is not supported; send \`gzip\` or \`identity\``;
  return new ControlPlaneError(ErrorReason.UNSUPPORTED_MEDIA_TYPE, text, { content_encoding: encoding });
}

function brokenCompression(cause: unknown): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.INVALID_FIELD, "the request body cannot be decompressed", {}, { cause });
}
