import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";

/** The user of a child: numbers of an account without rights. */
export const NOBODY = { uid: 65_534, gid: 65_534 };

/** A process that holds an embedded PostgreSQL. */
export interface EmbeddedChild {
  /** Logs in as the owner. */
  readonly ownerUrl: string;
  /** Asks it to stop and waits until it has ended; gives its exit code. */
  stop(): Promise<number | null>;
  /** Has it exit at once, with the server running; gives its exit code. */
  exit(): Promise<number | null>;
  /** Ends it without a chance to clean up. */
  kill(): Promise<void>;
}

function start(script: string, args: readonly string[], user?: typeof NOBODY): ChildProcessWithoutNullStreams {
  const child = spawn(process.execPath, [join(import.meta.dirname, script), ...args], { ...user, cwd: "/" });
  child.stderr.pipe(process.stderr);
  return child;
}

/** Starts an embedded PostgreSQL in a process of its own, from the sources of a clone. */
export async function startEmbeddedChild(
  options: object,
  { user, sources = join(import.meta.dirname, "../../src") }: { user?: typeof NOBODY; sources?: string } = {},
): Promise<EmbeddedChild> {
  const child = start("embedded-child.ts", [sources, JSON.stringify(options)], user);
  const ended = once(child, "exit");
  const first = await Promise.race([once(createInterface(child.stdout), "line"), ended.then(() => undefined)]);
  if (!first) throw new Error("the child ended before its server was ready");
  return {
    ownerUrl: first[0],
    stop: async () => {
      child.stdin.end();
      return (await ended)[0];
    },
    exit: async () => {
      child.stdin.write("exit");
      return (await ended)[0];
    },
    kill: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** Migrates a database in a process of its own; gives the names that it applied. */
export async function migrateInChild(ownerUrl: string, login: string): Promise<string[]> {
  const child = start("migrate-child.ts", [ownerUrl, login]);
  return JSON.parse(await text(child.stdout));
}
