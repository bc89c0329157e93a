import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { messageFromPlain, plainFromMessage } from "./plain-json.ts";
import {
  type Answer,
  answerFromConnect,
  answerFromStatus,
  type CallOptions,
  ok,
  rpcPath,
  type Wire,
} from "./wire-answer.ts";

const RAW_TYPES = {
  "connect-json": "application/json",
  connect: "application/proto",
  "grpc-web": "application/grpc-web+proto",
};

/** Connect or gRPC-Web by the official client. */
export function connectWire(name: keyof typeof RAW_TYPES, baseUrl: string, transport: Transport): Wire {
  const headersFor = ({ key, isExpired }: CallOptions): Record<string, string> => ({
    ...(key === null ? {} : { "x-api-key": key }),
    ...(isExpired ? (name === "grpc-web" ? { "grpc-timeout": "0m" } : { "connect-timeout-ms": "0" }) : {}),
  });
  const sendRaw = async (method: DescMethod, raw: NonNullable<CallOptions["raw"]>, options: CallOptions) => {
    const payload = name === "connect-json" ? Buffer.from(raw.json ?? "") : (raw.bytes ?? Buffer.alloc(0));
    const body = name === "grpc-web" ? Buffer.concat([frameHead(payload.length), payload]) : payload;
    const headers = { ...headersFor(options), "content-type": RAW_TYPES[name] };
    return fetch(baseUrl + rpcPath(method), { method: "POST", headers, body: new Uint8Array(body) });
  };
  return {
    name,
    async unary(method, request, options) {
      if (options.raw !== undefined) return answerFromRaw(await sendRaw(method, options.raw, options));
      try {
        const message = messageFromPlain(method.input, request);
        const { message: reply } = await transport.unary(method, undefined, undefined, headersFor(options), message);
        return ok(plainFromMessage(method.output, reply));
      } catch (error) {
        if (error instanceof ConnectError) return answerFromConnect(error);
        throw error;
      }
    },
    async *stream(method, request, options) {
      const { signal } = options;
      async function* input() {
        yield messageFromPlain(method.input, request);
      }
      try {
        const reply = await transport.stream(method, signal, undefined, headersFor(options), input());
        for await (const message of reply.message) yield plainFromMessage(method.output, message);
      } catch (error) {
        if (signal?.aborted) return;
        throw error instanceof ConnectError ? answerFromConnect(error) : error;
      }
    },
  };
}

/** Marks the frame of a gRPC-Web response that holds trailers. */
const TRAILER_FLAG = 0x80;
/** Bytes of a flag and a length. */
const FRAME_HEAD = 5;

function frameHead(length: number): Buffer {
  const head = Buffer.alloc(FRAME_HEAD);
  head.writeUInt32BE(length, 1);
  return head;
}

interface ConnectErrorJson {
  readonly code: string;
  readonly message?: string;
  readonly details?: readonly { readonly type: string; readonly value: string }[];
}

/** Reads the error of a raw request; one that succeeds has the body null. */
async function answerFromRaw(response: Response): Promise<Answer> {
  const bytes = Buffer.from(await response.arrayBuffer());
  const status = grpcStatusOf(response, bytes);
  if (status !== undefined) return answerFromStatus(status.code, status.message, status.details);
  if (response.ok) return ok(null);
  const { code, message = "", details = [] } = JSON.parse(bytes.toString()) as ConnectErrorJson;
  const error = new ConnectError(message, Code.Unknown);
  const any = details.map(({ type, value }) => ({ type, value: Buffer.from(value, "base64") }));
  error.details.push(...any);
  return { ...answerFromConnect(error), code: code === "canceled" ? "CANCELLED" : code.toUpperCase() };
}

interface GrpcStatus {
  readonly code: number;
  readonly message: string;
  readonly details: Buffer | undefined;
}

/** The status of a gRPC-Web response, from its headers or its trailer frame; undefined for another protocol. */
function grpcStatusOf({ headers }: Response, bytes: Buffer): GrpcStatus | undefined {
  const fields = new Headers(headers);
  const trailer = bytes.indexOf("grpc-status:");
  if (trailer >= 0) {
    // The trailer frame is the last one and holds nothing but header lines.
    const head = Math.max(bytes.lastIndexOf(TRAILER_FLAG, trailer), 0);
    for (const line of bytes
      .subarray(head + FRAME_HEAD)
      .toString()
      .trim()
      .split("\r\n")) {
      const colon = line.indexOf(":");
      fields.set(line.slice(0, colon), line.slice(colon + 1).trim());
    }
  }
  const code = fields.get("grpc-status");
  if (code === null) return undefined;
  const details = fields.get("grpc-status-details-bin");
  const message = decodeURIComponent(fields.get("grpc-message") ?? "");
  return { code: Number(code), message, details: details === null ? undefined : Buffer.from(details, "base64") };
}
