import type { IncomingMessage, ServerResponse } from "node:http";
import type { Registry } from "prom-client";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { sendError, sendJson, sendText } from "./http-reply.ts";
import type { HttpRoute } from "./http-server.ts";

/** What `/metrics` shows: a registry of prom-client, or several as one. */
export type MetricsPage = Pick<Registry, "contentType" | "metrics">;

/** What the pages show. */
export interface StatusPagesOptions {
  readonly ready: () => Promise<void>;
  readonly metrics: MetricsPage;
  readonly openApi: string;
}

type Page = (response: ServerResponse) => Promise<void> | void;

const OK = JSON.stringify({ ok: true });

/** The pages that need no key: `/healthz`, `/readyz`, `/metrics` and `/openapi.json`. */
export function createStatusPages({ ready, metrics, openApi }: StatusPagesOptions): readonly HttpRoute[] {
  return [
    page("/healthz", (response) => sendJson(response, 200, OK)),
    page("/readyz", async (response) => {
      await ready();
      sendJson(response, 200, OK);
    }),
    page("/metrics", async (response) => sendText(response, 200, metrics.contentType, await metrics.metrics())),
    page("/openapi.json", (response) => sendJson(response, 200, openApi)),
  ];
}

function page(path: string, show: Page): HttpRoute {
  return {
    prefix: path,
    async handle(request: IncomingMessage, response: ServerResponse) {
      if (request.url !== path && !request.url?.startsWith(`${path}?`)) return false;
      request.resume();
      if (request.method === "GET" || request.method === "HEAD") await show(response);
      else sendError(response, notGet(request.method ?? ""));
      return true;
    },
  };
}

function notGet(method: string): ControlPlaneError {
  const text = `\`${method}\` is not allowed here; allowed are GET, HEAD`;
  return new ControlPlaneError(ErrorReason.METHOD_NOT_ALLOWED, text, { method, allow: "GET, HEAD" });
}
