/* A small MCP server on the official package: its tools can be changed while it runs, and it counts its calls. */
import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import { serveWeb, type WebServer } from "./web-server.ts";

/** A tool as the server lists it. */
export type ListedTool = Readonly<Record<string, unknown>> & { readonly name: string };

/** The server. Both generations; without sessions of its own. */
export interface ToolsServer extends WebServer {
  /** What `tools/list` answers. */
  tools: ListedTool[];
  /** Further members of the answer. */
  listed: object;
  /** Number of times that its tools were listed. */
  lists: number;
  /** The calls that arrived, in their order. */
  readonly calls: { readonly name: string; readonly arguments: unknown }[];
  /** Headers of the requests that arrived. */
  readonly headers: Headers[];
  /** What a call answers. */
  answer: (name: string, args: unknown, signal: AbortSignal) => Promise<object> | object;
}

/** Makes a tool that takes any arguments. */
export const tool = (name: string, more: object = {}): ListedTool => ({
  name,
  description: `does ${name}`,
  inputSchema: { type: "object" },
  ...more,
});

export async function startToolsServer(
  tools: readonly ListedTool[] = [tool("pay"), tool("read")],
): Promise<ToolsServer> {
  const create = (): Server => {
    const server = new Server({ name: "tools", version: "1" }, { capabilities: { tools: {} } });
    server.setRequestHandler("tools/list", () => {
      served.lists += 1;
      return { tools: served.tools as never, ...served.listed };
    });
    server.setRequestHandler("tools/call", async ({ params }, { mcpReq }) => {
      served.calls.push({ name: params.name, arguments: params.arguments });
      return (await served.answer(params.name, params.arguments, mcpReq.signal)) as never;
    });
    return server;
  };
  const handler = createMcpHandler(create);
  const web = await serveWeb((request) => {
    served.headers.push(request.headers);
    return handler.fetch(request);
  });
  const served: ToolsServer = {
    ...web,
    tools: [...tools],
    listed: {},
    lists: 0,
    calls: [],
    headers: [],
    answer: (name, args) => ({ content: [{ type: "text", text: `${name} ${JSON.stringify(args ?? {})}` }] }),
    async close() {
      await handler.close();
      await web.close();
    },
  };
  return served;
}
