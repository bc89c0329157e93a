import {
  type DescMethod,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  fromBinary,
  type JsonObject,
  type JsonValue,
} from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { Code, type ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";
import type { PlainJson } from "./plain-json.ts";

/** The ways into the service. */
export const WIRES = ["rest", "connect-json", "connect", "grpc-web", "grpc"] as const;
/** One of them. */
export type WireName = (typeof WIRES)[number];

/** How a call ended, as a client sees it that knows the protocol and the published error details only. */
export interface Answer {
  /** A word of `google.rpc.Code`; `OK` for success. */
  readonly code: string;
  readonly reason: string | undefined;
  readonly message: string;
  readonly metadata: JsonValue;
  readonly violations: readonly { readonly field: string; readonly description: string; readonly reason: string }[];
  /** The response in plain JSON; undefined for an error. */
  readonly body: PlainJson | undefined;
  /** The HTTP status; REST only. */
  readonly status?: number;
}

/** What a call carries beside its request. */
export interface CallOptions {
  readonly key: string | null;
  /** The call's deadline is over before it is made. */
  readonly isExpired?: boolean;
  /** Sent as it is in place of the request: JSON text on the JSON wires, the bytes of a message on the others. */
  readonly raw?: { readonly json?: string; readonly bytes?: Buffer };
  readonly signal?: AbortSignal;
}

/** A client of one wire. Requests and responses are in plain JSON. */
export interface Wire {
  readonly name: WireName;
  unary(method: DescMethodUnary, request: JsonObject, options: CallOptions): Promise<Answer>;
  /** The messages of a server stream as they come; throws an `Answer` when it fails. Ends when `options.signal` aborts. */
  stream(method: DescMethodServerStreaming, request: JsonObject, options: CallOptions): AsyncIterable<PlainJson>;
}

/** The answer of a call that succeeded. */
export const ok = (body: PlainJson, status?: number): Answer => ({
  code: "OK",
  reason: undefined,
  message: "",
  metadata: {},
  violations: [],
  body,
  ...(status === undefined ? {} : { status }),
});

function codeWord(code: number): string {
  if (code === Code.Canceled) return "CANCELLED";
  return (Code[code] ?? "OK").replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
}

/** The answer that an error of a Connect client stands for. */
export function answerFromConnect(error: ConnectError): Answer {
  const [info] = error.findDetails(ErrorInfoSchema);
  const [bad] = error.findDetails(BadRequestSchema);
  return {
    code: codeWord(error.code),
    reason: info?.reason,
    message: error.rawMessage,
    metadata: info?.metadata ?? {},
    violations: (bad?.fieldViolations ?? []).map(({ field, description, reason }) => ({ field, description, reason })),
    body: undefined,
  };
}

/** The answer that a gRPC status stands for; one that is OK has the body null. */
export function answerFromStatus(code: number, message: string, bytes: Buffer | undefined): Answer {
  if (code === 0) return ok(null);
  const details = bytes === undefined ? [] : fromBinary(StatusSchema, bytes).details;
  const info = details.map((any) => anyUnpack(any, ErrorInfoSchema)).find((each) => each !== undefined);
  const bad = details.map((any) => anyUnpack(any, BadRequestSchema)).find((each) => each !== undefined);
  return {
    code: codeWord(code),
    reason: info?.reason,
    message,
    metadata: info?.metadata ?? {},
    violations: (bad?.fieldViolations ?? []).map(({ field, description, reason }) => ({ field, description, reason })),
    body: undefined,
  };
}

/** `/package.Service/Method`. */
export const rpcPath = (method: DescMethod): string => `/${method.parent.typeName}/${method.name}`;
