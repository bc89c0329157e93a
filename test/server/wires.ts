import { request as httpRequest } from "node:http";
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http2";
import {
  create,
  type DescMethod,
  fromBinary,
  type Message,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { errorFromJsonBytes } from "@connectrpc/connect/protocol-connect";
import {
  type Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  Metadata,
  type ServiceError,
} from "@grpc/grpc-js";
import {
  EnforcementService,
  type InterceptRequestSchema,
  type InterceptResponse,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";

/** A key that may do everything. */
export const ADMIN_KEY = "acp_admin_0123456789abcdef";
/** The headers of a caller that may do everything. */
export const KEY = { "x-api-key": ADMIN_KEY };
/** An action that passes every check. */
export const GOOD = { actionType: "send", agentId: "agt_1" };

/** How a call ended, read by a client that knows nothing but the protocol and the published error details. */
export interface Outcome {
  readonly code: string;
  readonly message: string;
  readonly reason: string | undefined;
  readonly domain: string | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly { field: string; description: string; reason: string }[];
  readonly requestId: string | undefined;
  readonly response: InterceptResponse | Record<string, unknown> | undefined;
}

export type InterceptInit = MessageInitShape<typeof InterceptRequestSchema>;

/** Calls Intercept as a REST client. */
export async function restIntercept(
  baseUrl: string,
  request: InterceptInit,
  headers: Record<string, string>,
): Promise<Outcome> {
  const { actionType, actionContent, agentId, metadata } = request;
  const body = { action_type: actionType, action_content: actionContent, agent_id: agentId, metadata };
  const init = {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  return restOutcome(await fetch(`${baseUrl}/v1/enforce/intercept`, init));
}

interface RestError {
  readonly status: string;
  readonly message: string;
  readonly details: readonly [
    { reason: string; domain: string; metadata: Record<string, string> },
    { field_violations: Outcome["violations"] }?,
  ];
}

export async function restOutcome(response: Response): Promise<Outcome> {
  const json = (await response.json()) as { error?: RestError };
  const [info, bad] = json.error?.details ?? [];
  return {
    code: json.error?.status ?? "OK",
    message: json.error?.message ?? "",
    reason: info?.reason,
    domain: info?.domain,
    metadata: info?.metadata ?? {},
    violations: bad?.field_violations ?? [],
    requestId: response.headers.get("x-request-id") ?? undefined,
    response: json.error === undefined ? (json as Record<string, unknown>) : undefined,
  };
}

/** Calls Intercept as a Connect or gRPC-Web client. */
export async function connectIntercept(
  transport: Transport,
  request: InterceptInit,
  headers: Record<string, string>,
): Promise<Outcome> {
  let requestId: string | undefined;
  const onHeader = (received: Headers) => {
    requestId = received.get("x-request-id") ?? undefined;
  };
  try {
    const response = await createClient(EnforcementService, transport).intercept(request, { headers, onHeader });
    return { ...failed("OK", ""), response, requestId };
  } catch (error) {
    return connectOutcome(ConnectError.from(error), requestId);
  }
}

export function connectOutcome(error: ConnectError, requestId?: string): Outcome {
  const [info] = error.findDetails(ErrorInfoSchema);
  const [bad] = error.findDetails(BadRequestSchema);
  return {
    ...failed(codeWord(error.code), error.rawMessage),
    reason: info?.reason,
    domain: info?.domain,
    metadata: info?.metadata ?? {},
    violations: (bad?.fieldViolations ?? []).map(({ field, description, reason }) => ({ field, description, reason })),
    requestId: requestId ?? error.metadata.get("x-request-id") ?? undefined,
  };
}

/** The outcome of a Connect call whose answer came as bytes. */
export function connectBodyOutcome({ body }: { readonly body: Buffer }): Outcome {
  return connectOutcome(errorFromJsonBytes(body, undefined, new ConnectError("unreadable")));
}

function failed(code: string, message: string): Outcome {
  const none = { reason: undefined, domain: undefined, requestId: undefined, response: undefined };
  return { code, message, ...none, metadata: {}, violations: [] };
}

const CODE_WORDS = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
];

function codeWord(code: number): string {
  return CODE_WORDS[code] ?? String(code);
}

export function grpcMetadata(headers: Readonly<Record<string, string>> = KEY): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  return metadata;
}

export const grpcPath = (method: DescMethod): string => `/${method.parent.typeName}/${method.name}`;
export const grpcEncode = (method: DescMethod) => (message: Message) => Buffer.from(toBinary(method.input, message));
export const grpcDecode = (method: DescMethod) => (bytes: Buffer) => fromBinary(method.output, bytes);

/** Opens a bidirectional stream as a grpc-js client. */
export function grpcConverse(
  client: Client,
  method: DescMethod,
  headers?: Record<string, string>,
): ClientDuplexStream<Message, Message> {
  return client.makeBidiStreamRequest(grpcPath(method), grpcEncode(method), grpcDecode(method), grpcMetadata(headers));
}

/** Opens a server stream as a grpc-js client, with an empty request. */
export function grpcWatch(
  client: Client,
  method: DescMethod,
  headers?: Record<string, string>,
): ClientReadableStream<Message> {
  const request = create(method.input) as Message;
  return client.makeServerStreamRequest(
    grpcPath(method),
    grpcEncode(method),
    grpcDecode(method),
    request,
    grpcMetadata(headers),
  );
}

/** Resolves when a stream ends: with its error, or with undefined. */
export function endOf(call: ClientReadableStream<Message>): Promise<ServiceError | undefined> {
  return new Promise((resolve) => {
    call.once("error", (error) => resolve(error as ServiceError));
    call.once("end", () => resolve(undefined));
  });
}

/** Calls Intercept as a grpc-js client. */
export function grpcIntercept(
  client: Client,
  request: InterceptInit,
  headers: Record<string, string>,
): Promise<Outcome> {
  const method = EnforcementService.method.intercept;
  return new Promise((resolve) => {
    let requestId: string | undefined;
    const call = client.makeUnaryRequest(
      grpcPath(method),
      grpcEncode(method) as (message: Message) => Buffer,
      grpcDecode(method),
      create(method.input, request) as Message,
      grpcMetadata(headers),
      (error, response) => {
        if (error !== null) resolve(grpcOutcome(error));
        else resolve({ ...failed("OK", ""), response: response as MessageShape<typeof method.output>, requestId });
      },
    );
    call.on("metadata", (metadata: Metadata) => {
      requestId = metadata.get("x-request-id")[0]?.toString();
    });
  });
}

/** Makes a gRPC call that fails, with the bytes of its request as they are. */
export function grpcFailure(client: Client, path: string, request: Buffer): Promise<Outcome> {
  const bytes = (raw: Buffer) => raw;
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(path, bytes, bytes, request, grpcMetadata(), (error) => {
      if (error === null) reject(new Error("the call did not fail"));
      else resolve(grpcOutcome(error));
    });
  });
}

