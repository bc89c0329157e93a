import type { LookupFunction } from "node:net";
import { LRUCache } from "lru-cache";
import { Agent, fetch } from "undici";
import type { McpServer } from "../registry/mcp-servers.ts";
import { asNotRun, isUnsent } from "./call-end.ts";
import { type Endpoint, type EndpointRequest, upstreamUnavailable } from "./endpoint.ts";

/** Timeouts of connections to upstream servers, milliseconds. */
const CONNECT_MS = 10_000;
/** Above every hold and the call timeout, which end a call first. */
const SILENT_MS = 7_200_000;
/** Maximum connections of one workspace to one server. */
const MAX_CONNECTIONS = 512;
/** Workspaces whose idle connections are kept. */
const MAX_WORKSPACES = 1_000;

/** Standard `fetch`, without following redirects. */
export type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * Opens HTTP connections to upstream servers at allowed addresses. Node's own `fetch` accepts no `Agent` with a `lookup`. Workspaces
 * share no connection, so that the calls of one to a server that several use never wait for those of another.
 */
export class HttpConnections {
  readonly #lookup: LookupFunction;
  readonly #agents = new LRUCache<string, Agent>({
    max: MAX_WORKSPACES,
    // Requests in flight go on.
    dispose: (agent) => void agent.close().catch(() => undefined),
  });

  /** `lookup` resolves names to allowed addresses, and rejects others. */
  constructor(lookup: LookupFunction) {
    this.#lookup = lookup;
  }

  /** Returns the `fetch` of a workspace. */
  of(workspaceId: string): Fetch {
    return async (input, init = {}) => {
      const { body, headers, method, signal } = init;
      const response = await fetch(input, {
        method: method ?? "GET",
        headers: headers as Record<string, string>,
        redirect: "manual",
        ...(typeof body === "string" ? { body } : {}),
        ...(signal ? { signal } : {}),
        dispatcher: this.#agentOf(workspaceId),
      });
      return response as unknown as Response;
    };
  }

  /** Closes all connections. */
  async close(): Promise<void> {
    await Promise.all([...this.#agents.values()].map((agent) => agent.destroy()));
  }

  #agentOf(workspaceId: string): Agent {
    const known = this.#agents.get(workspaceId);
    if (known !== undefined) return known;
    const agent = new Agent({
      connect: { lookup: this.#lookup, timeout: CONNECT_MS },
      connections: MAX_CONNECTIONS,
      headersTimeout: SILENT_MS,
      bodyTimeout: SILENT_MS,
    });
    this.#agents.set(workspaceId, agent);
    return agent;
  }
}

/** Endpoint of an upstream server that itself speaks Streamable HTTP of the caller's generation. */
export class HttpEndpoint implements Endpoint {
  readonly isShared = true;
  readonly #server: McpServer;
  readonly #fetch: Fetch;

  constructor(server: McpServer, connections: HttpConnections) {
    this.#server = server;
    this.#fetch = connections.of(server.workspaceId);
  }

  async fetch({ method, headers, body, signal }: EndpointRequest): Promise<Response> {
    const { url, headers: own, name } = this.#server;
    try {
      const response = await this.#fetch(url ?? "", {
        method,
        signal,
        headers: { ...headers, ...own },
        ...(body === undefined ? {} : { body }),
      });
      if (response.status === 401 || response.status === 403) {
        await response.body?.cancel();
        throw asNotRun(upstreamUnavailable(name, `refuses the gateway's own credentials (HTTP ${response.status})`));
      }
      if (response.status >= 300 && response.status < 400) {
        await response.body?.cancel();
        const why = "redirects, and redirects are not followed; register its final URL";
        throw asNotRun(upstreamUnavailable(name, why));
      }
      return response;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof Error && error.name === "ControlPlaneError") throw error;
      const fault = upstreamUnavailable(name, "cannot be reached", error);
      throw isUnsent(error) ? asNotRun(fault) : fault;
    }
  }

  async close(): Promise<void> {
    // Connections are shared.
  }
}
