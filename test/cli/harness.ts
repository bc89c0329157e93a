import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CommandIo } from "../../src/cli/command.ts";
import { runAgentctl } from "../../src/cli/run.ts";

/** What a run of `agentctl` came to. */
export interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** Standard output as JSON. */
  json(): Record<string, unknown>;
}

/** Runs `agentctl` in this process. `answer` is what a person at the terminal says; without it there is none to ask. `secret` is what they type unseen. `isTerminal`: a person reads standard error. */
export async function agentctl(
  argv: readonly string[],
  env: Readonly<Record<string, string>> = {},
  answer?: boolean | (() => Promise<boolean>),
  isTerminal = false,
  secret?: () => Promise<string>,
  more: Pick<CommandIo, "columns" | "read"> = {},
): Promise<Run> {
  let stdout = "";
  let stderr = "";
  const code = await runAgentctl(argv, {
    env,
    ...more,
    isTerminal,
    async write(text) {
      stdout += text;
    },
    note(text) {
      stderr += text;
    },
    async confirm(question) {
      stderr += question;
      return typeof answer === "function" ? answer() : answer;
    },
    async secret(question) {
      stderr += question;
      return secret?.();
    },
  });
  return { code, stdout, stderr, json: () => JSON.parse(stdout) as Record<string, unknown> };
}

/** A folder for a test's files. */
export interface Folder {
  /** Writes a file; gives its path. */
  file(name: string, text: string): Promise<string>;
  /** The path of a file that need not be there. */
  path(name: string): string;
  remove(): Promise<void>;
}

/** Makes a folder for files. */
export async function createFolder(): Promise<Folder> {
  const folder = await mkdtemp(join(tmpdir(), "acp-cli-"));
  const path = (name: string): string => join(folder, name);
  return {
    path,
    async file(name, text) {
      await writeFile(path(name), text);
      return path(name);
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
