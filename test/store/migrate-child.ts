import { pino } from "pino";
import { runMigrations } from "../../src/store/migrate.ts";
import { TINY_MIGRATIONS } from "./tiny-migrations.ts";

const [ownerUrl = "", login] = process.argv.slice(2);
const log = pino({ level: "silent" });
process.stdout.write(JSON.stringify(await runMigrations(ownerUrl, { migrations: TINY_MIGRATIONS, login, log })));
