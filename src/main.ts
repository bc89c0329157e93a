import cluster from "node:cluster";
import { pino } from "pino";
import { startNotice } from "./cli/index.ts";
import { type Config, ConfigError, loadConfig } from "./config.ts";
import { listenForStop, type Serving, serveAlone, serveAsWorker, serveWithWorkers } from "./workers.ts";

function configOrExit(): Config {
  try {
    return loadConfig(process.env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return process.exit(2);
  }
}

function serve(serving: Serving): Promise<void> {
  if (cluster.isWorker) return serveAsWorker(serving);
  return serving.config.workers > 1 ? serveWithWorkers(serving) : serveAlone(serving);
}

// Ctrl-C reaches the workers as well, which are told by their primary.
if (cluster.isWorker) process.on("SIGINT", () => undefined);
const stop = listenForStop(cluster.isWorker ? ["SIGTERM"] : ["SIGINT", "SIGTERM"]);
const config = configOrExit();
// The log goes to standard error: standard output is for the person who started the service.
const log = pino({ level: config.logLevel }, pino.destination({ fd: 2, sync: false }));

try {
  await serve({
    config,
    log,
    stop,
    announce: (addresses, first) => void process.stdout.write(startNotice(addresses, first)),
  });
} catch (error) {
  log.fatal({ err: error }, "the control plane cannot run");
  process.exitCode = 1;
}
