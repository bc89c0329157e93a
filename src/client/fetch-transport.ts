import {
  create,
  type DescMessage,
  type DescMethodStreaming,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { Code, ConnectError, type StreamResponse, type Transport, type UnaryResponse } from "@connectrpc/connect";
import { connectionError } from "./request-error.ts";
import { later } from "./timers.ts";

/** Address of a server and the function that sends requests to it. */
export interface FetchTransportOptions {
  readonly baseUrl: string;
  /** Undefined means the platform's `fetch`, looked up for each call. */
  readonly fetch: typeof globalThis.fetch | undefined;
}

type Limits = { readonly signal: AbortSignal | undefined; readonly timeoutMs: number | undefined };

/**
 * Creates a transport that speaks the Connect protocol with binary messages over `fetch`: unary calls and streams from the
 * server. Unlike the transport of `@connectrpc/connect-web` it has no JSON codec for messages, which would be a quarter of the
 * code that a browser loads. It follows no redirects, which would send the key to another address.
 */
export function createFetchTransport({ baseUrl, fetch }: FetchTransportOptions): Transport {
  const root = baseUrl.replace(/\/+$/, "");
  const post = async (method: Method, header: Headers, body: Uint8Array, signal: AbortSignal): Promise<Response> => {
    const url = `${root}/${method.parent.typeName}/${method.name}`;
    const init = { method: "POST", redirect: "error", headers: header, body: body as BodyInit, signal } as const;
    return await (fetch ?? globalThis.fetch)(url, init);
  };
  return {
    async unary<I extends DescMessage, O extends DescMessage>(
      method: DescMethodUnary<I, O>,
      signal: AbortSignal | undefined,
      timeoutMs: number | undefined,
      header: HeadersInit | undefined,
      input: MessageInitShape<I>,
    ): Promise<UnaryResponse<I, O>> {
      const call = new Call(root, { signal, timeoutMs });
      try {
        const sent = requestHeader(header, "application/proto", timeoutMs);
        const response = await post(method, sent, toBinary(method.input, create(method.input, input)), call.signal);
        if (response.status !== 200) throw await unaryErrorFrom(response);
        assertContentType(response, "application/proto");
        const message = fromBinary(method.output, new Uint8Array(await response.arrayBuffer()));
        const trailer = new Headers();
        return { stream: false, service: method.parent, method, header: response.headers, message, trailer };
      } catch (error) {
        throw call.faultFrom(error);
      } finally {
        call.end();
      }
    },

    async stream<I extends DescMessage, O extends DescMessage>(
      method: DescMethodStreaming<I, O>,
      signal: AbortSignal | undefined,
      timeoutMs: number | undefined,
      header: HeadersInit | undefined,
      input: AsyncIterable<MessageInitShape<I>>,
    ): Promise<StreamResponse<I, O>> {
      const call = new Call(root, { signal, timeoutMs });
      try {
        const sent = requestHeader(header, "application/connect+proto", timeoutMs);
        const response = await post(method, sent, await onlyMessage(method, input), call.signal);
        if (response.status !== 200) throw statusError(response);
        assertContentType(response, "application/connect+proto");
        const message = messagesOf(method.output, response, call);
        const trailer = new Headers();
        return { stream: true, service: method.parent, method, header: response.headers, message, trailer };
      } catch (error) {
        const fault = call.faultFrom(error);
        call.end();
        throw fault;
      }
    },
  };
}

type Method = DescMethodUnary | DescMethodStreaming;

/** One call. Its signal aborts with the caller's signal, when the time is up, and when the call ends. */
class Call {
  readonly #address: string;
  readonly #ending = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #cancelTimer: () => void;
  readonly #onAbort = () => this.#ending.abort(ConnectError.from(this.#caller?.reason, Code.Canceled));

  constructor(address: string, { signal, timeoutMs = 0 }: Limits) {
    this.#address = address;
    this.#caller = signal;
    const timedOut = () => this.#ending.abort(new ConnectError("the operation timed out", Code.DeadlineExceeded));
    this.#cancelTimer = timeoutMs > 0 ? later(timeoutMs, timedOut) : () => undefined;
    if (signal?.aborted) this.#onAbort();
    else signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** Returns the reason for which the call was aborted, which `fetch` may hide, or else the error with the address. */
  faultFrom(error: unknown): ConnectError {
    if (this.signal.aborted) return ConnectError.from(this.signal.reason);
    return error instanceof ConnectError ? error : connectionError(this.#address, error);
  }

  /** Releases the connection, the timer and the caller's signal. */
  end(): void {
    this.#cancelTimer();
    this.#caller?.removeEventListener("abort", this.#onAbort);
    this.#ending.abort(new ConnectError("the call is over", Code.Canceled));
  }
}

function requestHeader(given: HeadersInit | undefined, contentType: string, timeoutMs: number | undefined): Headers {
  const header = new Headers(given);
  header.set("content-type", contentType);
  header.set("connect-protocol-version", "1");
  if (timeoutMs !== undefined && timeoutMs > 0) header.set("connect-timeout-ms", String(Math.ceil(timeoutMs)));
  return header;
}

/** Codes for HTTP statuses of servers and proxies that do not speak Connect. */
const STATUS_CODES: Readonly<Record<number, Code>> = {
  400: Code.Internal,
  401: Code.Unauthenticated,
  403: Code.PermissionDenied,
  404: Code.Unimplemented,
  429: Code.Unavailable,
  502: Code.Unavailable,
  503: Code.Unavailable,
  504: Code.Unavailable,
};

function statusError({ status, headers }: Response): ConnectError {
  return new ConnectError(`HTTP ${status}`, STATUS_CODES[status] ?? Code.Unknown, headers);
}

function assertContentType({ headers }: Response, wanted: string): void {
  const given = headers.get("content-type");
  if (given?.split(";")[0]?.trim().toLowerCase() === wanted) return;
  throw new ConnectError(`unsupported content type ${given}`, Code.Unknown, headers);
}

/** Reads the error of a unary call: the server's error in JSON, else one for the HTTP status. */
async function unaryErrorFrom(response: Response): Promise<ConnectError> {
  const fallback = statusError(response);
  if (!/^application\/json\b/i.test(response.headers.get("content-type") ?? "")) return fallback;
  return errorFrom(await response.text(), fallback);
}

/** Parses a code in its wire form: `not_found` is `Code.NotFound`. */
function codeFrom(name: unknown): Code | undefined {
  const member = String(name).replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const code: unknown = Code[member as keyof typeof Code];
  return typeof code === "number" ? code : undefined;
}

/** Parses an error from its JSON text. Returns the fallback for text of another shape, which is not from a Connect server. */
function errorFrom(text: string, fallback: ConnectError): ConnectError {
  try {
    const { code, message = "", details = [] } = JSON.parse(text) as WireError;
    if (typeof message !== "string" || (code === undefined && message === "")) return fallback;
    const error = new ConnectError(message, codeFrom(code) ?? fallback.code, fallback.metadata);
    error.details = details.map(({ type, value }) => ({ type, value: base64Decode(value) }));
    return error;
  } catch {
    return fallback;
  }
}

/** An error of the Connect protocol. */
interface WireError {
  readonly code?: unknown;
  readonly message?: unknown;
  readonly details?: readonly { readonly type: string; readonly value: string }[];
}

/** Encodes the single request message of a stream from the server. */
async function onlyMessage<I extends DescMessage>(
  method: DescMethodStreaming<I>,
  input: AsyncIterable<MessageInitShape<I>>,
): Promise<Uint8Array> {
  if (method.methodKind !== "server_streaming")
    throw new ConnectError("`fetch` cannot send a stream of messages; use the gRPC port", Code.Unimplemented);
  for await (const message of input) {
    const bytes = toBinary(method.input, create(method.input, message));
    const envelope = new Uint8Array(ENVELOPE_BYTES + bytes.length);
    new DataView(envelope.buffer).setUint32(1, bytes.length);
    envelope.set(bytes, ENVELOPE_BYTES);
    return envelope;
  }
  throw new ConnectError("a request message is missing", Code.Internal);
}

/** Size of an envelope's header: a byte of flags and a length. */
const ENVELOPE_BYTES = 5;
const COMPRESSED = 1;
const END_OF_STREAM = 2;

/** Yields the messages of a stream. Throws the error in the stream's trailer, and INTERNAL if the trailer is missing. */
async function* messagesOf<O extends DescMessage>(
  output: O,
  response: Response,
  call: Call,
): AsyncGenerator<MessageShape<O>> {
  try {
    for await (const { flags, data } of envelopesOf(response, call.signal)) {
      if (flags & COMPRESSED) throw new ConnectError("a message is compressed", Code.Internal);
      if (!(flags & END_OF_STREAM)) {
        yield fromBinary(output, data);
        continue;
      }
      const { error } = JSON.parse(new TextDecoder().decode(data)) as { readonly error?: unknown };
      if (error === undefined) return;
      throw errorFrom(JSON.stringify(error), new ConnectError("the stream failed", Code.Unknown, response.headers));
    }
    throw new ConnectError("the stream ended without its trailer", Code.Internal);
  } catch (error) {
    throw call.faultFrom(error);
  } finally {
    call.end();
  }
}

interface Envelope {
  readonly flags: number;
  readonly data: Uint8Array;
}

async function* envelopesOf({ body }: Response, signal: AbortSignal): AsyncGenerator<Envelope> {
  if (body === null) return;
  const reader = body.getReader();
  const onAbort = () => void reader.cancel(signal.reason).catch(() => undefined);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  let rest: Uint8Array = new Uint8Array();
  for (;;) {
    const { done, value } = await reader.read();
    signal.throwIfAborted();
    if (done) return;
    rest = joined(rest, value);
    for (;;) {
      if (rest.length < ENVELOPE_BYTES) break;
      const view = new DataView(rest.buffer, rest.byteOffset, rest.length);
      const end = ENVELOPE_BYTES + view.getUint32(1);
      if (rest.length < end) break;
      yield { flags: view.getUint8(0), data: rest.subarray(ENVELOPE_BYTES, end) };
      rest = rest.subarray(end);
    }
  }
}

function joined(head: Uint8Array, tail: Uint8Array): Uint8Array {
  if (head.length === 0) return tail;
  const all = new Uint8Array(head.length + tail.length);
  all.set(head);
  all.set(tail, head.length);
  return all;
}
