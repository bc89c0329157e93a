import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ControlPlane } from "../../src/client/index.ts";
import { createNodeControlPlane } from "../../src/client/node/index.ts";
import { startServer } from "../support/server.ts";
import { type FilesystemTools, startFilesystemTools } from "./filesystem-tools.ts";

/** One agent of the demo. */
export interface DemoAgent {
  readonly name: string;
  readonly agentId: string;
}

/** Calls the control plane as any HTTP client would. Rejects with the response if it reports an error. */
export type RestCall = (method: "GET" | "POST", path: string, body?: unknown) => Promise<Record<string, unknown>>;

/** A running service and tools, two agents, and their clients. */
export interface DemoSetup {
  /** The folder that the tools may use. */
  readonly folder: string;
  readonly tools: FilesystemTools;
  /** Calls with the administrator's key. */
  readonly rest: RestCall;
  /** Calls with the agents' key. */
  readonly controlPlane: ControlPlane;
  readonly writer: DemoAgent;
  readonly reader: DemoAgent;
}

/** Maximum number of `list_directory` calls per minute, all agents together. */
export const LISTINGS_A_MINUTE = 5;

const writesTo = (operator: string, value: string) => ({
  type: "argument",
  tool: "write_file",
  conditions: { operator: "AND", rules: [{ field: "path", operator, value }] },
});

/** Typed rules on the path that is written to, and a limit that all agents share. */
const MANDATES: readonly object[] = [
  {
    name: "the vault is read-only",
    rules: [{ ...writesTo("contains", "/vault/"), decision: "block", description: "nobody writes to the vault" }],
  },
  {
    name: "settings need a human",
    rules: [{ ...writesTo("ends_with", ".conf"), decision: "escalate", description: "a person looks at settings" }],
  },
  {
    name: "listings are limited",
    rules: [
      {
        type: "sequence",
        decision: "block",
        conditions: {
          mode: "velocity",
          match_action_types: ["fs.list*"],
          max_count: LISTINGS_A_MINUTE,
          window_seconds: 60,
          scope: "workspace",
        },
      },
    ],
  },
];

/** Starts the service and the tools, registers the tools' schemas, and publishes the mandates. */
export async function setUp(cleanup: AsyncDisposableStack): Promise<DemoSetup> {
  const folder = await createFolder(cleanup);
  const starting = startServer();
  // Registered before it is ready, so that an interrupted demo stops it too.
  cleanup.defer(() => starting.then(async (each) => void (await each.stop())).catch(() => undefined));
  const server = await starting;
  console.log(`control plane  ${server.http} (gRPC ${server.grpc})`);
  const tools = await startFilesystemTools(folder);
  cleanup.defer(() => tools.close());
  const rest = createRestCall(server.http, server.adminKey);
  for (const { name, description, inputSchema } of await tools.list()) {
    await rest("POST", "/v1/enforce/tools", { name, description, input_schema: inputSchema });
  }
  const { tools: registered } = await rest("GET", "/v1/enforce/tools");
  console.log(`tools          ${(registered as { name: string }[]).map(({ name }) => name).join(", ")}`);
  for (const mandate of MANDATES) await rest("POST", "/v1/enforce/mandates", mandate);
  console.log(`mandates       ${MANDATES.map((mandate) => (mandate as { name: string }).name).join("; ")}\n`);
  // The agents have a key of their own, which cannot approve their actions.
  const { secret } = await rest("POST", "/v1/admin/keys", { name: "demo agents", role: "agent" });
  const controlPlane = createNodeControlPlane({ baseUrl: server.http, grpcUrl: server.grpc, apiKey: String(secret) });
  cleanup.defer(() => controlPlane.close());
  const writer = await registerAgent(rest, "writer");
  const reader = await registerAgent(rest, "reader");
  return { folder, tools, rest, controlPlane, writer, reader };
}

/** Creates the folder that agents work in: a note to read, an empty vault. */
async function createFolder(cleanup: AsyncDisposableStack): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "acp-demo-")));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, "vault"));
  await writeFile(join(folder, "note.txt"), "tea at five");
  return folder;
}

async function registerAgent(rest: RestCall, name: string): Promise<DemoAgent> {
  const { agent } = await rest("POST", "/v1/enforce/agents", { name, framework: "demo" });
  return { name, agentId: (agent as { agent_id: string }).agent_id };
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
