// Uses a database and a process as a run of the tests does, tells where they are, and stays until its input ends.
import { spawn } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { createTestDatabase, withClient } from "./database.ts";

const { ownerUrl } = await createTestDatabase();
const postgres = await withClient(ownerUrl, async (client) => {
  const { pid } = (await client.query("select pg_backend_pid() as pid")).rows[0];
  return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
});
const data = readlinkSync(`/proc/${postgres}/cwd`);
const forgotten = spawn(process.execPath, ["-e", "setInterval(() => undefined, 1_000)"], {
  detached: true,
  stdio: "ignore",
});
process.stdout.write(`${JSON.stringify({ directories: [tmpdir(), data], pids: [postgres, forgotten.pid] })}\n`);
process.stdin.on("end", () => process.exit()).resume();
