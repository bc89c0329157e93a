import type { HttpConnections } from "./http-endpoint.ts";
import { createError, RPC_CODES, rpcMessageFrom, sseText } from "./messages.ts";
import { MessageTooLarge, readServerJson, readText, SseReader } from "./reading.ts";

type Fetch = HttpConnections["fetch"];

/** Maximum bytes of an answer that is neither JSON nor a stream of events, or is an HTTP error. */
const MAX_OTHER_BYTES = 65_536;
/** HTTP statuses without a body. */
const BODILESS: ReadonlySet<number> = new Set([101, 204, 205, 304]);

/**
 * Wraps `fetch` for the official client, which parses whatever a server answers: each message is first read within its bounds, and
 * one that exceeds them becomes the error response to the client's request.
 */
export function boundedFetch(fetch: Fetch, maxBytes: number): Fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    const { body, status, statusText, headers } = response;
    if (body === null || BODILESS.has(status)) return response;
    const type = (headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase();
    const refuse = (error: unknown): string => refusalOf(init?.body, error);
    const isStream = response.ok && type === "text/event-stream";
    const bounded = isStream
      ? boundedEvents(body, maxBytes, refuse)
      : await boundedText(response, response.ok && type === "application/json" ? maxBytes : undefined, refuse);
    return new Response(bounded, { status, statusText, headers: withoutLength(headers) });
  };
}

/** Creates the text of the error response to a request. Throws anything but `MessageTooLarge`. */
function refusalOf(body: RequestInit["body"], error: unknown): string {
  if (!(error instanceof MessageTooLarge)) throw error;
  const asked = typeof body === "string" ? rpcMessageFrom(JSON.parse(body)) : undefined;
  if (asked === undefined || !("id" in asked)) throw error;
  return JSON.stringify(createError(asked.id, RPC_CODES.server, error.message));
}

async function boundedText(
  { body }: Response,
  maxBytes: number | undefined,
  refuse: (error: unknown) => string,
): Promise<string> {
  try {
    const text = await readText(body, maxBytes ?? MAX_OTHER_BYTES);
    if (maxBytes !== undefined) await readServerJson(text);
    return text;
  } catch (error) {
    return maxBytes === undefined && error instanceof MessageTooLarge ? error.message : refuse(error);
  }
}

function boundedEvents(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
  refuse: (error: unknown) => string,
): ReadableStream<Uint8Array> {
  const reader = new SseReader(maxBytes);
  const encoder = new TextEncoder();
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      async transform(chunk, controller) {
        const send = (text: string): void => controller.enqueue(encoder.encode(text));
        try {
          for (const event of reader.next(chunk)) {
            if (event.data !== "") await readServerJson(event.data);
            send(sseText(event));
          }
          const retryMs = reader.takeRetryMs();
          if (retryMs !== undefined) send(`retry: ${retryMs}\n\n`);
        } catch (error) {
          send(sseText({ data: refuse(error) }));
          controller.terminate();
        }
      },
    }),
  );
}

/** Returns the headers of a body that has another length and encoding than the one that came. */
function withoutLength(headers: Headers): Headers {
  const kept = new Headers(headers);
  for (const name of ["content-length", "content-encoding", "transfer-encoding"]) kept.delete(name);
  return kept;
}
