import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";

/** Runs `use` with a new folder that only this account may read, and that is gone afterwards or when the process ends. */
export async function withFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "acp-load-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once("exit", remove);
  try {
    return await use(folder);
  } finally {
    process.off("exit", remove);
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * Runs a program until it ends; gives what it wrote to its standard output. Rejects when it cannot be started or fails,
 * and after `limitMs` milliseconds. It is killed when this process ends.
 */
export async function runTool(command: string, args: readonly string[], limitMs: number): Promise<string> {
  const child = spawn(command, args, {
    stdio: ["ignore", "pipe", "pipe"],
    timeout: limitMs,
    killSignal: "SIGKILL",
  });
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  try {
    const [output, errors, [code, signal]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>,
    ]);
    if (code === 0) return output;
    throw new Error(`${command} ended with ${code ?? signal}: ${errors || output}`);
  } finally {
    process.off("exit", kill);
  }
}