/** Returns the error that a grpc-js client makes of trailers. */
export function serviceErrorFrom(trailers: OutgoingHttpHeaders): ServiceError {
  const metadata = Metadata.fromHttp2Headers(trailers as IncomingHttpHeaders);
  const details = decodeURI(String(trailers["grpc-message"]));
  return Object.assign(new Error(details), { code: Number(trailers["grpc-status"]), details, metadata });
}

export function grpcOutcome(error: ServiceError): Outcome {
  const [bytes] = error.metadata.get("grpc-status-details-bin");
  const status = bytes === undefined ? undefined : fromBinary(StatusSchema, bytes as Buffer);
  const details = status?.details ?? [];
  const info = details.map((any) => anyUnpack(any, ErrorInfoSchema)).find((detail) => detail !== undefined);
  const bad = details.map((any) => anyUnpack(any, BadRequestSchema)).find((detail) => detail !== undefined);
  return {
    ...failed(codeWord(error.code), error.details),
    reason: info?.reason,
    domain: info?.domain,
    metadata: info?.metadata ?? {},
    violations: (bad?.fieldViolations ?? []).map(({ field, description, reason }) => ({ field, description, reason })),
    requestId: error.metadata.get("x-request-id")[0]?.toString(),
  };
}

/** Sends bytes as they are and gives back the status and the text of the answer. */
export function rawPost(
  port: number,
  path: string,
  headers: Readonly<Record<string, string>>,
  body: string | Buffer,
): Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ host: "127.0.0.1", port, path, method: "POST", headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
      );
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
