import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { JsonObject } from "@bufbuild/protobuf";
import {
  Client,
  type ClientCapabilities,
  ProtocolError,
  SdkHttpError,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
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
import { Turns } from "../async/turns.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { endFromStatus, faultData, isUnsent } from "./call-end.ts";
import { type Endpoint, type EndpointRequest, upstreamUnavailable } from "./endpoint.ts";
import { type CarriedRequest, InputRounds } from "./input-rounds.ts";
import { RPC_CODES } from "./messages.ts";

/** Name of the gateway where it acts as a client itself. */
export const GATEWAY_INFO: Implementation = { name: "agent-control-plane", version: "1" };
/** Milliseconds that a bridged request may take. The gateway's own timeouts are shorter and end the request. */
const REQUEST_MS = 7_200_000;
/** Milliseconds in which a server may confirm the end of a session. */
const END_MS = 2_000;

/** Schema that accepts every result, since the gateway also passes on unknown results. */
const ANY_RESULT: StandardSchemaV1<unknown, JsonObject> = {
  "~standard": { version: 1, vendor: "agentcontrol", validate: (value) => ({ value: value as JsonObject }) },
};

/** Sends a client's request to a server of the other generation, and passes on progress and cancellation. */
async function carry(
  client: Client,
  { method, params }: CarriedRequest,
  signal: AbortSignal,
  context: () => ServerContext["mcpReq"],
): Promise<JsonObject> {
  const hearsProgress = context()._meta?.progressToken !== undefined;
  const onprogress = (progress: object): void => {
    const { _meta, notify } = context();
    const params = { ...progress, progressToken: _meta?.progressToken };
    void notify({ method: "notifications/progress", params } as never).catch(() => undefined);
  };
  const request = { method, ...(params === undefined ? {} : { params }) };
  const options = {
    signal,
    timeout: REQUEST_MS,
    maxTotalTimeout: REQUEST_MS,
    ...(hearsProgress ? { onprogress } : {}),
  };
  const result = await client.request(request, ANY_RESULT, options).catch((error: unknown) => {
    throw error instanceof ProtocolError ? error : faultOf(error);
  });
  // The client has parsed the result in this turn of the event loop, and the server serialises it at once.
  await new Turns().next();
  return result;
}

/** Returns the fault of the library's client in a form that tells it from an error of the server. */
function faultOf(error: unknown): ProtocolError {
  const isRefused = error instanceof SdkHttpError && endFromStatus(error.status) !== undefined;
  const message = error instanceof Error ? error.message : String(error);
  return new ProtocolError(RPC_CODES.internal, message, faultData(isRefused || isUnsent(error)));
}

/** Returns the parameters of a request without the members of its own generation. */
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

/** Methods with which a server asks its client for input. */
const INPUT_METHODS = ["elicitation/create", "sampling/createMessage", "roots/list"] as const;

/** Kinds of input that a client can give, which the gateway declares as its capabilities. */
export type Abilities = Readonly<Pick<ClientCapabilities, "elicitation" | "sampling" | "roots">>;

/** Reads the kinds of input that a stateless request declares in its `_meta`. */
export function abilitiesOf(params: JsonObject | undefined): Abilities {
  const meta = objectAt(params, "_meta");
  const declared = objectAt(meta, "io.modelcontextprotocol/clientCapabilities");
  const elicitation = objectAt(declared, "elicitation");
  const isUrlAlone = ownValue(elicitation, "url") !== undefined && ownValue(elicitation, "form") === undefined;
  const forms = {
    ...(isUrlAlone ? {} : { form: {} }),
    ...(ownValue(elicitation, "url") === undefined ? {} : { url: {} }),
  };
  return {
    ...(ownValue(declared, "elicitation") === undefined ? {} : { elicitation: forms }),
    ...(ownValue(declared, "sampling") === undefined ? {} : { sampling: {} }),
    ...(ownValue(declared, "roots") === undefined ? {} : { roots: {} }),
  };
}

function objectAt(object: JsonObject | undefined, name: string): JsonObject {
  const value = object === undefined ? undefined : ownValue(object, name);
  return isJsonObject(value) ? value : {};
}

/**
 * Bridge for stateless requests to a server with sessions. One session carries the requests of one agent with one set of
 * abilities.
 */
export class StatelessBridge implements Endpoint {
  readonly #client: Client;
  readonly #handler: McpHttpHandler;
  readonly #rounds = new InputRounds();
  readonly #served = new WeakMap<Request, Pick<EndpointRequest, "watch" | "aside">>();
  #isClosed = false;

  /** `client` MUST NOT be connected yet; its capabilities are `abilities`. */
  constructor(client: Client, abilities: Abilities) {
    this.#client = client;
    this.#handler = createMcpHandler(({ requestInfo }) => this.#createServer(requestInfo), { legacy: "reject" });
    for (const method of INPUT_METHODS) {
      if (!(method.slice(0, method.indexOf("/")) in abilities)) continue;
      const ask = async ({ params }: { params?: unknown }) =>
        this.#rounds.ask({ method, params: carriedParams(params) });
      client.setRequestHandler(method as never, ask as never);
    }
  }

  /** True once the gateway itself has closed the session. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** True while a call is at the server or waits for its client. */
  get isWaiting(): boolean {
    return this.#rounds.isBusy;
  }

  /** True while the server's session is open. */
  get isOpen(): boolean {
    return this.#client.transport !== undefined;
  }

  fetch(given: EndpointRequest): Promise<Response> {
    const { method, headers, body, signal } = given;
    const init = { method, headers, signal, ...(body === undefined ? {} : { body }) };
    const request = new Request("http://gateway.invalid/mcp", init);
    this.#served.set(request, given);
    return this.#handler.fetch(request);
  }

  continues(method: string, params: JsonObject): boolean {
    return this.#rounds.continues({ method, params });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#rounds.close(new Error("the session has ended"));
    await this.#handler.close().catch(() => undefined);
    const { transport } = this.#client;
    if (transport instanceof StreamableHTTPClientTransport) {
      await Promise.race([
        transport.terminateSession().catch(() => undefined),
        delay(END_MS, undefined, { ref: false }),
      ]);
    }
    await this.#client.close().catch(() => undefined);
  }

  #createServer(served: Request | undefined): Server {
    const { watch, aside } = (served && this.#served.get(served)) ?? {};
    const { capabilities, ...rest } = optionsOf(this.#client);
    // Log messages of a session belong to no request.
    const { logging: _, ...carried } = capabilities;
    const server = new Server(serverInfoOf(this.#client), { ...rest, capabilities: carried });
    server.fallbackRequestHandler = async ({ method, params }, context) => {
      const result = await this.#rounds.serve(
        { method, params: carriedParams(params) },
        context,
        (request, signal, latest) => carry(this.#client, request, signal, latest),
        watch,
      );
      return (aside === undefined ? result : await aside.take(result)) as never;
    };
    return server;
  }
}

/** Bridge for a client's session with a stateless server. The server's requests for input go through the session. */
export class StatefulBridge implements Endpoint {
  readonly #client: Client;
  readonly #server: Server;
  readonly #http = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => randomUUID() });
  /** Latest request to the server. Its stream carries the server's requests for input. */
  #latest: string | number | undefined;

  private constructor(client: Client) {
    this.#client = client;
    this.#server = new Server(serverInfoOf(client), optionsOf(client));
    this.#server.fallbackRequestHandler = ({ method, params }, { mcpReq }) => {
      this.#latest = mcpReq.id;
      return carry(client, { method, params: carriedParams(params) }, mcpReq.signal, () => mcpReq) as never;
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
          timeout: REQUEST_MS,
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
