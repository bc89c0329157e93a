import type { JsonObject } from "@bufbuild/protobuf";
import { ToolSource } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { toolKey } from "../policy/names.ts";
import { digestOf } from "../tree/canonical.ts";
import type { McpServer } from "./mcp-servers.ts";
import { putToolVersion } from "./tools.ts";

/** A method of MCP that is decided as a call of a tool: `{server}.{method}`. */
interface MethodTool {
  readonly method: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly digest: string;
}

const TEXT = { type: "string" };
const TEXTS = { type: "object", additionalProperties: TEXT };

function methodTool(method: string, description: string, required: JsonObject, optional: JsonObject = {}): MethodTool {
  const inputSchema = { type: "object", properties: { ...required, ...optional }, required: Object.keys(required) };
  return { method, description, inputSchema, digest: digestOf(inputSchema) };
}

/** The methods that are decided as tools, besides `tools/call`. */
export const METHOD_TOOLS: readonly MethodTool[] = [
  methodTool("resources/read", "Reads a resource of the MCP server.", { uri: TEXT }),
  methodTool("resources/subscribe", "Subscribes to changes of a resource of the MCP server.", { uri: TEXT }),
  methodTool("prompts/get", "Gets a prompt of the MCP server.", { name: TEXT }, { arguments: TEXTS }),
  methodTool(
    "completion/complete",
    "Completes an argument of a prompt or of a resource template of the MCP server.",
    {
      ref: { type: "object", properties: { type: TEXT, name: TEXT, uri: TEXT }, required: ["type"] },
      argument: { type: "object", properties: { name: TEXT, value: TEXT }, required: ["name", "value"] },
    },
    { context: { type: "object", properties: { arguments: TEXTS } } },
  ),
];

/** Name under which a call is recorded whose own name no action can have. */
export const UNNAMEABLE_CALL = "tools/call";
const RESERVED = [...METHOD_TOOLS.map(({ method }) => method), UNNAMEABLE_CALL];

/** Explains why a server's tool cannot have a name: the gateway decides a method under it. Undefined for any other name. */
export function reservedNameFault(name: string): string | undefined {
  const taken = RESERVED.find((method) => toolKey(name).startsWith(method));
  return taken === undefined
    ? undefined
    : `its name begins with \`${taken}\`, under which the method of MCP is decided`;
}

/** Registers the methods of a server as tools. `methods` default to all. */
export async function putMethodTools(
  scope: ChangeScope,
  { name }: Pick<McpServer, "name">,
  methods: readonly string[] = METHOD_TOOLS.map(({ method }) => method),
): Promise<void> {
  for (const { method, description, inputSchema, digest } of METHOD_TOOLS) {
    if (!methods.includes(method)) continue;
    await putToolVersion(
      scope,
      { name: `${name}.${method}`, description, inputSchema, source: ToolSource.GATEWAY },
      digest,
    );
  }
}

/**
 * Registers the methods of a server as tools, so that typed rules about them compile and the setting for unknown tools does not
 * refuse them. Does nothing for a method that is registered. `methods` default to all. `by`: the caller's key.
 */
export async function registerMethodTools(
  log: WorkspaceLog,
  server: Pick<McpServer, "name">,
  by: string,
  methods?: readonly string[],
): Promise<void> {
  const { policies } = await log.caughtUp();
  const isMissing = ({ method, digest }: MethodTool): boolean =>
    (methods?.includes(method) ?? true) && policies.tool(`${server.name}.${method}`)?.sealed.digest !== digest;
  if (METHOD_TOOLS.some(isMissing)) await log.change(by, (scope) => putMethodTools(scope, server, methods));
}
