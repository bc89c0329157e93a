/* An MCP server and a model's service whose answers are made to hold up their reader. */
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

/** A server on this machine. */
export interface Upstream {
  readonly url: string;
  close(): Promise<void>;
}

/** An answer as text: the result of a tool, or the body of a model's answer. */
export interface HeavyAnswer {
  readonly text: string;
  /** True sends it as the event of a stream. */
  readonly isStream?: boolean;
}

async function listen(path: string, listener: RequestListener): Promise<Upstream> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const textOf = async (request: IncomingMessage): Promise<string> => (await buffer(request)).toString();

/** Starts an MCP server. `answers` has the results by the names of their tools; `listing` is the result of `tools/list`. */
export function startHeavyMcp(answers: ReadonlyMap<string, HeavyAnswer>, listing: () => string): Promise<Upstream> {
  const opened = JSON.stringify({
    protocolVersion: "2025-11-25",
    capabilities: { tools: {} },
    serverInfo: { name: "heavy", version: "1" },
  });
  return listen("/mcp", async (request, response) => {
    if (request.method !== "POST") return void response.writeHead(request.method === "DELETE" ? 200 : 405).end();
    const { id, method, params } = JSON.parse(await textOf(request));
    if (id === undefined) return void response.writeHead(202).end();
    const known: Record<string, string> = { initialize: opened, "tools/list": listing() };
    const { text, isStream = false } = answers.get(params?.name) ?? { text: known[method] ?? "" };
    const isKnown = text !== "";
    const rest = isKnown ? `"result":${text}` : '"error":{"code":-32601,"message":"unknown"}';
    const message = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${rest}}`;
    response.writeHead(isKnown ? 200 : 400, {
      "content-type": isStream ? "text/event-stream" : "application/json",
      ...(method === "initialize" ? { "mcp-session-id": "1" } : {}),
    });
    response.end(isStream ? `data: ${message}\n\n` : message);
  });
}

/** Starts a model's service. `answers` has the bodies by the names of the models. */
export function startHeavyModel(answers: ReadonlyMap<string, HeavyAnswer>): Promise<Upstream> {
  return listen("/v1", async (request, response) => {
    const model = /"model":"([^"]*)"/.exec(await textOf(request))?.[1] ?? "";
    const { text, isStream = false } = answers.get(model) ?? { text: "{}" };
    response.writeHead(200, { "content-type": isStream ? "text/event-stream" : "application/json" });
    response.end(text);
  });
}
