import type { LookupFunction } from "node:net";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { LRUCache } from "lru-cache";
import type { Portion, SharedPot } from "../async/shared-pot.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import type { McpDefinitionKind } from "../registry/mcp-candidate.ts";
import type { McpListing } from "../registry/mcp-definitions.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import { canonicalJson } from "../tree/canonical.ts";
import { boundedFetch } from "./bounded-fetch.ts";
import { type Abilities, abilitiesOf, GATEWAY_INFO, StatefulBridge, StatelessBridge } from "./bridges.ts";
import { ChildTransport } from "./child-transport.ts";
import type { Children } from "./children.ts";
import { type Endpoint, upstreamUnavailable } from "./endpoint.ts";
import { HttpConnections, HttpEndpoint } from "./http-endpoint.ts";
import { type ListedKind, listDefinitions, listingFrom, readResponse } from "./listing.ts";
import { readText } from "./reading.ts";
import { StatelessBridges } from "./stateless-bridges.ts";
import { StdioEndpoint } from "./stdio-endpoint.ts";

/** Parts of `Upstreams`. */
export interface UpstreamsOptions {
  /** Resolves names of upstream servers to allowed addresses, and rejects others. */
  readonly lookup: LookupFunction;
  readonly children: Children;
  /** Maximum bytes of a message of a server. */
  readonly maxResultBytes: number;
  /** Pot of the bytes of servers' messages. */
  readonly answers: SharedPot;
}

/** Generations that a server itself speaks. */
interface Spoken {
  readonly stateful: boolean;
  readonly stateless: boolean;
}

/** Milliseconds for which a server's generations are cached: the server may be upgraded. */
const SPOKEN_MS = 600_000;
const MAX_SPOKEN = 1_000;
/** Milliseconds to connect to a server. */
const CONNECT_MS = 15_000;
/** Milliseconds to start a command, which may download its program first. */
const START_MS = 120_000;
const UNSUPPORTED_VERSION = -32_022;
const PROBE_ID = "gateway-probe";
/** Maximum bytes of the response to the gateway's own `initialize`. */
const MAX_INITIALIZE_BYTES = 1_048_576;
/** Maximum bytes of the refusal of a generation. */
const MAX_REFUSAL_BYTES = 65_536;
const ACCEPT = "application/json, text/event-stream";
/** The gateway's own `initialize`. */
const INITIALIZE = {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { ...GATEWAY_INFO },
} as JsonObject & {
  protocolVersion: string;
};

/** Opens endpoints of upstream servers for clients of each generation. */
export class Upstreams {
  readonly #children: Children;
  readonly #connections: HttpConnections;
  readonly #maxResultBytes: number;
  readonly #answers: SharedPot;
  readonly #spoken = new LRUCache<string, Promise<Spoken>>({ max: MAX_SPOKEN, ttl: SPOKEN_MS });
  readonly #bridges = new StatelessBridges();

  constructor({ lookup, children, maxResultBytes, answers }: UpstreamsOptions) {
    this.#answers = answers;
    this.#children = children;
    this.#maxResultBytes = maxResultBytes;
    this.#connections = new HttpConnections(lookup);
  }

