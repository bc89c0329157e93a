/* A control plane in front of MCP servers, and the official clients of both generations. */
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { Client as StatelessClient, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as StatefulClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as StatefulTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import {
  startService,
  startServiceProcess,
  type TestService,
  type TestServiceOptions,
  type TestServiceProcess,
  type TestServiceProcessOptions,
} from "../support/service.ts";

/** A service that may reach MCP servers on this machine. */
export interface GatewayService extends TestService {
  readonly agentId: string;
  /** Registers an MCP server: a URL, or a command with its arguments. */
  add(
    name: string,
    target: { url: string } | { command: string; args?: readonly string[] },
    more?: object,
  ): Promise<void>;
  /** The address of a server for clients. */
  urlOf(name: string): URL;
  /** Headers that say who calls. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The same as a process of its own. */
export interface GatewayServiceProcess extends GatewayService, TestServiceProcess {
  stop(): Promise<number | null>;
}

async function gatewayOf<S extends TestService>(service: S): Promise<GatewayService & S> {
  const agentId = await service.agent();
  return {
    ...service,
    agentId,
    async add(name, target, more = {}) {
      await service.rest("POST /v1/enforce/mcp-servers", { name, ...target, ...more });
    },
    urlOf: (name) => new URL(`${service.http}/mcp/${name}`),
    headers: { "x-api-key": service.adminKey, "x-agent-id": agentId },
  };
}

const ALLOW = { ACP_MCP_ALLOW: "127.0.0.0/8" };

/** Starts the service in this process. */
export async function startGateway({ env = {}, ...rest }: TestServiceOptions = {}): Promise<GatewayService> {
  return gatewayOf(await startService({ env: { ...ALLOW, ...env }, ...rest }));
}

/** Starts the service as a process of its own. */
export async function startGatewayProcess({
  env = {},
  ...rest
}: TestServiceProcessOptions = {}): Promise<GatewayServiceProcess> {
  return gatewayOf(await startServiceProcess({ env: { ...ALLOW, ...env }, ...rest }));
}

const require = createRequire(import.meta.url);

/** The entry point of an installed MCP server. */
export function programOf(packageName: string): string {
  return join(dirname(require.resolve(`${packageName}/package.json`)), "dist/index.js");
}

/** What both clients have. */
export interface AnyClient {
  request(request: { method: string; params?: object }): Promise<Record<string, unknown>>;
  close(): Promise<void>;
}

const ANY = { "~standard": { version: 1, vendor: "test", validate: (value: unknown) => ({ value }) } } as never;
const LOOSE = { parse: (value: unknown) => value, safeParse: (data: unknown) => ({ success: true, data }) } as never;

/** Connects the official client of the generation with sessions. */
export async function connectStateful(
  url: URL,
  headers: Readonly<Record<string, string>> = {},
  capabilities: object = {},
): Promise<StatefulClient> {
  const client = new StatefulClient({ name: "test", version: "1" }, { capabilities });
  await client.connect(new StatefulTransport(url, { requestInit: { headers: { ...headers } } }) as Transport);
  return client;
}

/** Connects the official client of the stateless generation. */
export async function connectStateless(
  url: URL,
  headers: Readonly<Record<string, string>> = {},
  capabilities: object = {},
): Promise<StatelessClient> {
  const options = { capabilities, versionNegotiation: { mode: { pin: "2026-07-28" } } } as const;
  const client = new StatelessClient({ name: "test", version: "1" }, options);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers: { ...headers } } }));
  return client;
}

/** Gives a client of either generation one way to ask anything. */
export function asking(client: StatefulClient | StatelessClient): AnyClient {
  const schema = client instanceof StatefulClient ? LOOSE : ANY;
  return {
    request: (request) => (client.request as (...args: unknown[]) => Promise<Record<string, unknown>>)(request, schema),
    close: () => client.close(),
  };
}
