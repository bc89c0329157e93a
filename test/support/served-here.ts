/* The service in the process of the test: of `src/main.ts` all but reading signals. It starts in a tenth of the time of a process. */
import { randomBytes } from "node:crypto";
import { chmod, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "../../src/config.ts";
import { type ControlPlaneOptions, createControlPlane } from "../../src/control-plane.ts";
import { prepareFirstStart } from "../../src/registry/first-start.ts";
import { createServiceLog } from "../../src/server/service-log.ts";
import { traceSettingsFrom } from "../../src/tracing/settings.ts";
import { removeAll } from "./database.ts";
import { poolerSettingsOf } from "./pooler.ts";
import { environmentOf, KEPT_OUTPUT } from "./server.ts";

/** A service that listens. */
export interface ServedHere {
  /** `http://127.0.0.1:port`. */
  readonly http: string;
  /** `127.0.0.1:port`. */
  readonly grpc: string;
  readonly adminKey: string;
  readonly dataDir: string;
  /** The folder of homes of MCP servers that are commands. */
  readonly homes: string;
  /** What it logged so far, the last 64 KiB. */
  output(): string;
  /** Lets calls in flight finish, and removes its folders. Stopping again does nothing. */
  stop(): Promise<unknown>;
}

/** How the service is started. */
export interface ServedHereOptions extends Pick<ControlPlaneOptions, "largeRequests" | "shares" | "metricsPage"> {
  /** The database to use. */
  readonly databaseUrl: string;
  /** Environment on top of free ports and a new key. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts the service on a database. */
export async function serveHere({ databaseUrl, env = {}, ...parts }: ServedHereOptions): Promise<ServedHere> {
  await using started = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "acp-here-"));
  const homes = await mkdtemp(join(tmpdir(), "acp-homes-"));
  started.defer(() => removeAll(folder, homes));
  // Commands pass it on the way to their homes.
  await chmod(homes, 0o711);
  const adminKey = env.ACP_ADMIN_KEY ?? randomBytes(24).toString("hex");
  const ports = { ACP_HTTP_PORT: "0", ACP_GRPC_PORT: "0" };
  const base = { ACP_DATA_DIR: folder, ACP_ADMIN_KEY: adminKey, ACP_MCP_HOMES: homes };
  // A database that is named would make it wait for balancers.
  const pooler = { ...poolerSettingsOf(databaseUrl), ACP_LAME_DUCK_MS: "0" };
  const config = loadConfig(environmentOf({ ...ports, ...base, ...pooler, ...env }));
  const { dataDir } = config;
  let output = "";
  const write = (line: string): void => {
    output = (output + line).slice(-KEPT_OUTPUT);
  };
  const log = createServiceLog(config.logLevel, { write });
  const traces = traceSettingsFrom(env);
  const controlPlane = await createControlPlane({ config, databaseUrl, log, traces, ...parts });
  started.defer(() => controlPlane.close());
  await prepareFirstStart({ ...controlPlane, adminKey, dataDir, log });
  const { http, grpc } = await controlPlane.listen();
  const running = started.move();
  return { http, grpc, adminKey, dataDir, homes, output: () => output, stop: () => running.disposeAsync() };
}
