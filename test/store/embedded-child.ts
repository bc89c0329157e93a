import { once } from "node:events";
import { pathToFileURL } from "node:url";
import { pino } from "pino";

// The clone whose sources run is an argument, so that a copy elsewhere can be tried as well.
const [sources = "", options = "{}"] = process.argv.slice(2);
const { startEmbeddedPostgres } = await import(pathToFileURL(`${sources}/store/embedded-postgres.ts`).href);
const server = await startEmbeddedPostgres({ ...JSON.parse(options), log: pino({ level: "silent" }) }).catch(
  (error: Error) => {
    process.stderr.write(`${error.message}\n`);
    return process.exit(1);
  },
);
process.stdout.write(`${server.ownerUrl}\n`);
process.stdin.once("data", () => process.exit());
await once(process.stdin.resume(), "end");
await server.stop();
