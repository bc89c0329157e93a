import type { IncomingMessage, ServerResponse } from "node:http";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { escaped } from "./html.ts";
import { headerOf } from "./http-reply.ts";
import { sendPlainPage } from "./plain-page.ts";

/** Maximum characters of the path that the page repeats. */
const MAX_PATH = 200;

/** Returns the weight of each media type in an `Accept` header (RFC 9110 §12.5.1). */
function weightsIn(accept: string): ReadonlyMap<string, number> {
  return new Map(
    accept.split(",").map((range) => {
      const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
      const weight = parameters.find((each) => each.startsWith("q="))?.slice(2);
      return [type, weight === undefined ? 1 : Number(weight)];
    }),
  );
}

/** Tests whether a caller names HTML and wants it more than JSON, as browsers do when a person opens an address. */
function prefersHtml(accept: string): boolean {
  const weights = weightsIn(accept);
  const json = weights.get("application/json") ?? weights.get("application/*") ?? weights.get("*/*") ?? 0;
  return (weights.get("text/html") ?? 0) > json;
}

/** Answers a browser at a path without a route with a page that leads on; returns false for other errors and callers. */
export function sendNotFoundPage(request: IncomingMessage, response: ServerResponse, error: unknown): boolean {
  if (!(error instanceof ControlPlaneError) || error.reason !== ErrorReason.ROUTE_NOT_FOUND) return false;
  if (request.method !== "GET" && request.method !== "HEAD") return false;
  if (response.headersSent || !prefersHtml(headerOf(request, "accept") ?? "")) return false;
  const [path = ""] = (request.url ?? "").split("?", 1);
  const shown = path.length > MAX_PATH ? `${path.slice(0, MAX_PATH)}…` : path;
  request.resume();
  sendPlainPage(response, {
    status: 404,
    title: "There is nothing here",
    body: `<p>No page and no call of the service is at <code>${escaped(shown)}</code>.</p>
<ul><li><a class="button" href="/overview">Go to the dashboard</a></li><li><a class="button" href="/docs">Read the documentation</a></li></ul>`,
  });
  return true;
}
