import { chmod, mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { startServer } from "../support/server.ts";

/** The result of one tool call, as the agent's model reads it. */
export interface ToolResult {
  readonly text: string;
  readonly isError: boolean;
  /** The control plane's decision, when the call was refused or answered by it. */
  readonly decisionId: string | undefined;
}

/** An agent: an official MCP client whose server URL is the gateway's. */
export interface DemoAgent {
  readonly name: string;
  readonly agentId: string;
  /** Calls a tool. Resolves with the result, refusals included; rejects when the call ends without one. */
  call(tool: string, args: Record<string, unknown>): Promise<ToolResult>;
  tools(): Promise<readonly string[]>;
}

/** Calls the REST interface with the administrator's key. Rejects with the response if it reports an error. */
export type RestCall = (
  method: "GET" | "PATCH" | "POST",
  path: string,
  body?: unknown,
) => Promise<Record<string, unknown>>;

/** A control plane in front of the MCP filesystem server, and two agents. */
export interface Stage {
  /** The folder that the tools may use. */
  readonly folder: string;
  /** Address of the service and its dashboard. */
  readonly http: string;
  readonly adminKey: string;
  readonly rest: RestCall;
  readonly ada: DemoAgent;
  readonly bob: DemoAgent;
}

/** Name of the MCP server at the gateway. */
export const SERVER = "files";

/** Maximum number of `list_directory` calls a minute, all agents together. */
export const LISTINGS_A_MINUTE = 5;

const onPath = (operator: string, value: string) => ({
  type: "argument",
  tool: `${SERVER}.write_file`,
  conditions: { operator: "AND", rules: [{ field: "path", operator, value }] },
});

const MANDATES: readonly object[] = [
  {
    name: "the vault is read-only",
    rules: [{ ...onPath("contains", "/vault/"), decision: "block", description: "nobody writes to the vault" }],
  },
  {
    name: "settings need a person",
    rules: [{ ...onPath("ends_with", ".conf"), decision: "escalate", description: "a person looks at settings" }],
  },
  {
    name: "listings are limited",
    rules: [
      {
        type: "sequence",
        decision: "block",
        conditions: {
          mode: "velocity",
          match_action_types: [`${SERVER}.list*`],
          max_count: LISTINGS_A_MINUTE,
          window_seconds: 60,
          scope: "workspace",
        },
      },
    ],
  },
];

/** Starts the service, registers the MCP server, publishes the mandates and connects the agents. */
export async function setStage(cleanup: AsyncDisposableStack): Promise<Stage> {
  const folder = await createFolder(cleanup);
  const starting = startServer({ env: { ACP_MCP_FOLDERS: `${folder}:rw`, ACP_MCP_ALLOW_SAME_USER: "true" } });
  // Registered before it is ready, so that an interrupted demo stops it too.
  cleanup.defer(() => starting.then(async (each) => void (await each.stop())).catch(() => undefined));
  const { http, adminKey } = await starting;
  const rest = createRestCall(http, adminKey);
  await rest("POST", "/v1/enforce/mcp-servers", {
    name: SERVER,
    command: process.execPath,
    args: [filesystemServer(), folder],
  });
  // Pins the tools, so that mandates can name their arguments.
  await rest("POST", `/v1/enforce/mcp-servers/${SERVER}:refresh`, {});
  for (const mandate of MANDATES) await rest("POST", "/v1/enforce/mandates", mandate);
  const connect = (name: string) => connectAgent({ name, http, rest, cleanup });
  return { folder, http, adminKey, rest, ada: await connect("ada"), bob: await connect("bob") };
}

/**
 * Creates the folder that agents work in: a note to read, an empty vault. Any account may write there, since the command has one
 * of its own.
 */
async function createFolder(cleanup: AsyncDisposableStack): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "acp-demo-")));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, "vault"));
  await writeFile(join(folder, "note.txt"), "tea at five");
  for (const each of [folder, join(folder, "vault")]) await chmod(each, 0o777);
  return folder;
}

function filesystemServer(): string {
  const name = "@modelcontextprotocol/server-filesystem";
  return join(dirname(createRequire(import.meta.url).resolve(`${name}/package.json`)), "dist/index.js");
}

/** Registers an agent with a key of its own, and connects an MCP client with it. */
async function connectAgent({
  name,
  http,
  rest,
  cleanup,
}: {
  readonly name: string;
  readonly http: string;
  readonly rest: RestCall;
  readonly cleanup: AsyncDisposableStack;
}): Promise<DemoAgent> {
  const { agent } = await rest("POST", "/v1/enforce/agents", { name, framework: "demo" });
  const agentId = (agent as { agent_id: string }).agent_id;
  const { secret } = await rest("POST", "/v1/admin/keys", { name, role: "agent", agent_id: agentId });
  const client = new Client({ name, version: "1.0.0" });
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${http}/mcp/${SERVER}`), {
      requestInit: { headers: { "x-api-key": String(secret) } },
    }),
  );
  cleanup.defer(() => client.close());
  return {
    name,
    agentId,
    async call(tool, args) {
      const result = await client.callTool({ name: tool, arguments: args });
      const parts = result.content as readonly { readonly text?: string }[];
      const meta = result._meta?.["agentcontrol.v1/decision"] as { readonly decision_id?: string } | undefined;
      return {
        text: parts.map(({ text = "" }) => text).join("\n"),
        isError: result.isError === true,
        decisionId: meta?.decision_id,
      };
    },
    tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
  };
}

function createRestCall(baseUrl: string, apiKey: string): RestCall {
  return async (method, path, body) => {
    const headers = { "x-api-key": apiKey, "content-type": "application/json" };
    const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) };
    const response = await fetch(`${baseUrl}${path}`, init);
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  };
}