  /**
   * Opens the endpoint for one session of an agent's client; `agentId` is null for the gateway's own. `initialize` has the
   * parameters of its request.
   */
  async stateful(server: McpServer, agentId: string | null, initialize: JsonObject | undefined): Promise<Endpoint> {
    if (server.url === null) return new StdioEndpoint(server, agentId, this.#children, this.#answers);
    const { stateful } = await this.#speaks(server);
    if (stateful) return new HttpEndpoint(server, this.#connections);
    return StatefulBridge.open(server.name, this.#transport(server, agentId), initialize);
  }

  /**
   * Returns the endpoint for stateless requests of one agent. `params` of the request declare the kinds of input that its client
   * gives. Rejects with OVERLOADED.
   */
  async stateless(server: McpServer, agentId: string, params: JsonObject | undefined): Promise<Endpoint> {
    if (server.url !== null && (await this.#speaks(server)).stateless)
      return new HttpEndpoint(server, this.#connections);
    const abilities = abilitiesOf(params);
    const key = `${keyOf(server)} ${agentId} ${canonicalJson(abilities as JsonObject)}`;
    const holder = { workspaceId: server.workspaceId, agentId };
    return this.#bridges.endpoint({ key, holder, open: () => this.#openBridge(server, agentId, abilities) });
  }

  /** Opens a session, lists the definitions of a server, and closes the session. `held` counts the bytes that are read. */
  async listOnce(
    server: McpServer,
    held: Pick<Portion, "add">,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<McpDefinitionKind, McpListing>> {
    const endpoint = await this.stateful(server, null, INITIALIZE);
    const headers = { accept: ACCEPT, "content-type": "application/json" };
    try {
      const post = (more: Readonly<Record<string, string>>, message: object) =>
        endpoint.fetch({ method: "POST", headers: { ...headers, ...more }, body: JSON.stringify(message), signal });
      const opened = await post({}, { jsonrpc: "2.0", id: PROBE_ID, method: "initialize", params: INITIALIZE });
      if (!opened.ok) throw upstreamUnavailable(server.name, `refuses a session (HTTP ${opened.status})`);
      const session = opened.headers.get("mcp-session-id");
      const asked = { server: server.name, word: "session", held };
      const { response } = await readResponse(asked, opened, PROBE_ID, MAX_INITIALIZE_BYTES);
      if (server.url === null && response.error !== undefined) {
        throw upstreamUnavailable(server.name, startFaultOf(server, new Error(response.error.message)));
      }
      const named = session === null ? {} : { "mcp-session-id": session };
      const own = { "mcp-protocol-version": INITIALIZE.protocolVersion, ...named };
      await (await post(own, { jsonrpc: "2.0", method: "notifications/initialized" })).body?.cancel();
      const isScrubbed = server.scrub.length > 0;
      const link = {
        server: server.name,
        endpoint,
        headers: { ...headers, ...own },
        meta: undefined,
        isScrubbed,
        held,
      };
      const listed = new Map<McpDefinitionKind, McpListing>();
      const { instructions, capabilities } = response.result ?? {};
      for (const kind of kindsOf(capabilities)) listed.set(kind, await listDefinitions(link, kind, signal));
      if (typeof instructions === "string") listed.set("instructions", await listingFrom([{ instructions }]));
      if (session !== null) {
        const ended = await endpoint.fetch({ method: "DELETE", headers: { ...headers, ...own }, signal });
        await ended.body?.cancel();
      }
      return listed;
    } finally {
      await endpoint.close();
    }
  }

  /** Closes everything. */
  async close(): Promise<void> {
    await this.#bridges.close();
    await this.#children.close();
    await this.#connections.close();
  }

  #transport(server: McpServer, agentId: string | null): StreamableHTTPClientTransport {
    return new StreamableHTTPClientTransport(new URL(server.url ?? ""), {
      fetch: boundedFetch(this.#connections.of(server.workspaceId), this.#maxResultBytes, () =>
        this.#answers.open({ workspaceId: server.workspaceId, agentId }),
      ) as never,
      requestInit: { headers: { ...server.headers } },
    });
  }

  async #openBridge(server: McpServer, agentId: string, abilities: Abilities): Promise<StatelessBridge> {
    const client = new Client(GATEWAY_INFO, { capabilities: abilities });
    const bridge = new StatelessBridge(client, abilities);
    if (server.url === null) return this.#openChildBridge(server, agentId, client, bridge);
    try {
      await client.connect(this.#transport(server, agentId), { timeout: CONNECT_MS });
    } catch (error) {
      throw upstreamUnavailable(server.name, "cannot be reached", error);
    }
    return bridge;
  }

  async #openChildBridge(
    server: McpServer,
    agentId: string | null,
    client: Client,
    bridge: StatelessBridge,
  ): Promise<StatelessBridge> {
    try {
      await client.connect(new ChildTransport(server, agentId, this.#children), { timeout: START_MS });
    } catch (error) {
      await bridge.close();
      throw upstreamUnavailable(server.name, startFaultOf(server, error), error);
    }
    return bridge;
  }

  #speaks(server: McpServer): Promise<Spoken> {
    const key = keyOf(server);
    const known = this.#spoken.get(key) ?? this.#probe(server);
    this.#spoken.set(key, known);
    known.catch(() => this.#spoken.delete(key));
    return known;
  }

  /** Finds a server's generations: by the negotiation of the official client, then by an `initialize`. */
  async #probe(server: McpServer): Promise<Spoken> {
    const client = new Client(GATEWAY_INFO, { capabilities: {}, versionNegotiation: { mode: "auto" } });
    const transport = this.#transport(server, null);
    try {
      await client.connect(transport, { timeout: CONNECT_MS });
      const stateless = client.getProtocolEra() === "modern";
      if (!stateless) await transport.terminateSession().catch(() => undefined);
      return { stateless, stateful: !stateless || (await this.#takesInitialize(server)) };
    } catch (error) {
      throw upstreamUnavailable(server.name, "cannot be reached", error);
    } finally {
      await client.close().catch(() => undefined);
    }
  }

  async #takesInitialize(server: McpServer): Promise<boolean> {
    const endpoint = new HttpEndpoint(server, this.#connections);
    const signal = AbortSignal.timeout(CONNECT_MS);
    const response = await endpoint.fetch({
      method: "POST",
      signal,
      // A stateless server refuses a request without the headers that repeat its version and its method.
      headers: {
        accept: ACCEPT,
        "content-type": "application/json",
        "mcp-protocol-version": INITIALIZE.protocolVersion,
        "mcp-method": "initialize",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: PROBE_ID, method: "initialize", params: INITIALIZE }),
    });
    const text = response.ok ? "" : await readText(response.body, MAX_REFUSAL_BYTES).catch(() => "");
    if (response.ok) await response.body?.cancel();
    const session = response.headers.get("mcp-session-id");
    if (session !== null) {
      const ended = await endpoint.fetch({
        method: "DELETE",
        headers: { accept: ACCEPT, "mcp-session-id": session },
        signal,
      });
      await ended.body?.cancel();
    }
    return response.ok || !text.includes(String(UNSUPPORTED_VERSION));
  }
}

/** Returns the kinds of definitions to list by the capabilities that a server declares: tools in any case. */
function kindsOf(capabilities: JsonValue | undefined): readonly ListedKind[] {
  const declared = isJsonObject(capabilities) ? capabilities : {};
  const prompts: readonly ListedKind[] = ownValue(declared, "prompts") === undefined ? [] : ["prompt"];
  const resources: readonly ListedKind[] =
    ownValue(declared, "resources") === undefined ? [] : ["resource", "resource_template"];
  return ["tool", ...prompts, ...resources];
}

const keyOf = ({ workspaceId, name, revision }: McpServer): string => `${workspaceId} ${name} ${revision}`;

/** Returns the reason why a command was not started, without the server's name. */
function startFaultOf({ name }: McpServer, error: unknown): string {
  const [, why] = error instanceof Error ? error.message.split(`MCP server \`${name}\` `) : [];
  return why ?? "cannot be started; check its command";
}
