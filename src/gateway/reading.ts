import type { JsonValue } from "@bufbuild/protobuf";
import { createParser } from "eventsource-parser";
import { Turns } from "../async/turns.ts";
import { type JsonBounds, JsonFault, readJson } from "../json/read-json.ts";
import { type RpcMessage, rpcMessageFrom, type SseEvent } from "./messages.ts";

/** Bounds of a message of a server, beside its bytes: passing on more values would delay all other calls. */
const MESSAGE_BOUNDS: JsonBounds = { maxDepth: 128, maxValues: 100_000 };

/** Message of a server that exceeds a bound. */
export class MessageTooLarge extends Error {
  override readonly name = "MessageTooLarge";
  /** Completes "answered with …". */
  readonly excess: string;

  constructor(excess: string) {
    super(`the server answered with ${excess}`);
    this.excess = excess;
  }
}

/**
 * Reads a JSON text of a server over several turns of the event loop; undefined for other text. Rejects with `MessageTooLarge`
 * before anything is built.
 */
export async function readServerJson(text: string): Promise<JsonValue | undefined> {
  try {
    return (await readJson(text, MESSAGE_BOUNDS)) as JsonValue;
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    const { maxDepth, maxValues } = MESSAGE_BOUNDS;
    if (error.kind === "too_deep") throw new MessageTooLarge(`more than ${maxDepth} nested levels`);
    if (error.kind === "too_many_values")
      throw new MessageTooLarge(`more than ${maxValues.toLocaleString("en")} values`);
    return undefined;
  }
}

/** Reads a body as text. Rejects with `MessageTooLarge`, and as `hold` throws, which counts bytes as they arrive. */
export async function readText(
  body: ReadableStream<Uint8Array> | null,
  maxBytes: number,
  hold: (bytes: number) => void = () => undefined,
): Promise<string> {
  const decoder = new TextDecoder();
  const turns = new Turns();
  let text = "";
  let size = 0;
  for await (const chunk of body ?? []) {
    // Bodies that arrive at the same time would otherwise be read in one turn.
    await turns.giveWay();
    size += chunk.byteLength;
    // Leaving the loop cancels the body.
    if (size > maxBytes) throw new MessageTooLarge(`more than ${maxBytes} bytes`);
    hold(chunk.byteLength);
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/** Reads one message of a server; undefined for other text. Rejects with `MessageTooLarge`. */
export async function readMessage(text: string): Promise<RpcMessage | undefined> {
  return rpcMessageFrom(await readServerJson(text));
}

/** Reads events from chunks of bytes. `next` throws `MessageTooLarge` for an event that is too long. */
export class SseReader {
  readonly #decoder = new TextDecoder();
  readonly #lines = new LineEnds();
  readonly #parser;
  #events: SseEvent[] = [];
  #retryMs: number | undefined;

  constructor(maxEvent: number) {
    this.#parser = createParser({
      maxBufferSize: maxEvent,
      onEvent: (event) => this.#events.push(event),
      onRetry: (ms) => {
        this.#retryMs = ms;
      },
      onError({ type }) {
        if (type === "max-buffer-size-exceeded") throw new MessageTooLarge(`more than ${maxEvent} bytes`);
      },
    });
  }

  /** Returns the events that a chunk completes. */
  next(chunk: Uint8Array): readonly SseEvent[] {
    this.#parser.feed(this.#lines.next(this.#decoder.decode(chunk, { stream: true })));
    const events = this.#events;
    this.#events = [];
    return events;
  }

  /** Returns the reconnection time that the stream has sent since the last call, in milliseconds. */
  takeRetryMs(): number | undefined {
    const ms = this.#retryMs;
    this.#retryMs = undefined;
    return ms;
  }
}

/** Writes every line end of a text in chunks as a line feed: the parser searches a chunk with others for each of its lines. */
class LineEnds {
  #hasReturn = false;

  /** Returns the next chunk. A carriage return at its end waits for the line feed that may follow. */
  next(chunk: string): string {
    if (chunk === "" || !(this.#hasReturn || chunk.includes("\r"))) return chunk;
    const text = this.#hasReturn ? `\r${chunk}` : chunk;
    this.#hasReturn = text.endsWith("\r");
    return (this.#hasReturn ? text.slice(0, -1) : text).replaceAll(/\r\n?/g, "\n");
  }
}
