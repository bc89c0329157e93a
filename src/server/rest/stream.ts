import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { Message } from "@bufbuild/protobuf";
import { ControlPlaneError } from "../../errors.ts";
import type { Call } from "../call-context.ts";
import { errorBodyFrom } from "../errors.ts";
import { NEVER_STORED } from "../http-reply.ts";
import type { JsonWriter } from "./json.ts";
import { EVENT_STREAM_TYPE, NDJSON_TYPE, type StreamFormat } from "./request.ts";

/** Time that the response headers wait for the first message, milliseconds, so that an early failure gets its HTTP status. */
const FIRST_RESULT_MS = 50;

/** A server stream and its response. */
export interface StreamOptions {
  readonly response: ServerResponse;
  readonly call: Call;
  readonly format: StreamFormat;
  /** MUST end as soon as the call is aborted. */
  readonly messages: AsyncGenerator<Message>;
  /** Writes one line of JSON. */
  readonly write: JsonWriter<Message>;
}

interface Framing {
  readonly contentType: string;
  /** Written at once, so that proxies and clients see an open stream. */
  readonly opening: string;
  message(text: string, cursor: string): string;
  failure(text: string): string;
}

const FRAMINGS: Readonly<Record<StreamFormat, Framing>> = {
  sse: {
    contentType: EVENT_STREAM_TYPE,
    opening: ": open\n\n",
    message: (text, cursor) => (cursor === "" ? `data: ${text}\n\n` : `id: ${cursor}\ndata: ${text}\n\n`),
    failure: (text) => `event: error\ndata: ${text}\n\n`,
  },
  ndjson: {
    contentType: NDJSON_TYPE,
    opening: "",
    message: (text) => `${text}\n`,
    failure: (text) => `${text}\n`,
  },
};

/** Sends the headers of a stream. */
export function openStream(response: ServerResponse, format: StreamFormat): void {
  const { contentType, opening } = FRAMINGS[format];
  response.writeHead(200, { ...NEVER_STORED, "content-type": contentType, "x-accel-buffering": "no" });
  response.flushHeaders();
  if (opening !== "") response.write(opening);
}

/**
 * Writes a stream until it ends, fails or the client disconnects, with back-pressure. Rejects with a failure before the response
 * has started.
 */
export async function sendStream({ response, call, format, messages, write }: StreamOptions): Promise<void> {
  const first = messages.next();
  await Promise.race([first, delay(FIRST_RESULT_MS, undefined, { ref: false })]);
  const framing = FRAMINGS[format];
  openStream(response, format);
  try {
    for (let next = await first; !next.done; next = await messages.next()) {
      const isFlowing = response.write(framing.message(write(next.value), cursorOf(next.value)));
      if (!isFlowing) await drained(response, call.signal);
    }
  } catch (error) {
    // The pipeline has logged its own errors; any other is a message that cannot be written.
    const failure = error instanceof ControlPlaneError ? error : call.fail(error);
    if (!response.destroyed) response.write(framing.failure(JSON.stringify(errorBodyFrom(failure).body)));
  } finally {
    response.end();
    await messages.return(undefined);
  }
}

// An aborted call also ends the wait: the next step of the stream throws the reason.
async function drained(response: ServerResponse, signal: AbortSignal): Promise<void> {
  await once(response, "drain", { signal }).catch(() => undefined);
}

/** Returns the cursor after a message, for resuming; else `""`. */
function cursorOf(message: Message & { readonly cursor?: unknown }): string {
  const { cursor } = message;
  // A line break or NUL would break the `id` line of an event.
  return typeof cursor === "string" && !/[\r\n\0]/.test(cursor) ? cursor : "";
}
