import type { Portion } from "../async/shared-pot.ts";
import { Turns } from "../async/turns.ts";
import { ControlPlaneError } from "../errors.ts";
import { lostResponse } from "./call-end.ts";
import type { Fetch } from "./http-endpoint.ts";
import { errorFromFault, rpcMessageFrom, sseText } from "./messages.ts";
import { MessageTooLarge, readServerJson, readText, SseReader } from "./reading.ts";

/** Maximum bytes of an answer that is neither JSON nor a stream of events, or is an HTTP error. */
const MAX_OTHER_BYTES = 65_536;
/** Characters of an event that the client gets in one turn of the event loop. */
const PIECE = 262_144;
/** HTTP statuses without a body. */
const BODILESS: ReadonlySet<number> = new Set([101, 204, 205, 304]);

/**
 * Wraps `fetch` for the official client, which parses whatever a server answers: each message is first read within its bounds, and
 * one that exceeds them becomes the error response to the client's request. `open` returns the portion of the bytes that are being
 * read.
 */
export function boundedFetch(fetch: Fetch, maxBytes: number, open: () => Portion): Fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    const { body, status, statusText, headers } = response;
    if (body === null || BODILESS.has(status)) return response;
    const type = (headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase();
    const head = { status, statusText, headers: withoutLength(headers) };
    const refuse = (error: unknown): object => refusalOf(init?.body, error);
    const held = open();
    if (response.ok && type === "text/event-stream") {
      return new Response(boundedEvents(body, maxBytes, held, refuse), head);
    }
    const read = (bytes: number): Promise<string> => readText(body, bytes, (more) => held.add(more));
    try {
      if (response.ok && type === "application/json") return await boundedJson(() => read(maxBytes), refuse, head);
      return new Response(await read(MAX_OTHER_BYTES).catch(excessOf), head);
    } finally {
      held.release();
    }
  };
}

/** Creates the error response to a request. Throws anything but `MessageTooLarge` and refusals to hold more. */
function refusalOf(body: RequestInit["body"], error: unknown): object {
  if (!(error instanceof MessageTooLarge) && !(error instanceof ControlPlaneError)) throw error;
  const asked = typeof body === "string" ? rpcMessageFrom(JSON.parse(body)) : undefined;
  if (asked === undefined || !("id" in asked)) throw error;
  if (error instanceof ControlPlaneError) return errorFromFault(asked.id, error);
  return lostResponse(asked.id, error.message);
}

function excessOf(error: unknown): string {
  if (error instanceof MessageTooLarge) return error.message;
  throw error;
}

/** Reads a JSON answer, which the client gets by `json` alone. */
async function boundedJson(
  readAll: () => Promise<string>,
  refuse: (error: unknown) => object,
  head: ResponseInit,
): Promise<Response> {
  const read = async (): Promise<unknown> => readServerJson(await readAll());
  const value = await read().catch(refuse);
  const json = async (): Promise<unknown> => {
    if (value === undefined) throw new SyntaxError("the answer is not JSON");
    return value;
  };
  return Object.defineProperty(new Response(null, head), "json", { value: json });
}

function boundedEvents(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
  held: Portion,
  refuse: (error: unknown) => object,
): ReadableStream<Uint8Array> {
  const reader = new SseReader(maxBytes);
  const encoder = new TextEncoder();
  const turns = new Turns();
  const release = (): void => held.release();
  const transformer: Transformer<Uint8Array, Uint8Array> & { cancel(): void } = {
    async transform(chunk, controller) {
      const send = async (text: string): Promise<void> => {
        for (let start = 0; start < text.length; start += PIECE) {
          if (start > 0) await turns.next();
          controller.enqueue(encoder.encode(text.slice(start, start + PIECE)));
        }
      };
      try {
        held.add(chunk.byteLength);
        const events = reader.next(chunk);
        for (const event of events) {
          if (event.data !== "") await readServerJson(event.data);
          await send(sseText(event));
        }
        // The rest of the chunk belongs to the next event, and is at most as long as a chunk.
        if (events.length > 0) held.empty();
        const retryMs = reader.takeRetryMs();
        if (retryMs !== undefined) await send(`retry: ${retryMs}\n\n`);
      } catch (error) {
        held.release();
        await send(sseText({ data: JSON.stringify(refuse(error)) }));
        controller.terminate();
      }
    },
    flush: release,
    cancel: release,
  };
  return body.pipeThrough(new TransformStream(transformer));
}

/** Returns the headers of a body that has another length and encoding than the one that came. */
function withoutLength(headers: Headers): Headers {
  const kept = new Headers(headers);
  for (const name of ["content-length", "content-encoding", "transfer-encoding"]) kept.delete(name);
  return kept;
}
