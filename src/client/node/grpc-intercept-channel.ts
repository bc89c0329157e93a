import { createRequire } from "node:module";
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import type { ClientDuplexStream, Client as GrpcClient, StatusObject } from "@grpc/grpc-js";
import {
  type ClaimDecisionRequest,
  type ClaimDecisionResponse,
  EnforcementService,
  type InterceptRequest,
  type InterceptResponse,
  type InterceptStreamError,
  type InterceptStreamRequest,
  InterceptStreamRequestSchema,
  type InterceptStreamResponse,
  InterceptStreamResponseSchema,
  type ReportOutcomeRequest,
  type ReportOutcomeResponse,
} from "../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { StatusSchema } from "../../../gen/google/rpc/status_pb.js";
import { createBackOff } from "../../async/back-off.ts";
import { type Address, type AddressKind, addressFrom, HTTP_ADDRESS } from "../address.ts";
import { createDeferred } from "../deferred.ts";
import {
  ControlPlaneRequestError,
  type RequestErrorCode,
  type RequestErrorDetails,
  requestErrorCodeFrom,
  requestErrorFrom,
} from "../request-error.ts";
import type { ChannelCallOptions, InterceptChannel } from "../routes.ts";
import { later } from "../timers.ts";
import { adviceFor, assertTls, type ClientTls } from "./tls.ts";

/** Address of the gRPC port and the key to use. */
export interface GrpcInterceptChannelOptions {
  /** `host:port` without TLS, or a URL: `https` and `grpcs` use TLS, `http` and `grpc` do not. Default ports are 443 and 80. */
  readonly url: string;
  readonly apiKey: string;
  /** Certificates for an address with TLS. */
  readonly tls?: ClientTls | undefined;
}

/**
 * Creates a channel that sends every action, claim and report over one gRPC stream and matches replies by `request_id`. The first call opens the
 * stream. After the stream broke, the first call after a pause (0.1 to 5 s, with jitter) reopens it. An open stream keeps the
 * process alive until `close()`.
 */
export function createGrpcInterceptChannel(options: GrpcInterceptChannelOptions): InterceptChannel {
  return new GrpcInterceptChannel(options);
}

type InterceptStream = ClientDuplexStream<InterceptStreamRequest, InterceptStreamResponse>;

/** Kinds of replies to what was sent, other than errors, and their messages. */
interface Replies {
  readonly response: InterceptResponse;
  readonly claim: ClaimDecisionResponse;
  readonly report: ReportOutcomeResponse;
}

/** A call in flight. Settles once; later replies are ignored. */
interface PendingCall<Response = unknown> {
  /** `performance.now()` when it was sent. */
  readonly sentAt: number;
  readonly response: Promise<Response>;
  settle(result: InterceptStreamResponse["result"]): void;
  fail(error: ControlPlaneRequestError): void;
}

class GrpcInterceptChannel implements InterceptChannel {
  readonly #apiKey: string;
  readonly #address: Address;
  readonly #tls: ClientTls | undefined;
  readonly #pending = new Map<string, PendingCall>();
  readonly #backOff = createBackOff({ firstMs: 100, maxMs: 5_000 });
  #client: GrpcClient | undefined = undefined;
  #stream: InterceptStream | undefined = undefined;
  /** Earliest `performance.now()` at which a stream may be opened. */
  #opensAt = 0;
  #lastReplyAt = 0;
  #closed = false;

