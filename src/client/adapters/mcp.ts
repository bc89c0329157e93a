import { argumentsFrom, type GuardedTool, ToolGuard, type ToolGuardOptions } from "./tool-guard.ts";

export type { ToolGuardOptions } from "./tool-guard.ts";

/** A tool in an MCP server's list. */
interface ListedTool {
  readonly name: string;
  readonly description?: string | undefined;
  readonly inputSchema: unknown;
}

/** The guarded part of an MCP client, of `@modelcontextprotocol/client` and of `/sdk`. */
interface McpClient {
  callTool(params: { name: string; arguments?: Record<string, unknown> }, ...rest: never[]): Promise<unknown>;
  listTools(
    ...rest: never[]
  ): Promise<{ readonly tools: readonly ListedTool[]; readonly nextCursor?: string | undefined }>;
}

/** Options of a guarded MCP client. */
export interface McpGuardOptions extends ToolGuardOptions {
  /** Name of the server. With `files`, its tool `read` becomes the tool and action type `files.read`, as at the MCP gateway. */
  readonly server: string;
}

/**
 * Guards the tool calls of an MCP client. A refused call has a result with `isError`, like a tool's own error. The rest of the
 * client is unchanged. If the server can be reached through the MCP gateway instead, no code is needed.
 */
export function guardClient<Client extends McpClient>(client: Client, { server, ...options }: McpGuardOptions): Client {
  const metadata = { ...options.metadata, mcp_server: server };
  const guard = new ToolGuard({ ...options, metadata });
  const listed = new Map<string, GuardedTool>();
  const list: Client["listTools"] = async (...given) => {
    const page = await client.listTools(...given);
    for (const { name, description, inputSchema } of page.tools) {
      listed.set(name, { name: `${server}.${name}`, description, inputSchema: () => inputSchema });
    }
    return page;
  };
  /** Returns a tool. If its schema is to be registered and is not known yet, lists the tools first. */
  const toolOf = async (name: string): Promise<GuardedTool> => {
    for (let cursor: string | undefined; options.registerWith !== undefined && !listed.has(name); ) {
      ({ nextCursor: cursor } = await list(...((cursor === undefined ? [] : [{ cursor }]) as never[])));
      if (cursor === undefined) break;
    }
    return listed.get(name) ?? { name: `${server}.${name}`, inputSchema: () => undefined };
  };
  const call: Client["callTool"] = async (params, ...rest) => {
    const args = params.arguments ?? {};
    return guard.call(
      await toolOf(params.name),
      argumentsFrom(args),
      (allowed) => client.callTool({ ...params, arguments: { ...allowed } }, ...rest),
      (forModel) => ({ content: [{ type: "text", text: forModel }], isError: true }),
      { signal: signalIn(rest), isFailure: isErrorResult },
    );
  };
  return new Proxy(client, {
    get(target, name) {
      if (name === "callTool") return call;
      if (name === "listTools") return list;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** Tests for the result of a tool that failed. */
const isErrorResult = (result: unknown): boolean =>
  typeof result === "object" && result !== null && (result as { readonly isError?: unknown }).isError === true;

function signalIn(rest: readonly unknown[]): AbortSignal | undefined {
  const last = rest.at(-1) as { readonly signal?: unknown } | undefined;
  return last?.signal instanceof AbortSignal ? last.signal : undefined;
}
