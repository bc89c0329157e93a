import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { ControlPlane } from "../../src/client/index.ts";
import { createNodeControlPlane } from "../../src/client/node/index.ts";
import type { WorkspaceLog } from "../../src/log/writer.ts";
import { openLogOf } from "../support/open-log.ts";
import { startServer, type TestServer } from "../support/server.ts";

/** Processes of the service on one database. */
export interface Fleet {
  readonly servers: readonly TestServer[];
  /** For each process the library over gRPC, then for each over HTTP. */
  readonly controlPlanes: readonly ControlPlane[];
  /** The log of the workspace as this process has it. */
  readonly log: WorkspaceLog;
}

/** How wrong the wall clock of each process is: five minutes fast, right, five minutes slow. */
export const SKEWS_MS = [300_000, 0, -300_000];

const PRELOAD = pathToFileURL(join(import.meta.dirname, "..", "support", "skewed-clock.ts")).href;
const ADMIN_KEY = "the-admin-key-of-the-fleet";

/** The environment that makes the wall clock of a process wrong. */
export function skewEnvironment(skewMs: number): Record<string, string> {
  return skewMs === 0 ? {} : { NODE_OPTIONS: `--import ${PRELOAD}`, TEST_CLOCK_SKEW_MS: String(skewMs) };
}

/** Starts a process for each skew on a database. Everything is gone after `cleanup`. */
export async function startFleet(
  databaseUrl: string,
  skewsMs: readonly number[],
  cleanup: AsyncDisposableStack,
): Promise<Fleet> {
  const servers: TestServer[] = [];
  for (const skewMs of skewsMs) {
    const env = { ACP_ADMIN_KEY: ADMIN_KEY, ACP_LOG_LEVEL: "warn", ...skewEnvironment(skewMs) };
    const server = await startServer({ databaseUrl, env });
    cleanup.defer(async () => void (await server.stop()));
    servers.push(server);
  }
  const connect = (baseUrl: string, grpcUrl: string | undefined): ControlPlane => {
    const controlPlane = createNodeControlPlane({ baseUrl, grpcUrl, apiKey: ADMIN_KEY });
    cleanup.defer(() => controlPlane.close());
    return controlPlane;
  };
  const overGrpc = servers.map(({ http, grpc }) => connect(http, grpc));
  const overHttp = servers.map(({ http }) => connect(http, undefined));
  const controlPlanes = [...overGrpc, ...overHttp];
  return { servers, controlPlanes, log: await openLogOf(databaseUrl, cleanup) };
}
