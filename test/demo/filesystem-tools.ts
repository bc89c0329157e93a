import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

/** A tool as the server lists it. */
export interface ListedTool {
  readonly name: string;
  readonly description?: string | undefined;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

/** The MCP filesystem server as a process of its own, allowed into one folder. */
export interface FilesystemTools {
  list(): Promise<readonly ListedTool[]>;
  /** Calls a tool; gives its text. Rejects when the tool reports an error. */
  call(name: string, args: Record<string, unknown>): Promise<string>;
  close(): Promise<void>;
}

const SERVER = join(import.meta.dirname, "../../node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");

/** Starts the server over stdio. */
export async function startFilesystemTools(folder: string): Promise<FilesystemTools> {
  const client = new Client({ name: "agent-control-plane-demo", version: "1.0.0" });
  await client.connect(
    new StdioClientTransport({ command: process.execPath, args: [SERVER, folder], stderr: "ignore" }),
  );
  return {
    list: async () => (await client.listTools()).tools,
    async call(name, args) {
      const { content, isError } = await client.callTool({ name, arguments: args });
      const text = (content as { text?: string }[]).map((part) => part.text ?? "").join("\n");
      if (isError) throw new Error(`${name}: ${text}`);
      return text;
    },
    close: () => client.close(),
  };
}
