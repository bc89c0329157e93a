import { startServer, type TestServer } from "../support/server.ts";
import { startChild } from "./child.ts";
import type { LoadPlan, Target } from "./load.ts";
import type { BenchPostgres } from "./postgres.ts";
import type { Seed, Seeded } from "./seed-process.ts";

/** A workspace in a database of its own, and no service on it yet. */
export interface BenchWorkspace extends Seeded {
  readonly databaseUrl: string;
}

/** The service on such a workspace. */
export interface BenchService {
  readonly workspace: BenchWorkspace;
  readonly server: TestServer;
  readonly grpc: Target;
  readonly rest: Target;
}

/** Creates a database and fills it. The process that fills it is killed when it is done. */
export async function seedWorkspace(
  postgres: BenchPostgres,
  name: string,
  size: Omit<Seed, "databaseUrl">,
): Promise<BenchWorkspace> {
  return addWorkspace(await postgres.createDatabase(name), size);
}

/** Adds a workspace to a database and fills it. */
export async function addWorkspace(databaseUrl: string, size: Omit<Seed, "databaseUrl">): Promise<BenchWorkspace> {
  const child = startChild("seed-process.ts");
  try {
    return { databaseUrl, ...(await child.ask<Seeded>({ databaseUrl, ...size })) };
  } finally {
    await child.kill();
  }
}

/** Starts the service on a workspace. It is stopped by `cleanup`, if it is still there. */
export async function startService(
  workspace: BenchWorkspace,
  cleanup: AsyncDisposableStack,
  env: Readonly<Record<string, string>> = {},
): Promise<BenchService> {
  const server = await startServer({ databaseUrl: workspace.databaseUrl, env });
  cleanup.defer(async () => void (await server.stop()));
  const { apiKey, agentIds } = workspace;
  const target = (address: string): Target => ({ address, apiKey, agentIds });
  return { workspace, server, grpc: target(server.grpc), rest: target(new URL(server.http).host) };
}

/** A load on a service whose use of the processor is measured. */
export function planFor(
  source: LoadPlan["source"],
  seconds: number,
  { server }: BenchService,
  postgres: BenchPostgres,
): LoadPlan {
  const watched = { service: server.pid, database: postgres.pid };
  const measureMs = Math.round(seconds * 1_000);
  return { source, warmUpMs: Math.max(1_000, Math.round(measureMs / 3)), measureMs, watched };
}
