/*
 * Gives each run of the tests a temporary directory of its own, which its processes and the programs that they start use, and
 * which goes with the run. What an earlier run of this checkout left because it was killed goes too, its processes included.
 * Mocha requires this file; programs beside mocha import it.
 */
import { hash } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

/** Begins the names of this checkout's directories, so that several checkouts run their tests at the same time. */
const PREFIX = `acp-test-${process.geteuid?.()}-${hash("sha256", import.meta.dirname).slice(0, 12)}-`;
/** File system in memory that Linux offers. */
export const MEMORY = "/dev/shm";
/** Milliseconds for processes to end once they were told to. */
const END_LIMIT_MS = 10_000;
const POLL_MS = 10;

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
  // One that ended stays listed until its parent asks, which a parent that is exiting itself does not.
  return !textsOf(`/proc/${pid}/status`).some((text) => /^State:\s+Z/m.test(text));
}

function textsOf(path: string): string[] {
  try {
    return readFileSync(path, "latin1").split("\0");
  } catch {
    return [];
  }
}

/** Returns the directory that a process works in. */
function placeOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return "";
  }
}

function entriesOf(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

/** Ends what uses a directory: PostgreSQL at once but orderly, since it leaves shared memory otherwise. */
function signalUsers(directory: string): boolean {
  let isUsed = false;
  for (const pid of entriesOf("/proc").map(Number)) {
    if (Number.isNaN(pid) || pid === process.pid) continue;
    const [program = "", ...args] = textsOf(`/proc/${pid}/cmdline`);
    // A database's server may know its directory as the one that it works in alone.
    const isDatabase = program.endsWith("/postgres") && args.includes("-D") && placeOf(pid).startsWith(`${directory}/`);
    if (!isDatabase && !textsOf(`/proc/${pid}/environ`).includes(`TMPDIR=${directory}`)) continue;
    isUsed = true;
    try {
      process.kill(pid, isDatabase ? "SIGQUIT" : "SIGKILL");
    } catch {
      // It ended by itself.
    }
  }
  return isUsed;
}

function remove(directory: string): void {
  const deadline = performance.now() + END_LIMIT_MS;
  // A process that is exiting cannot await anything.
  const pause = new Int32Array(new SharedArrayBuffer(4));
  while (signalUsers(directory) && performance.now() < deadline) Atomics.wait(pause, 0, 0, POLL_MS);
  rmSync(directory, { recursive: true, force: true, maxRetries: 10 });
}

/** Removes the directories of this checkout's runs that have ended. */
function removeLeft(parent: string): void {
  for (const name of entriesOf(parent)) {
    if (name.startsWith(PREFIX) && !isAlive(Number(name.slice(PREFIX.length)))) remove(join(parent, name));
  }
}

/** Creates the directory of this process in `parent`. It is removed when the process ends. */
export function createScratch(parent: string): string {
  const directory = join(parent, `${PREFIX}${process.pid}`);
  mkdirSync(directory, { recursive: true });
  // Open to the account that PostgreSQL runs under when this is root.
  chmodSync(directory, 0o755);
  process.once("exit", () => remove(directory));
  return directory;
}

const usual = tmpdir();
// Processes that a run starts use its directory.
if (!basename(usual).startsWith(PREFIX)) {
  const parents = [usual, MEMORY];
  for (const parent of parents) removeLeft(parent);
  process.env.TMPDIR = createScratch(usual);
  process.once("exit", () => {
    for (const parent of parents) removeLeft(parent);
  });
}
