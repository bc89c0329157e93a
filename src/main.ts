import cluster from "node:cluster";
import { pino } from "pino";
import { ConfigError, type LoadedConfig, missingKeys, readConfig } from "./config.ts";
import { AdminKeyMissing, type AdminKeyPlace, type FirstStart } from "./registry/first-start.ts";
import { surviveUncaught } from "./server/errors.ts";
import type { Addresses } from "./server/servers.ts";
import { createServiceLog } from "./server/service-log.ts";
import { TraceSettingsError, traceSettingsFrom } from "./tracing/settings.ts";
import { versionOf } from "./version.ts";
import { listenForStop, type Serving, serveAlone, serveAsWorker, serveWithWorkers } from "./workers.ts";

const LOOPBACK = /^(localhost|127(\.\d+){3}|::1)$/i;

function checkedConfig(env: NodeJS.ProcessEnv): LoadedConfig {
  const loaded = readConfig(env);
  // A worker gets the URL of the embedded PostgreSQL from its parent, which has checked the keys.
  const problems = cluster.isWorker ? [] : missingKeys(loaded.config);
  if (problems.length > 0) throw new ConfigError(problems);
  return loaded;
}

function readOrExit<T>(read: (env: NodeJS.ProcessEnv) => T): T {
  try {
    return read(process.env);
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof TraceSettingsError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return process.exit(2);
  }
}

function serve(serving: Serving): Promise<void> {
  if (cluster.isWorker) return serveAsWorker(serving);
  return serving.config.workers > 1 ? serveWithWorkers(serving) : serveAlone(serving);
}

/** Describes the admin key for a person, and as a shell word. A secret is shown only by the start that generated it. */
function describeKey(key: AdminKeyPlace): readonly [text: string, shellWord: string] {
  if (key.kind === "configured") return ["the one in ACP_ADMIN_KEY", "$ACP_ADMIN_KEY"];
  if (key.kind === "elsewhere") return ["shown by the start that generated it", "<admin key>"];
  const { path, secret } = key;
  const text = secret === undefined ? `in ${path}` : `${secret}  (kept in ${path}, not shown again)`;
  return [text, `$(cat '${path}')`];
}

/** Returns the text that `npm start` prints: addresses, the admin key, and one command that decides an action. */
function startNotice({ http, grpc }: Addresses, { adminKey, agentId }: FirstStart): string {
  const [keyText, keyWord] = describeKey(adminKey);
  const body = { agent_id: agentId ?? "<agent_id>", action_type: "payment.send", action_content: "pay 12 EUR to ACME" };
  return [
    "",
    `Agent Control Plane ${versionOf()}`,
    `  dashboard                ${config.publicUrl ?? http}/  (sign in with the admin key)`,
    `  REST, Connect, gRPC-Web  ${http}  (described at ${http}/openapi.json)`,
    `  gRPC                     ${grpc}`,
    `  admin key                ${keyText}`,
    "",
    "Decide an action:",
    `  curl -s ${http}/v1/enforce/intercept -H "X-API-Key: ${keyWord}" -H 'Content-Type: application/json' -d '${JSON.stringify(body)}'`,
    "",
    // Machine-readable: programs that start the service parse this line.
    JSON.stringify({ msg: "listening", http, grpc }),
    "",
  ].join("\n");
}

// Ctrl-C reaches workers too, but only their primary stops them.
if (cluster.isWorker) process.on("SIGINT", () => undefined);
const stop = listenForStop(cluster.isWorker ? ["SIGTERM"] : ["SIGINT", "SIGTERM"]);
const { config, warnings, foreignNames } = readOrExit(checkedConfig);
const traces = readOrExit(traceSettingsFrom);
// Standard output belongs to the person who starts the service, so the log goes to standard error.
const log = createServiceLog(config.logLevel, pino.destination({ fd: 2, sync: false }));
surviveUncaught(log);

if (!cluster.isWorker) {
  for (const warning of warnings) log.warn(warning);
  if (foreignNames.length > 0)
    log.info({ names: foreignNames }, "names of other programs begin with ACP_ and are ignored");
}
if (!cluster.isWorker && config.tlsCert === null && !LOOPBACK.test(config.host)) {
  log.warn(
    { host: config.host },
    "ACP_HOST is not loopback and the ports speak no TLS (ACP_TLS_CERT): keys cross the network in clear text",
  );
}

try {
  await serve({
    config,
    log,
    stop,
    traces,
    announce: (addresses, first) => void process.stdout.write(startNotice(addresses, first)),
  });
} catch (error) {
  if (error instanceof AdminKeyMissing) {
    process.stderr.write(`${error.message}\n`);
    process.exit(2);
  }
  log.fatal({ err: error }, "the control plane cannot run");
  // Anything that was opened before the fault would keep the process alive.
  log.flush(() => process.exit(1));
}
