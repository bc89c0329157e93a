import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { headerOf, sendJson } from "./http-reply.ts";

/** Time for which a client may use the schema without asking: it changes with the version of the service alone. */
const MAX_AGE_SECONDS = 3_600;

/**
 * Creates the page of the JSON Schema of files of mandates, which editors load. Pages of every origin may read it: it is the same for
 * all and needs no key.
 */
export function mandateSchemaPage(): (response: ServerResponse, request: IncomingMessage) => void {
  const text = readFileSync(new URL("../../gen/mandate.schema.json", import.meta.url), "utf8");
  const etag = `"${createHash("sha256").update(text).digest("base64url")}"`;
  const headers = {
    etag,
    "cache-control": `public, max-age=${MAX_AGE_SECONDS}`,
    "access-control-allow-origin": "*",
  };
  return (response, request) => {
    const known = headerOf(request, "if-none-match")?.split(",") ?? [];
    if (known.some((each) => each.trim().replace(/^W\//, "") === etag)) response.writeHead(304, headers).end();
    else sendJson(response, 200, text, headers);
  };
}
