import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { ControlPlaneError } from "../../errors.ts";
import { cancelled, deadlineExceeded } from "../errors.ts";
import { type IncomingCall, REQUEST_ID_HEADER, requestIdFrom, timeoutFromGrpcHeader } from "../incoming-call.ts";
import { framed } from "./framing.ts";
import { ENCODINGS, type ReadOptions, RequestMessages } from "./request-messages.ts";
import { trailersFrom } from "./status.ts";

/** Content type of every response. */
const CONTENT_TYPE = "application/grpc+proto";
const ACCEPTED_ENCODINGS = ENCODINGS.join(",");
const OK: OutgoingHttpHeaders = { "grpc-status": "0" };
const WITH_TRAILERS = { waitForTrailers: true, sendDate: false };
const WITHOUT_BODY = { endStream: true, sendDate: false };

/** A method of a gRPC server. */
export interface GrpcMethod {
  /** Answers a call to its end. MUST NOT reject. */
  serve(exchange: GrpcExchange): Promise<void>;
}

/** One gRPC call over its HTTP/2 stream: metadata and messages in, metadata, messages and a status out. */
export class GrpcExchange implements IncomingCall {
  readonly wire = "grpc";
  readonly receivedAt = performance.now();
  readonly requestId: string;
  readonly address: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly #stream: ServerHttp2Stream;
  #messages: RequestMessages | undefined;
  #trailers = OK;
  #deadlineAt = Number.POSITIVE_INFINITY;
  #hasLeft = false;
  #onLeave: ((reason: () => ControlPlaneError) => void) | undefined;
  #onClose: (() => void) | undefined;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, address: string | undefined) {
    this.#stream = stream;
    this.headers = headers;
    this.address = address;
    this.requestId = requestIdFrom(this.header(REQUEST_ID_HEADER));
    stream.once("aborted", this.#leave).once("close", this.#close);
  }

  header(name: string): string | undefined {
    const value = this.headers[name];
    return typeof value === "object" ? value.join(", ") : value;
  }

  timeoutMs(): number | undefined {
    const timeoutMs = timeoutFromGrpcHeader(this.header("grpc-timeout"));
    if (timeoutMs !== undefined) this.#deadlineAt = this.receivedAt + timeoutMs;
    return timeoutMs;
  }

  onLeave(listener: (reason: () => ControlPlaneError) => void): void {
    if (this.#hasLeft) listener(this.#reason);
    else this.#onLeave = listener;
  }

  /** True once the caller has disconnected or reset the stream. */
  get hasLeft(): boolean {
    return this.#hasLeft;
  }

  /** Calls back once everything is sent and the stream is closed, or the caller is gone. */
  onClose(listener: () => void): void {
    if (this.#stream.destroyed) listener();
    else this.#onClose = listener;
  }

  /** Begins to read the messages of the request; before, nothing of its body is read. */
  read(options: Omit<ReadOptions, "encoding">): RequestMessages {
    const messages = new RequestMessages(this.#stream, { ...options, encoding: this.header("grpc-encoding") });
    this.#messages = messages;
    if (this.#hasLeft) messages.fail(this.#reason());
    return messages;
  }

  /** Sends the metadata, so that the caller sees an open stream before the first reply. */
  begin(): void {
    const stream = this.#stream;
    if (stream.headersSent || stream.closed || stream.destroyed) return;
    const headers = [":status", "200", "content-type", CONTENT_TYPE, "grpc-accept-encoding", ACCEPTED_ENCODINGS];
    stream.respond([...headers, REQUEST_ID_HEADER, this.requestId], WITH_TRAILERS);
    stream.once("wantTrailers", () => stream.sendTrailers(this.#trailers));
  }

  /** Sends the only reply of a call, and ends the call with success. */
  reply(message: Uint8Array): void {
    this.begin();
    this.#stream.end(framed(message));
  }

  /** Sends a reply of a stream. Returns false if the next one MUST wait for `drained`. */
  send(message: Uint8Array): boolean {
    const stream = this.#stream;
    // Replies that are ready in the same turn leave together.
    if (stream.writableCorked === 0) {
      stream.cork();
      process.nextTick(() => stream.uncork());
    }
    return stream.write(framed(message));
  }

  /** Resolves when the caller continues reading or has left, or the signal aborts. */
  drained(signal?: AbortSignal): Promise<void> {
    const stream = this.#stream;
    return new Promise((resolve) => {
      if (stream.destroyed || signal?.aborted) {
        resolve();
        return;
      }
      const settle = (): void => {
        stream.off("drain", settle).off("close", settle);
        signal?.removeEventListener("abort", settle);
        resolve();
      };
      stream.once("drain", settle).once("close", settle);
      signal?.addEventListener("abort", settle, { once: true });
    });
  }

  /** Ends a stream with success. */
  finish(): void {
    this.#stream.end();
    // Drops the rest of the request.
    this.#stream.resume();
  }

  /** Ends the call with an error, after the replies that are already sent. */
  fail(error: unknown): void {
    this.refuse(trailersFrom(error));
  }

  /** Ends the call with a status. */
  refuse(status: OutgoingHttpHeaders): void {
    const stream = this.#stream;
    if (stream.closed || stream.destroyed) return;
    this.#messages?.fail(cancelled());
    const trailers = { ...status, [REQUEST_ID_HEADER]: this.requestId };
    if (stream.headersSent) {
      this.#trailers = trailers;
      this.finish();
      return;
    }
    const headers = { ":status": 200, "content-type": CONTENT_TYPE, "grpc-accept-encoding": ACCEPTED_ENCODINGS };
    stream.respond({ ...headers, ...trailers }, WITHOUT_BODY);
    // Node itself resets a stream of which nothing was read.
    if (this.#messages !== undefined) stream.resume();
  }

  readonly #leave = (): void => {
    this.#hasLeft = true;
    this.#messages?.fail(this.#reason());
    this.#onLeave?.(this.#reason);
  };

  readonly #close = (): void => {
    // Node keeps a closed stream for a while, and with it everything that listens to it.
    this.#stream.off("aborted", this.#leave);
    this.#onClose?.();
  };

  /** A caller whose deadline passes closes its stream, maybe a moment earlier than our clock says. */
  readonly #reason = (): ControlPlaneError =>
    performance.now() + 1 >= this.#deadlineAt ? deadlineExceeded() : cancelled();
}
