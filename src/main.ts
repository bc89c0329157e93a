import { pino } from "pino";
import { startNotice } from "./cli/index.ts";
import { type Config, ConfigError, loadConfig } from "./config.ts";
import { createControlPlane } from "./control-plane.ts";
import { prepareFirstStart } from "./registry/index.ts";
import { startEmbeddedPostgres } from "./store/index.ts";

const STOP_SIGNALS = ["SIGINT", "SIGTERM"] as const;

function configOrExit(): Config {
  try {
    return loadConfig(process.env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return process.exit(2);
  }
}

const stopSignal = new Promise<string>((resolve) => {
  for (const signal of STOP_SIGNALS) process.once(signal, () => resolve(signal));
});

const config = configOrExit();
// The log goes to standard error: standard output is for the person who started the service.
const log = pino({ level: config.logLevel }, pino.destination({ fd: 2, sync: false }));

function fail(error: unknown): void {
  log.fatal({ err: error }, "the control plane cannot run");
  process.exitCode = 1;
}

// Whatever fails: what was started before is stopped, or it would keep the process alive.
const started = new AsyncDisposableStack();

try {
  const { dataDir } = config;
  const embedded = config.databaseUrl === null ? await startEmbeddedPostgres({ dataDir, log }) : undefined;
  started.defer(() => embedded?.stop());
  const databaseUrl = config.databaseUrl?.reveal() ?? embedded?.url ?? "";
  const controlPlane = await createControlPlane({ config, databaseUrl, log });
  started.defer(() => controlPlane.close());
  const first = await prepareFirstStart({ ...controlPlane, adminKey: config.adminKey?.reveal(), dataDir });
  process.stdout.write(startNotice(await controlPlane.listen(), first));
  log.info({ signal: await stopSignal }, "stopping");
} catch (error) {
  fail(error);
} finally {
  await started.disposeAsync().catch(fail);
}