  constructor({ url, apiKey, tls }: GrpcInterceptChannelOptions) {
    assertGrpcInstalled();
    this.#apiKey = apiKey;
    this.#address = addressFrom("grpcUrl", url, GRPC_ADDRESS);
    this.#tls = tls;
    if (tls !== undefined) assertTls("grpcUrl", this.#address, tls);
  }

  accepts(requestId: string): boolean {
    if (this.#closed || this.#pending.has(requestId)) return false;
    return this.#stream !== undefined || performance.now() >= this.#opensAt;
  }

  async intercept(request: InterceptRequest, options: ChannelCallOptions): Promise<InterceptResponse> {
    return await this.#send("response", request.requestId ?? "", { intercept: request }, options);
  }

  async claim(
    request: ClaimDecisionRequest,
    requestId: string,
    options: ChannelCallOptions,
  ): Promise<ClaimDecisionResponse> {
    return await this.#send("claim", requestId, { requestId, claim: request }, options);
  }

  async report(
    request: ReportOutcomeRequest,
    requestId: string,
    options: ChannelCallOptions,
  ): Promise<ReportOutcomeResponse> {
    return await this.#send("report", requestId, { requestId, report: request }, options);
  }

  close(): void {
    this.#closed = true;
    this.#breakStream(channelFault("the channel was closed"));
    this.#client?.close();
  }

  /** Sends one request, and resolves with its reply of the given kind. */
  async #send<Kind extends keyof Replies>(
    kind: Kind,
    requestId: string,
    request: MessageInitShape<typeof InterceptStreamRequestSchema>,
    options: ChannelCallOptions,
  ): Promise<Replies[Kind]> {
    if (this.#closed) throw channelFault("the channel is closed");
    options.signal?.throwIfAborted();
    const call = createPendingCall(kind, options, (late) => this.#onTimeout(late));
    this.#pending.set(requestId, call);
    try {
      const stream = this.#stream ?? this.#open();
      stream.write(create(InterceptStreamRequestSchema, request));
      return await call.response;
    } finally {
      this.#pending.delete(requestId);
    }
  }

  #open(): InterceptStream {
    this.#client ??= createGrpcClient(this.#address, this.#tls);
    const stream = openStream(this.#client, this.#apiKey);
    stream.on("data", (reply) => this.#onReply(reply));
    // The status says more than the error, but an error without a listener would end the process.
    stream.on("error", () => undefined);
    stream.once("status", (status) => {
      // An abandoned stream must not end its successor.
      if (this.#stream === stream) this.#forgetStream(streamFaultFrom(status, this.#address, this.#tls));
    });
    this.#stream = stream;
    return stream;
  }

  #onReply({ requestId, result }: InterceptStreamResponse): void {
    this.#lastReplyAt = performance.now();
    this.#backOff.reset();
    this.#pending.get(requestId)?.settle(result);
  }

  /** Abandons a stream if it had no reply since the call was sent, so that later calls do not wait for it in vain. */
  #onTimeout({ sentAt }: PendingCall): void {
    if (this.#lastReplyAt < sentAt) this.#breakStream(channelFault("the stream does not answer"));
  }

  #breakStream(fault: ControlPlaneRequestError): void {
    const stream = this.#stream;
    this.#forgetStream(fault);
    stream?.cancel();
  }

  #forgetStream(fault: ControlPlaneRequestError): void {
    this.#stream = undefined;
    this.#opensAt = performance.now() + this.#backOff.next();
    for (const call of this.#pending.values()) call.fail(fault);
  }
}

/** Creates a call that fails with DEADLINE_EXCEEDED when its time is up, and with the signal's reason when it aborts. */
function createPendingCall<Kind extends keyof Replies>(
  kind: Kind,
  { signal, timeoutMs }: ChannelCallOptions,
  onTimeout: (call: PendingCall) => void,
): PendingCall<Replies[Kind]> {
  const { promise: response, resolve, reject } = createDeferred<Replies[Kind]>();
  const onAbort = () => reject(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  const cancel = later(timeoutMs, () => {
    reject(new ControlPlaneRequestError("DEADLINE_EXCEEDED", "the control plane did not answer in time"));
    onTimeout(call);
  });
  const release = () => {
    cancel();
    signal?.removeEventListener("abort", onAbort);
  };
  response.then(release, release);
  const call: PendingCall<Replies[Kind]> = {
    sentAt: performance.now(),
    response,
    fail: reject,
    settle(result) {
      if (result.case === "error") reject(replyFault(result.value));
      else if (result.case === kind) resolve(result.value as Replies[Kind]);
      else reject(channelFault("the control plane sent an empty reply, or one of another kind"));
    },
  };
  return call;
}

/** Milliseconds between pings, and to wait for their acknowledgement: detects a connection that died silently. */
const KEEPALIVE = { time: 20_000, timeout: 10_000 };
const PATH = `/${EnforcementService.typeName}/${EnforcementService.method.interceptStream.name}`;
const GRPC_ADDRESS: AddressKind = {
  schemes: new Map([...HTTP_ADDRESS.schemes, ["grpc:", false], ["grpcs:", true]]),
  port: 7090,
};

const require = createRequire(import.meta.url);

/** Throws an error that says what to install, since the package is an optional peer. */
function assertGrpcInstalled(): void {
  try {
    require.resolve("@grpc/grpc-js");
  } catch (cause) {
    throw new Error("`grpcUrl` needs a package that is not installed: npm install @grpc/grpc-js", { cause });
  }
}

/** Loads grpc-js on first use, so that clients without a gRPC address do not pay for it. */
function grpcModule(): typeof import("@grpc/grpc-js") {
  return require("@grpc/grpc-js");
}

function createGrpcClient({ isSecure, target }: Address, { ca, cert, key }: ClientTls = {}): GrpcClient {
  const grpc = grpcModule();
  const pem = (text: string | undefined) => (text === undefined ? null : Buffer.from(text));
  const credentials = isSecure
    ? grpc.credentials.createSsl(pem(ca), pem(key), pem(cert))
    : grpc.credentials.createInsecure();
  return new grpc.Client(target, credentials, {
    "grpc.keepalive_time_ms": KEEPALIVE.time,
    "grpc.keepalive_timeout_ms": KEEPALIVE.timeout,
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 5_000,
    "grpc.enable_channelz": 0,
  });
}

/** Opens a stream. It accepts requests at once, before the connection is established. */
function openStream(client: GrpcClient, apiKey: string): InterceptStream {
  const metadata = new (grpcModule().Metadata)();
  metadata.set("x-api-key", apiKey);
  const encode = (request: InterceptStreamRequest) => Buffer.from(toBinary(InterceptStreamRequestSchema, request));
  const decode = (bytes: Buffer) => fromBinary(InterceptStreamResponseSchema, bytes);
  return client.makeBidiStreamRequest(PATH, encode, decode, metadata);
}

/** Codes that refuse the caller. After any other end of a stream its calls are sent again. */
const REFUSALS: ReadonlySet<RequestErrorCode> = new Set(["UNAUTHENTICATED", "PERMISSION_DENIED"]);

/** Texts of grpc-js for a stream that had no connection, so that nothing was sent. */
const NOT_CONNECTED = /^(No connection established|Name resolution failed)/;

/** Converts the end of a stream to the error of its calls: the refusal of the caller, or UNAVAILABLE. */
function streamFaultFrom(
  status: StatusObject,
  { isSecure, target }: Address,
  tls: ClientTls | undefined,
): ControlPlaneRequestError {
  const fault = requestErrorFrom(connectErrorFrom(status));
  if (REFUSALS.has(fault.code)) return fault;
  const reached = !NOT_CONNECTED.test(status.details);
  const advice = isSecure ? adviceFor(status.details, tls) : "";
  const why = (status.details || fault.message).trim();
  return channelFault(`the stream to ${target} ended: ${why}${advice}`, { reached, cause: fault });
}

function channelFault(message: string, details: RequestErrorDetails = {}): ControlPlaneRequestError {
  return new ControlPlaneRequestError("UNAVAILABLE", message, details);
}

function replyFault({ code, reason, message }: InterceptStreamError): ControlPlaneRequestError {
  return new ControlPlaneRequestError(requestErrorCodeFrom(code), message, { reason });
}

function connectErrorFrom({ code, details: message, metadata }: StatusObject): ConnectError {
  const error = new ConnectError(message, code as number);
  const [bytes] = metadata.get("grpc-status-details-bin");
  if (bytes === undefined || typeof bytes === "string") return error;
  error.details = fromBinary(StatusSchema, bytes).details.map(({ typeUrl, value }) => ({
    type: typeUrl.slice(typeUrl.lastIndexOf("/") + 1),
    value,
  }));
  return error;
}
