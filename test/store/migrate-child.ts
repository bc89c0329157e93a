import { pino } from "pino";
import { runMigrations } from "../../src/store/migrate.ts";
import { TINY_MIGRATIONS } from "./tiny-migrations.ts";

const [url = ""] = process.argv.slice(2);
const report = await runMigrations(url, { migrations: TINY_MIGRATIONS, log: pino({ level: "silent" }) });
process.stdout.write(JSON.stringify(report));
