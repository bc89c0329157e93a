import type { Portion } from "../async/shared-pot.ts";
import { Turns } from "../async/turns.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { writeJson } from "../json/write-json.ts";
import { upstreamUnavailable } from "./endpoint.ts";
import { withoutOwnMeta } from "./forwarded-members.ts";
import {
  createError,
  isResponse,
  RPC_CODES,
  type RpcId,
  type RpcMessage,
  type RpcResponse,
  rpcMessageFrom,
} from "./messages.ts";
import { MessageTooLarge, readServerJson, readText, SseReader } from "./reading.ts";
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
  /** Called with the text of an HTTP error before it is passed on. */
  readonly onErrorText: (text: string) => Promise<void>;
  /** Called with the method of every request and notification of the server. */
  readonly onMethod: (method: string) => void;
  /** Reports a message that is not passed on. */
  readonly onDropped: (why: string) => void;
  /** Creates the replacement for a response that is too large. `excess` completes "answered with …". */
  readonly tooLarge: (id: RpcId, excess: string) => RpcResponse;
}

/** Result of a relay. */
export type RelayEnd = "answered" | "ended" | "broken";

/** Headers of an upstream server's response that are passed to the client. */
const PASSED_HEADERS = ["allow", "retry-after"];
const LINE_FEED = 10;
/** Bytes above which a chunk has a turn of the event loop of its own; those of a socket have at most as many. */
const LARGE_CHUNK = 65_536;
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
  const { reply, id, server } = options;
  try {
    return await relayBody(options, type === "application/json");
  } catch (error) {
    if (!(error instanceof MessageTooLarge)) throw error;
    if (id === undefined) throw upstreamUnavailable(server, `answered with ${error.excess}`);
    await reply.finish(await options.transform(options.tooLarge(id, error.excess)));
    return "answered";
  }
}

async function relayBody(options: Relay, isJson: boolean): Promise<RelayEnd> {
  const { response, reply, id, server, maxBytes } = options;
  const hold = (bytes: number): void => options.held.add(bytes);
  const text = await readText(response.body, response.ok ? maxBytes : MAX_ERROR_BYTES, hold);
  const json = isJson ? await readServerJson(text) : undefined;
  const message = json === undefined ? undefined : rpcMessageFrom(json);
  if (message !== undefined && isResponse(message) && message.id === id && options.awaits(id)) {
    await reply.finish(await options.transform(await withoutOwnMeta(message)), response.status);
    return "answered";
  }
  if (response.ok && text === "") {
    if (id !== undefined) throw upstreamUnavailable(server, "acknowledged a request without answering it");
    reply.text(response.status, undefined, "");
    return "ended";
  }
  // An error from before the message was read has no id, or is plain text.
  if (!response.ok && !reply.hasBegun) {
    const given = json === undefined ? undefined : await writeJson(await withoutOwnMeta(json));
    const shown = (await options.scrubber?.text(given ?? text)) ?? given ?? text;
    if (shown !== "") await options.onErrorText(shown);
    reply.text(response.status, given === undefined ? "text/plain; charset=utf-8" : "application/json", shown);
    return "ended";
  }
  throw upstreamUnavailable(server, `did not answer with a response (HTTP ${response.status})`);
}

async function relayStream(options: Relay): Promise<RelayEnd> {
  const { response, reply, id, onMessage, held } = options;
  const reader = new SseReader(options.maxBytes);
  const turns = new Turns();
  let isAnswered = false;
  reply.beginStream();
  try {
    for await (const chunk of response.body ?? []) {
      onMessage();
      held.add(chunk.byteLength);
      // An endpoint within this process gives a whole message at once, and has just written it.
      if (chunk.byteLength > LARGE_CHUNK) await turns.next();
      else await turns.giveWay();
      const events = reader.next(chunk);
      for (const event of events) {
        await turns.giveWay();
        if (event.data === "") {
          await reply.event(event);
          continue;
        }
        const message = await passed(options, event.data);
        if (message === undefined) continue;
        await reply.message(message, event);
        if (isResponse(message) && message.id === id) isAnswered = true;
      }
      // The rest of the chunk belongs to the next event, and is at most as long as a chunk.
      if (events.length > 0 || chunk.at(-1) === LINE_FEED) held.empty();
      const retryMs = reader.takeRetryMs();
      if (retryMs !== undefined) await reply.retry(retryMs);
      if (reply.isOver) return isAnswered ? "answered" : "ended";
    }
  } catch (error) {
    if (error instanceof ControlPlaneError && error.reason === ErrorReason.OVERLOADED) throw error;
    if (!(error instanceof MessageTooLarge) || id === undefined) return isAnswered ? "answered" : "broken";
    await reply.message(await options.transform(options.tooLarge(id, error.excess)));
    isAnswered = true;
  }
  return isAnswered ? "answered" : "ended";
}

/** Returns the message to pass on; undefined for a dropped message. */
async function passed(options: Relay, text: string): Promise<RpcMessage | undefined> {
  const given = rpcMessageFrom(await readServerJson(text));
  if (given === undefined) {
    options.onDropped("is not a JSON-RPC message");
    return undefined;
  }
  const message = await withoutOwnMeta(given);
  if (!isResponse(message)) {
    options.onMethod(message.method);
    const { scrubber, onDropped } = options;
    const scrubbed = scrubber === undefined ? message : await scrubber.message(message);
    if (scrubbed === undefined) onDropped("cannot be scrubbed");
    else if (!(await options.passes(scrubbed))) onDropped("names a task of another agent, or cannot be observed");
    else return scrubbed;
    return undefined;
  }
  if (!options.awaits(message.id)) {
    options.onDropped("answers a request that was not sent");
    return undefined;
  }
  return options.transform(message);
}

/** Creates the response to a call whose result is too large. */
export function tooLargeError(id: RpcId, server: string, excess: string): RpcResponse {
  return createError(id, RPC_CODES.server, `MCP server \`${server}\` answered with ${excess}`);
}
