import { ControlPlaneError, ErrorReason } from "../../errors.ts";

/** Media types of responses. */
export const JSON_TYPE = "application/json";
export const NDJSON_TYPE = "application/x-ndjson";
export const EVENT_STREAM_TYPE = "text/event-stream";

/** Format of a server stream: Server-Sent Events, or one JSON text per line. */
export type StreamFormat = "sse" | "ndjson";

/** Throws NOT_ACCEPTABLE if an `Accept` header excludes JSON. */
export function assertAcceptsJson(accept: string | undefined): void {
  if (accept !== undefined && accept !== "" && quality(accept, JSON_TYPE) === 0) throw notAcceptable(accept, JSON_TYPE);
}

/** Returns the format of a stream: events if the header names them, otherwise lines. Throws NOT_ACCEPTABLE if it excludes both. */
export function streamFormatFor(accept: string | undefined): StreamFormat {
  if (accept === undefined || accept === "") return "ndjson";
  if (accept.toLowerCase().includes(EVENT_STREAM_TYPE) && quality(accept, EVENT_STREAM_TYPE) > 0) return "sse";
  if (quality(accept, NDJSON_TYPE) > 0 || quality(accept, JSON_TYPE) > 0) return "ndjson";
  throw notAcceptable(accept, `${NDJSON_TYPE} or ${EVENT_STREAM_TYPE}`);
}

// The most specific range that covers the type decides (RFC 9110).
function quality(accept: string, type: string): number {
  const ranges = accept.toLowerCase().split(",").map(rangeFromText);
  for (const range of [type, `${type.slice(0, type.indexOf("/"))}/*`, "*/*"]) {
    const found = ranges.find((each) => each.range === range);
    if (found !== undefined) return found.quality;
  }
  return 0;
}

function rangeFromText(text: string): { range: string; quality: number } {
  const [range = "", ...parameters] = text.split(";").map((part) => part.trim());
  const given = parameters.find((parameter) => parameter.startsWith("q="));
  const quality = given === undefined ? 1 : Number(given.slice(2));
  return { range, quality: Number.isFinite(quality) ? quality : 0 };
}

function notAcceptable(accept: string, offered: string): ControlPlaneError {
  const text = `nothing that \`${accept}\` accepts is offered; accept \`${offered}\``;
  return new ControlPlaneError(ErrorReason.NOT_ACCEPTABLE, text, { accept, offered });
}
