import { type ChildProcess, type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { Redis } from "ioredis";
import { freePort } from "./free-port.ts";
import "./scratch.ts";

/** A redis-server of one test, which can be taken away in all the ways in which one goes. */
export interface TestRedis {
  readonly url: string;
  /** A connection to it that waits for it. */
  readonly client: Redis;
  /** Ends it at once; what it had is gone. */
  kill(): Promise<void>;
  /** Starts it again, empty, on the same port. */
  start(): Promise<void>;
  /** Stops it in the middle of whatever it does; connections stay open and nobody answers. */
  pause(): void;
  resume(): void;
  /** Ends it for good. */
  close(): Promise<void>;
}

const HOST = "127.0.0.1";
/** Milliseconds for a server to be ready. */
const START_LIMIT_MS = 20_000;
const running = new Set<ChildProcess>();

/** Resolves once the server listens, not when any listens there: another run's may have got the port. */
async function ready(child: ChildProcessByStdio<null, Readable, null>): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(() => reject(new Error("redis-server was not ready in time")), START_LIMIT_MS);
  child.once("error", ({ message }) => {
    reject(new Error(`redis-server did not start: ${message}; it comes with the package redis-server`));
  });
  child.once("exit", (code, signal) => reject(new Error(`redis-server ended with ${code ?? signal}`)));
  createInterface(child.stdout).on("line", (line) => {
    if (line.includes("Ready to accept connections")) resolve();
  });
  await promise.finally(() => clearTimeout(timer));
}

async function launch(port: number, dir: string): Promise<ChildProcess> {
  const args = ["--port", `${port}`, "--bind", HOST, "--dir", dir, "--save", "", "--appendonly", "no"];
  const child = spawn("redis-server", args, { stdio: ["ignore", "pipe", "ignore"] });
  running.add(child);
  await ready(child);
  return child;
}

async function end(child: ChildProcess): Promise<void> {
  running.delete(child);
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

/** Starts a redis-server on a free port; it ends with this process at the latest. */
export async function startRedis(): Promise<TestRedis> {
  const dir = await mkdtemp(join(tmpdir(), "acp-redis-"));
  const port = await freePort();
  let child = await launch(port, dir);
  const url = `redis://${HOST}:${port}`;
  const client = new Redis(url, { retryStrategy: () => 50, maxRetriesPerRequest: null });
  client.on("error", () => undefined);
  return {
    url,
    client,
    kill: () => end(child),
    async start() {
      child = await launch(port, dir);
    },
    pause: () => void child.kill("SIGSTOP"),
    resume: () => void child.kill("SIGCONT"),
    async close() {
      client.disconnect();
      await end(child);
      await rm(dir, { recursive: true, force: true });
    },
  };
}

process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});
