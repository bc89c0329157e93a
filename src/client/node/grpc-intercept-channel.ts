import { create } from "@bufbuild/protobuf";
import type { Client as GrpcClient } from "@grpc/grpc-js";
import {
  type InterceptRequest,
  type InterceptResponse,
  InterceptStreamRequestSchema,
  type InterceptStreamResponse,
} from "../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { createBackOff } from "../back-off.ts";
import type { ChannelCallOptions, InterceptChannel } from "../intercept-channel.ts";
import type { ControlPlaneRequestError } from "../request-error.ts";
import { type ChannelCall, createChannelCall } from "./channel-call.ts";
import { channelFault, streamFaultFrom } from "./grpc-fault.ts";
import { createGrpcClient, type InterceptStream, openInterceptStream } from "./grpc-stream.ts";

/** How a gRPC channel is reached. */
export interface GrpcInterceptChannelOptions {
  /** `host:port` without TLS, or a URL: `https` and `grpcs` use TLS, `http` and `grpc` do not. */
  readonly url: string;
  readonly apiKey: string;
}

/**
 * Creates a channel that keeps one gRPC stream open and sends every action over it, replies matched by `request_id`.
 * The stream is opened with the first call and, after it broke, with the first call once a pause (0.1 to 5 s, with
 * jitter) is over. An open stream keeps the process alive until `close()`.
 */
export function createGrpcInterceptChannel(options: GrpcInterceptChannelOptions): InterceptChannel {
  return new GrpcInterceptChannel(options);
}

class GrpcInterceptChannel implements InterceptChannel {
  readonly #options: GrpcInterceptChannelOptions;
  readonly #calls = new Map<string, ChannelCall>();
  readonly #backOff = createBackOff({ firstMs: 100, mostMs: 5_000 });
  #client: GrpcClient | undefined = undefined;
  #stream: InterceptStream | undefined = undefined;
  #opensAt = 0;
  #lastReplyAt = 0;
  #closed = false;

  constructor(options: GrpcInterceptChannelOptions) {
    this.#options = options;
  }

  accepts(requestId: string): boolean {
    if (this.#closed || this.#calls.has(requestId)) return false;
    return this.#stream !== undefined || performance.now() >= this.#opensAt;
  }

  async intercept(request: InterceptRequest, options: ChannelCallOptions): Promise<InterceptResponse> {
    const { requestId = "" } = request;
    if (this.#closed) throw channelFault("the channel is closed");
    options.signal?.throwIfAborted();
    const call = createChannelCall(options, (late) => this.#onTimeout(late));
    this.#calls.set(requestId, call);
    try {
      const stream = this.#stream ?? this.#open();
      stream.write(create(InterceptStreamRequestSchema, { intercept: request }));
      return await call.response;
    } finally {
      this.#calls.delete(requestId);
    }
  }

  close(): void {
    this.#closed = true;
    this.#breakStream(channelFault("the channel was closed"));
    this.#client?.close();
  }

  #open(): InterceptStream {
    this.#client ??= createGrpcClient(this.#options.url);
    const stream: InterceptStream = openInterceptStream(this.#client, this.#options.apiKey, {
      onReply: (reply) => this.#onReply(reply),
      onEnd: (status) => {
        // A stream that was given up has nothing to say about the one that took its place.
        if (this.#stream === stream) this.#forgetStream(streamFaultFrom(status));
      },
    });
    this.#stream = stream;
    return stream;
  }

  #onReply({ requestId, result }: InterceptStreamResponse): void {
    this.#lastReplyAt = performance.now();
    this.#backOff.reset();
    this.#calls.get(requestId)?.answer(result);
  }

  /** A stream that answers nobody is given up, so that later calls do not wait for it in vain. */
  #onTimeout({ startedAt }: ChannelCall): void {
    if (this.#lastReplyAt < startedAt) this.#breakStream(channelFault("the stream does not answer"));
  }

  #breakStream(fault: ControlPlaneRequestError): void {
    const stream = this.#stream;
    this.#forgetStream(fault);
    stream?.cancel();
  }

  #forgetStream(fault: ControlPlaneRequestError): void {
    this.#stream = undefined;
    this.#opensAt = performance.now() + this.#backOff.next();
    for (const call of this.#calls.values()) call.fail(fault);
  }
}
