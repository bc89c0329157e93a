import { pino } from "pino";
import { openDatabase } from "../../src/store/database.ts";
import { lockHead } from "../../src/store/sql/read-entries.ts";
import { directUrlOf } from "../support/pooler.ts";

const [url = ""] = process.argv.slice(2);
const { pool } = await openDatabase({ url, directUrl: directUrlOf(url), poolSize: 1, log: pino({ level: "silent" }) });
const connection = await pool.connect();
connection.on("error", () => undefined);
await connection.query("begin");
await connection.query({ ...lockHead, values: ["default"] });
process.stdout.write("locked\n");
// Stays, so that its connection does.
setInterval(() => undefined, 60_000);
