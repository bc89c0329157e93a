import type { Portion } from "../async/shared-pot.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { upstreamUnavailable } from "./endpoint.ts";
import { strippedJson, withoutOwnMeta } from "./forwarded-members.ts";
import { parsed } from "./listing.ts";
import {
  createError,
  isResponse,
  RPC_CODES,
  type RpcId,
  type RpcMessage,
  type RpcResponse,
  SseReader,
} from "./messages.ts";
import type { Answer } from "./reply.ts";
import type { MessageScrubber } from "./scrubbing.ts";

/** An upstream server's response on its way to the client. */
export interface Relay {
  /** The server's name, for errors. */
  readonly server: string;
  readonly response: Response;
  readonly reply: Answer;
  /** Id of the answered request; undefined for a stream of the server's own messages, and for notifications. */
  readonly id: RpcId | undefined;
  /** Maximum bytes of one message. */
  readonly maxBytes: number;
  /** Portion of the bytes that are being read or passed on. */
  readonly held: Pick<Portion, "add" | "empty">;
  /** Called for every message of the server. */
  readonly onMessage: () => void;
  /** Tests whether a request or notification of the server may pass. */
  readonly passes: (message: RpcMessage) => Promise<boolean>;
  /** Tests whether a response to this id is awaited. */
  readonly awaits: (id: RpcId) => boolean;
  /** Scrubs what is no awaited response; undefined if the server's messages are not scrubbed. */
  readonly scrubber: Pick<MessageScrubber, "message" | "text"> | undefined;
  /** Changes a response before it is passed on, and records that it came. */
  readonly transform: (response: RpcResponse) => RpcResponse | Promise<RpcResponse>;
  /** Called with the method of every request and notification of the server. */
  readonly onMethod: (method: string) => void;
  /** Reports a message that is not passed on. */
  readonly onDropped: (why: string) => void;
  /** Creates the replacement for a response that is too long. */
  readonly tooLong: (id: RpcId) => RpcResponse;
}

/** Result of a relay. */
export type RelayEnd = "answered" | "ended" | "broken";

/** Headers of an upstream server's response that are passed to the client. */
const PASSED_HEADERS = ["allow", "retry-after"];
const LINE_FEED = 10;
/** Maximum bytes of the body of an HTTP error. */
const MAX_ERROR_BYTES = 65_536;

/**
 * Passes an upstream server's response on: one message, or a stream of messages. Drops messages that are not JSON-RPC, and
 * responses that are not awaited. Returns `ended` if the stream ended without a response to `id`, and `broken` if it broke off.
 */
export async function relay(options: Relay): Promise<RelayEnd> {
  const { response, reply } = options;
  for (const name of PASSED_HEADERS) {
    const value = response.headers.get(name);
    if (value !== null) reply.setHeader(name, value);
  }
  const type = (response.headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase();
  if (type === "text/event-stream") return relayStream(options);
  return relayWhole(options, type);
}

async function relayWhole(options: Relay, type: string | undefined): Promise<RelayEnd> {
  const { response, reply, id, server, maxBytes } = options;
  const text = await readText(response, response.ok ? maxBytes : MAX_ERROR_BYTES, options.held);
  if (text === undefined) {
    if (id === undefined) throw upstreamUnavailable(server, `answered with more than ${maxBytes} bytes`);
    await reply.finish(await options.transform(options.tooLong(id)));
    return "answered";
  }
  const parsedText = type === "application/json" ? parsed(text) : undefined;
  const message = parsedText === undefined ? undefined : withoutOwnMeta(parsedText, text);
  if (message !== undefined && isResponse(message) && message.id === id && options.awaits(id)) {
    await reply.finish(await options.transform(message), response.status);
    return "answered";
  }
  if (response.ok && text === "") {
    if (id !== undefined) throw upstreamUnavailable(server, "acknowledged a request without answering it");
    reply.text(response.status, undefined, "");
    return "ended";
  }
  // An error from before the message was read has no id, or is plain text.
  if (!response.ok && !reply.hasBegun) {
    const given = type === "application/json" ? strippedJson(text) : undefined;
    const shown = (await options.scrubber?.text(given ?? text)) ?? given ?? text;
    reply.text(response.status, given === undefined ? "text/plain; charset=utf-8" : type, shown);
    return "ended";
  }
  throw upstreamUnavailable(server, `did not answer with a response (HTTP ${response.status})`);
}

/** Reads a body as text; undefined if it exceeds its bound. Rejects with OVERLOADED if too many bytes are held. */
async function readText(response: Response, maxBytes: number, held: Relay["held"]): Promise<string | undefined> {
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    // Leaving the loop cancels the body.
    if (size > maxBytes) return undefined;
    held.add(chunk.byteLength);
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

async function relayStream(options: Relay): Promise<RelayEnd> {
  const { response, reply, id, onMessage, held } = options;
  const reader = new SseReader(options.maxBytes);
  let isAnswered = false;
  reply.beginStream();
  try {
    for await (const chunk of response.body ?? []) {
      onMessage();
      held.add(chunk.byteLength);
      const events = reader.next(chunk);
      for (const event of events) {
        const message = event.data === "" ? undefined : await passed(options, event.data);
        if (event.data !== "" && message === undefined) continue;
        await reply.event({ ...event, data: message === undefined ? "" : JSON.stringify(message) });
        if (message !== undefined && isResponse(message) && message.id === id) isAnswered = true;
      }
      // The rest of the chunk belongs to the next event, and is at most as long as a chunk.
      if (events.length > 0 || chunk.at(-1) === LINE_FEED) held.empty();
      const retryMs = reader.takeRetryMs();
      if (retryMs !== undefined) await reply.retry(retryMs);
      if (reply.isOver) return isAnswered ? "answered" : "ended";
    }
  } catch (error) {
    if (error instanceof ControlPlaneError && error.reason === ErrorReason.OVERLOADED) throw error;
    if (!(error instanceof RangeError) || id === undefined) return isAnswered ? "answered" : "broken";
    await reply.message(await options.transform(options.tooLong(id)));
    isAnswered = true;
  }
  return isAnswered ? "answered" : "ended";
}

/** Returns the message to pass on; undefined for a dropped message. */
async function passed(options: Relay, text: string): Promise<RpcMessage | undefined> {
  const parsedText = parsed(text);
  if (parsedText === undefined) {
    options.onDropped("is not a JSON-RPC message");
    return undefined;
  }
  const message = withoutOwnMeta(parsedText, text);
  if (!isResponse(message)) {
    options.onMethod(message.method);
    const { scrubber, onDropped } = options;
    const scrubbed = scrubber === undefined ? message : await scrubber.message(message);
    if (scrubbed === undefined) onDropped("cannot be scrubbed");
    else if (!(await options.passes(scrubbed))) onDropped("names a task of another agent");
    else return scrubbed;
    return undefined;
  }
  if (!options.awaits(message.id)) {
    options.onDropped("answers a request that was not sent");
    return undefined;
  }
  return options.transform(message);
}

/** Creates the response to a call whose result is too long. */
export function tooLongError(id: RpcId, server: string, maxBytes: number): RpcResponse {
  return createError(id, RPC_CODES.server, `MCP server \`${server}\` answered with more than ${maxBytes} bytes`);
}
