/* Runs a hook as a coding agent does, against services that are not what they should be. */
import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { chmod } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer, text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { commandLineFrom, type HookCommand } from "../../../src/cli/hook/command-line.ts";
import type { Folder } from "../harness.ts";

/** Result of a hook's command line. */
export interface HookRun {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Error of writing the event, which a client takes for a reason to run the tool. */
  readonly writeError: string | undefined;
}

/**
 * Reason with which a run blocks the call in its client's form: a denial on standard output, or exit code 2 with a text. Undefined if
 * the client would run the tool.
 */
export function blockReason({ code, stdout, stderr, writeError }: HookRun): string | undefined {
  if (writeError !== undefined) return undefined;
  if (code === 2 && stdout === "") return stderr.trim() === "" ? undefined : stderr;
  if (code !== 0 || !stdout.startsWith("{")) return undefined;
  const output = JSON.parse(stdout).hookSpecificOutput;
  return output?.permissionDecision === "deny" ? output.permissionDecisionReason : undefined;
}

/** The hook of the sources. */
export const HOOK = fileURLToPath(new URL("../../../src/cli/hook/hook.cjs", import.meta.url));
/** Key of the tests' agent. */
export const KEY = "acp_the-agents-own-key";
/** A call before it runs. */
export const EVENT = { hook_event_name: "PreToolUse", tool_name: "Bash", tool_input: { command: "ls" } };

/** Runs a command line in a shell, with the event on standard input; `undefined` leaves the input open. */
export async function runCommandLine(
  commandLine: string,
  event: object | string | undefined,
  env: Readonly<Record<string, string>> = {},
): Promise<HookRun> {
  const child = spawn("sh", ["-c", commandLine], { env: { ...process.env, ...env } });
  let writeError: string | undefined;
  child.stdin.on("error", (error: NodeJS.ErrnoException) => {
    writeError = error.code;
  });
  if (event !== undefined) child.stdin.end(typeof event === "string" ? event : JSON.stringify(event));
  const [[code], stdout, stderr] = await Promise.all([once(child, "exit"), text(child.stdout), text(child.stderr)]);
  return { code: code as number | null, stdout, stderr, writeError };
}

/** Writes a connection file, for its owner alone. */
export async function connectionFile(
  folder: Folder,
  url: string,
  more: object = {},
  name = "connection.json",
): Promise<string> {
  const path = await folder.file(name, JSON.stringify({ url, key: KEY, ...more }));
  await chmod(path, 0o600);
  return path;
}

/** Builds the command line of the hook of the sources. */
export function hookLine(url: string, connection: string, more: Partial<HookCommand> = {}): string {
  const client = more.client ?? "claude-code";
  return commandLineFrom({
    node: process.execPath,
    hook: HOOK,
    client,
    endpoint: `${url}/v1/hooks/${client}`,
    holdSeconds: 0,
    connection,
    ...more,
  });
}

/** One call that a stranger's service gets from a hook. */
export interface StrangeCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly nonce: string;
  readonly event: Buffer;
}

/** Service that answers a hook as a test wants it. */
export interface StrangeService {
  readonly url: string;
  readonly calls: readonly StrangeCall[];
  close(): Promise<void>;
}

/** Starts a service of a test. */
export async function serve(answer: (call: StrangeCall) => void): Promise<StrangeService> {
  const calls: StrangeCall[] = [];
  const server = createServer(async (request, response) => {
    const event = await buffer(request);
    const call = { request, response, nonce: String(request.headers["x-hook-nonce"]), event };
    calls.push(call);
    answer(call);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Signature of a body, as the control plane makes it. */
export const signatureOf = (nonce: string, body: string | Buffer, key = KEY): string =>
  createHmac("sha256", key).update(nonce).update(body).digest("hex");

/** Sends a body with its signature. */
export function sendSigned({ response, nonce }: StrangeCall, body: string | Buffer, key = KEY): void {
  response.setHeader("x-hook-signature", signatureOf(nonce, body, key));
  response.end(body);
}

/** Body with an answer of the hook's protocol. */
export const bodyOf = (output: object): string =>
  JSON.stringify({ output: { hookSpecificOutput: { hookEventName: "PreToolUse", ...output } } });
