import type { EventEmitter } from "node:events";
import { type OutgoingHttpHeaders, sensitiveHeaders } from "node:http2";
import { Metadata, type ServerDuplexStream, type ServerUnaryCall, type ServerWritableStream } from "@grpc/grpc-js";
import type { ControlPlaneError } from "../errors.ts";
import { type IncomingCall, REQUEST_ID_HEADER, requestIdFrom } from "./incoming.ts";
import { cancelled, deadlineExceeded } from "./refusals.ts";

/** What the three kinds of grpc-js calls have in common here. */
export type AnyGrpcCall<Request> =
  | ServerUnaryCall<Request, Buffer>
  | ServerWritableStream<Request, Buffer>
  | ServerDuplexStream<Request, Buffer>;

/**
 * Headers that HPACK is to send literally and not to keep (RFC 7541, 6.2.3). A value that never comes again only pushes
 * others out of the table, and looking for it among those of the calls before took a sixteenth of a small call.
 */
const UNIQUE_HEADERS = [REQUEST_ID_HEADER];

/** Metadata of one header that needs no check any more: checking and copying it took a twentieth of a small call. */
class ReplyMetadata extends Metadata {
  readonly #headers: OutgoingHttpHeaders;

  constructor(requestId: string) {
    super();
    this.#headers = { [REQUEST_ID_HEADER]: requestId, [sensitiveHeaders]: UNIQUE_HEADERS };
  }

  override toHttp2Headers(): OutgoingHttpHeaders {
    return this.#headers;
  }
}

/** A grpc-js call as the pipeline sees it. Made for every call, so everything that most calls never ask for is made on demand. */
export class GrpcCall implements IncomingCall {
  readonly wire = "grpc";
  readonly receivedAt = performance.now();
  readonly requestId: string;
  readonly deadlineMs: number | undefined;
  readonly #call: AnyGrpcCall<unknown>;
  #controller: AbortController | undefined = undefined;

  constructor(call: AnyGrpcCall<unknown>) {
    this.#call = call;
    this.requestId = requestIdFrom(this.header(REQUEST_ID_HEADER));
    const deadline = Number(call.getDeadline());
    this.deadlineMs = deadline === Number.POSITIVE_INFINITY ? undefined : deadline - Date.now();
  }

  header(name: string): string | undefined {
    const value = this.#call.metadata.get(name)[0];
    return typeof value === "string" ? value : value?.toString("base64");
  }

  get hasLeft(): boolean {
    return this.#call.cancelled;
  }

  get signal(): AbortSignal {
    if (this.#controller !== undefined) return this.#controller.signal;
    const controller = new AbortController();
    this.#controller = controller;
    if (this.#call.cancelled) controller.abort(this.#reasonOfLeaving());
    else (this.#call as EventEmitter).once("cancelled", () => controller.abort(this.#reasonOfLeaving()));
    return controller.signal;
  }

  /** Response metadata that names the call. Only for sending. */
  responseMetadata(): Metadata {
    return new ReplyMetadata(this.requestId);
  }

  // grpc-js cancels a call for its deadline as it does for a caller that left; its timer may be a millisecond early.
  #reasonOfLeaving(): ControlPlaneError {
    return Date.now() + 1 >= Number(this.#call.getDeadline()) ? deadlineExceeded() : cancelled();
  }
}
