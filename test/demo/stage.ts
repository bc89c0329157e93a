import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createNodeControlPlane } from "../../src/client/node/index.ts";
import { startServer } from "../support/server.ts";
import type { Cast } from "./acts.ts";
import { startFilesystemTools } from "./filesystem-tools.ts";
import { MANDATES } from "./mandates.ts";
import { createRestCall, type RestCall } from "./rest.ts";

/** The folder that agents work in: a note to read, an empty vault. */
async function createFolder(cleanup: AsyncDisposableStack): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "acp-demo-")));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, "vault"));
  await writeFile(join(folder, "note.txt"), "tea at five");
  return folder;
}

async function registerAgent(rest: RestCall, name: string): Promise<{ name: string; agentId: string }> {
  const { agent } = await rest("POST", "/v1/enforce/agents", { name, framework: "demo" });
  return { name, agentId: (agent as { agent_id: string }).agent_id };
}

/** Starts the service and the tools, registers the tools' schemas, and publishes the mandates. */
export async function setStage(cleanup: AsyncDisposableStack): Promise<Cast> {
  const folder = await createFolder(cleanup);
  const starting = startServer();
  // Noted before it is ready, so that a demo that is interrupted early takes it down too.
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
  // The agents hold a key of their own, which cannot approve what they do.
  const { secret } = await rest("POST", "/v1/admin/keys", { name: "demo agents", role: "agent" });
  const controlPlane = createNodeControlPlane({ baseUrl: server.http, grpcUrl: server.grpc, apiKey: String(secret) });
  cleanup.defer(() => controlPlane.close());
  const writer = await registerAgent(rest, "writer");
  const reader = await registerAgent(rest, "reader");
  return { folder, tools, rest, controlPlane, writer, reader };
}
