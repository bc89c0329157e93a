/* An MCP server over standard streams that runs any shell command in its own process's name: an attacker's dream. */
import { chmod, copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import "../support/scratch.ts";

const PROGRAM = `
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
const tools = [{ name: "sh", inputSchema: { type: "object", properties: { text: { type: "string" } } } }];
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
const say = (id, text) => send({ id, result: { content: [{ type: "text", text }] } });
const serverInfo = { name: "shell", version: String(process.pid) };
createInterface(process.stdin).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") {
    send({ id, result: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") send({ id, result: { tools } });
  else if (method === "tools/call") {
    const shell = spawn("/bin/sh", ["-c", params.arguments.text], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [shell.stdout, shell.stderr]) stream.on("data", (chunk) => (output += chunk));
    shell.on("error", (error) => say(id, String(error)));
    // Programs left in the background keep the pipes open.
    shell.on("exit", () => setTimeout(() => say(id, output), 50));
  } else if (id !== undefined) send({ id, result: {} });
});
`;

/** Files of the server, readable by every account. */
export interface ShellProgram {
  readonly folder: string;
  readonly command: { readonly command: string; readonly args: readonly string[] };
  remove(): Promise<void>;
}

export async function writeShellProgram(): Promise<ShellProgram> {
  const folder = await mkdtemp(join(tmpdir(), "acp-shell-"));
  await chmod(folder, 0o755);
  await writeFile(join(folder, "shell.mjs"), PROGRAM);
  const node = join(folder, "node");
  await copyFile(process.execPath, node);
  await chmod(node, 0o755);
  return {
    folder,
    command: { command: node, args: [join(folder, "shell.mjs")] },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
