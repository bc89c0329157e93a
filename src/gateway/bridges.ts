import { randomUUID } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { Client, type Transport } from "@modelcontextprotocol/client";
import {
  createMcpHandler,
  type Implementation,
  type McpHttpHandler,
  Server,
  type ServerCapabilities,
  type ServerContext,
  type StandardSchemaV1,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { ownValue } from "../policy/json-value.ts";
import { type Endpoint, type EndpointRequest, upstreamUnavailable } from "./endpoint.ts";

/** Name under which the gateway speaks for its clients where it is a client itself. */
export const GATEWAY_INFO: Implementation = { name: "agent-control-plane", version: "1" };
/** Milliseconds that a bridged request may take: above every timeout of the gateway, which ends it itself. */
const REQUEST_MS = 7_200_000;

/** Accepts every result as it is: the gateway passes on what it does not know. */
const ANY_RESULT: StandardSchemaV1<unknown, JsonObject> = {
  "~standard": { version: 1, vendor: "agentcontrol", validate: (value) => ({ value: value as JsonObject }) },
};

/** Sends a client's request to a server of the other generation, with its progress and its cancellation. */
async function carry(
  client: Client,
  method: string,
  params: JsonObject | undefined,
  { mcpReq }: ServerContext,
): Promise<JsonObject> {
  const token = mcpReq._meta?.progressToken;
  const onprogress =
    token === undefined
      ? undefined
      : (progress: object) => {
          const params = { ...progress, progressToken: token };
          void mcpReq.notify({ method: "notifications/progress", params } as never).catch(() => undefined);
        };
  return client.request({ method, ...(params === undefined ? {} : { params }) }, ANY_RESULT, {
    ...{ signal: mcpReq.signal, timeout: REQUEST_MS, maxTotalTimeout: REQUEST_MS },
    ...(onprogress === undefined ? {} : { onprogress }),
  });
}

/** Returns the parameters of a request without what belongs to its own generation. */
function carriedParams(params: unknown): JsonObject | undefined {
  if (params === undefined) return undefined;
  const { _meta, ...rest } = params as JsonObject;
  const meta = Object.entries((_meta ?? {}) as JsonObject).filter(
    ([name]) => name !== "progressToken" && !name.startsWith("io.modelcontextprotocol/"),
  );
  return meta.length === 0 ? rest : { ...rest, _meta: Object.fromEntries(meta) as JsonObject };
}

const serverInfoOf = (client: Client): Implementation => client.getServerVersion() ?? GATEWAY_INFO;

function optionsOf(client: Client): { capabilities: ServerCapabilities; instructions?: string } {
  const instructions = client.getInstructions();
  const capabilities = client.getServerCapabilities() ?? {};
  return { capabilities, ...(instructions === undefined ? {} : { instructions }) };
}

/** Stateless requests to a server that has sessions: one session carries those of one agent. */
export class StatelessBridge implements Endpoint {
  readonly #client: Client;
  readonly #handler: McpHttpHandler;
  #isClosed = false;

  /** Takes a connected client without capabilities: requests of the server cannot be carried over, and it is told so. */
  constructor(client: Client) {
    this.#client = client;
    this.#handler = createMcpHandler(() => this.#createServer(), { legacy: "reject" });
  }

  /** True once the gateway has closed the session itself. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** True while the server's session lives. */
  get isOpen(): boolean {
    return this.#client.transport !== undefined;
  }

  fetch({ method, headers, body, signal }: EndpointRequest): Promise<Response> {
    const init = { method, headers, signal, ...(body === undefined ? {} : { body }) };
    return this.#handler.fetch(new Request("http://gateway.invalid/mcp", init));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#handler.close().catch(() => undefined);
    await this.#client.close().catch(() => undefined);
  }

  #createServer(): Server {
    const { capabilities, ...rest } = optionsOf(this.#client);
    // Log messages of a session belong to no request.
    const { logging: _, ...carried } = capabilities;
    const server = new Server(serverInfoOf(this.#client), { ...rest, capabilities: carried });
    server.fallbackRequestHandler = (request, context) =>
      carry(this.#client, request.method, carriedParams(request.params), context) as never;
    return server;
  }
}

/** Methods by which a server of the newer generation asks its client for input. */
const INPUT_METHODS = ["elicitation/create", "sampling/createMessage", "roots/list"] as const;

/** A session of a client with a server that has none. Input that the server requires is asked for in the session. */
export class StatefulBridge implements Endpoint {
  readonly #client: Client;
  readonly #server: Server;
  readonly #http = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => randomUUID() });
  /** The request that the server answers last, whose stream carries what it asks. */
  #latest: string | number | undefined;

  private constructor(client: Client) {
    this.#client = client;
    this.#server = new Server(serverInfoOf(client), optionsOf(client));
    this.#server.fallbackRequestHandler = (request, context) => {
      this.#latest = context.mcpReq.id;
      return carry(client, request.method, carriedParams(request.params), context) as never;
    };
    client.fallbackNotificationHandler = (notification) => this.#server.notification(notification);
  }

  /** Connects to the server with the capabilities of the client's `initialize`. */
  static async open(name: string, transport: Transport, initialize: JsonObject | undefined): Promise<StatefulBridge> {
    const capabilities = (ownValue(initialize ?? {}, "capabilities") ?? {}) as JsonObject;
    const client = new Client(GATEWAY_INFO, {
      capabilities: capabilities as never,
      versionNegotiation: { mode: "auto" },
    });
    try {
      await client.connect(transport);
    } catch (error) {
      throw upstreamUnavailable(name, "cannot be reached", error);
    }
    const bridge = new StatefulBridge(client);
    for (const method of INPUT_METHODS) bridge.#ask(method, capabilities);
    await bridge.#server.connect(bridge.#http);
    void client
      .listen({ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true })
      .catch(() => undefined);
    return bridge;
  }

  #ask(method: (typeof INPUT_METHODS)[number], capabilities: JsonObject): void {
    const capability = method.slice(0, method.indexOf("/"));
    if (ownValue(capabilities, capability) === undefined) return;
    this.#client.setRequestHandler(
      method as never,
      (async (request: { params?: unknown }) => {
        const related = this.#latest === undefined ? {} : { relatedRequestId: this.#latest };
        const params = carriedParams(request.params);
        return this.#server.request({ method, ...(params === undefined ? {} : { params }) }, ANY_RESULT, {
          ...{ timeout: REQUEST_MS },
          ...related,
        });
      }) as never,
    );
  }

  fetch({ method, headers, body, signal }: EndpointRequest): Promise<Response> {
    const init = { method, headers, signal, ...(body === undefined ? {} : { body }) };
    return this.#http.handleRequest(new Request("http://gateway.invalid/mcp", init));
  }

  async close(): Promise<void> {
    await this.#server.close().catch(() => undefined);
    await this.#client.close().catch(() => undefined);
  }
}
