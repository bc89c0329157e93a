import type { IncomingHttpHeaders } from "node:http";

/** Headers of a caller that the model's service gets. All others stay here: cookies, keys, and what belongs to a connection. */
const UP = /^(accept|user-agent|openai-(organization|project|beta)|idempotency-key|x-stainless-[\w-]+)$/;
/** Headers of the model's service that the caller gets. */
const DOWN = /^(retry-after(-ms)?|x-should-retry|openai-[\w-]+|x-ratelimit-[\w-]+)$/;

function chosen(headers: IncomingHttpHeaders, names: RegExp): Record<string, string> {
  const entries = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    names.test(name) && typeof value === "string" ? [[name, value]] : [],
  );
  return Object.fromEntries(entries);
}

/** The headers for the model's service. */
export function headersUp(headers: IncomingHttpHeaders, authorization: string | undefined): Record<string, string> {
  return { ...chosen(headers, UP), ...(authorization === undefined ? {} : { authorization }) };
}

/** The headers for the caller. */
export const headersDown = (headers: IncomingHttpHeaders): Record<string, string> => chosen(headers, DOWN);

/** The media type of a body in lower case, without parameters; empty when there is none. */
export function mediaTypeOf(headers: IncomingHttpHeaders): string {
  const [type = ""] = (headers["content-type"] ?? "").split(";");
  return type.trim().toLowerCase();
}

/** Whether a media type is JSON. */
export const isJsonType = (type: string): boolean => /^application\/([\w.-]+\+)?json$/.test(type);
