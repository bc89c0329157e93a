// Uses a database and a process as a run of the tests does, tells where they are, and stays until its input ends.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createTestDatabase, withClient } from "./database.ts";

const { ownerUrl } = await createTestDatabase();
const data = await withClient(
  ownerUrl,
  async (client) => (await client.query("show data_directory")).rows[0].data_directory,
);
const postgres = Number.parseInt(readFileSync(join(data, "postmaster.pid"), "utf8"), 10);
const forgotten = spawn(process.execPath, ["-e", "setInterval(() => undefined, 1_000)"], {
  detached: true,
  stdio: "ignore",
});
process.stdout.write(`${JSON.stringify({ directories: [tmpdir(), data], pids: [postgres, forgotten.pid] })}\n`);
process.stdin.on("end", () => process.exit()).resume();
