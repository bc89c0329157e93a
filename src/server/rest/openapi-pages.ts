import { errorResponses, type ReasonWord } from "./openapi-errors.ts";
import type { JsonSchema } from "./openapi-schema.ts";
import { EVENT_STREAM_TYPE, JSON_TYPE } from "./request.ts";

/** How a caller proves what it is: a key in either header, or the token for metrics. */
export const SECURITY_SCHEMES = {
  api_key: { type: "apiKey", in: "header", name: "X-API-Key", description: "A key of the workspace." },
  bearer: { type: "http", scheme: "bearer", description: "The same key as `Authorization: Bearer`." },
  metrics_token: {
    type: "http",
    scheme: "bearer",
    description: "The service's `ACP_METRICS_TOKEN` as `Authorization: Bearer`. It opens `/metrics` alone.",
  },
};
type SecurityScheme = keyof typeof SECURITY_SCHEMES;

/** An operation outside of the protos. */
interface PageOperation {
  readonly path: string;
  readonly httpMethod: string;
  readonly operationId: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  readonly parameters?: readonly object[];
  readonly body?: { readonly schema: JsonSchema; readonly example: unknown };
  /** Media types of a success, each with an example. */
  readonly content: Readonly<Record<string, unknown>>;
  readonly reasons?: readonly ReasonWord[];
  /** Schemes of which one is needed; none if empty. Default: those of every call. */
  readonly security?: readonly SecurityScheme[];
  readonly status?: string;
}

const OPEN_OBJECT: JsonSchema = { type: "object", additionalProperties: true };
const HTML_TYPE = "text/html";
const TEXT_TYPE = "text/plain";

/** Tags of the operations outside of the protos. */
export const PAGE_TAGS: readonly { readonly name: string; readonly description: string }[] = [
  {
    name: "RedactionProxy",
    description:
      "OpenAI's API in front of a model's service. Personal values are removed from requests and responses. Bodies are as in OpenAI's API.",
  },
  {
    name: "McpGateway",
    description: "A reverse proxy in front of MCP servers that decides every `tools/call`. Bodies are MCP messages.",
  },
  {
    name: "CodingAgentHooks",
    description:
      "Hooks that coding agents call before they run a tool. With `X-Hook-Nonce` the answer is signed with the caller's key; without it every response is the output for the client with status 200, also after a fault.",
  },
  { name: "Service", description: "Health, metrics, keys and descriptions of the service itself." },
];

const parameter = (name: string, place: "header" | "path", description: string, example: string): object => ({
  name,
  in: place,
  required: place === "path",
  description,
  schema: { type: "string" },
  example,
});
const WORKSPACE = parameter("workspace_id", "path", "The workspace of the key.", "default");
const CONVERSATION = parameter(
  "X-Conversation-Id",
  "header",
  "Keeps the placeholders of a conversation for an hour.",
  "chat-17",
);
const LLM_ORIGIN = parameter(
  "X-LLM-Origin",
  "header",
  "Origin that the caller's own key in `Authorization` is for. Required with such a key if the workspace has a model service of its own at another origin than the control plane's; the key goes nowhere else.",
  "https://api.openai.com",
);
const SERVER = parameter("server", "path", "Name of the MCP server.", "files");
const AGENT = parameter("X-Agent-Id", "header", "The calling agent, for a key that is not bound to one.", "agt_1");
const SESSION = parameter("Mcp-Session-Id", "header", "The session, for clients of the generation with sessions.", "1");
const CHAT = { model: "gpt-5", messages: [{ role: "user", content: "write to Zebulon Quist" }] };

const MODEL_REASONS: readonly ReasonWord[] = [
  "MALFORMED_JSON",
  "INVALID_FIELD",
  "BODY_TOO_LARGE",
  "ROLE_NOT_ALLOWED",
  "WORKSPACE_NOT_FOUND",
  "AGENT_INACTIVE",
  "LLM_NOT_CONFIGURED",
  "LLM_UNAVAILABLE",
  "NOT_SCRUBBABLE",
  "ENCRYPTION_KEY_DIFFERS",
];
const MCP_REASONS: readonly ReasonWord[] = [
  "MALFORMED_JSON",
  "INVALID_FIELD",
  "BODY_TOO_LARGE",
  "ROLE_NOT_ALLOWED",
  "AGENT_NOT_ALLOWED",
  "MCP_SERVER_NOT_FOUND",
  "MCP_SESSION_NOT_FOUND",
  "MCP_UPSTREAM_UNAVAILABLE",
  "ORIGIN_NOT_ALLOWED",
  "SCOPE_MISSING",
  "IDENTITY_UNAVAILABLE",
];

/** An operation of the proxy that asks a model. */
function modelOperation(path: string, summary: string, example: unknown): PageOperation {
  const name = path.replace(/(?:^|\/)(\w)/g, (_, first: string) => first.toUpperCase());
  return {
    path: `/api/redact/{workspace_id}/openai/v1/${path}`,
    httpMethod: "post",
    tag: "RedactionProxy",
    summary,
    operationId: `RedactionProxy_${name}`,
    description:
      "Has the request and response of OpenAI's operation at this path, with placeholders instead of personal values. `stream: true` returns Server-Sent Events where OpenAI does.",
    parameters: [WORKSPACE, CONVERSATION, LLM_ORIGIN],
    body: { schema: OPEN_OBJECT, example },
    content: { [JSON_TYPE]: { object: path }, [EVENT_STREAM_TYPE]: 'data: {"choices":[]}\n\n' },
    reasons: MODEL_REASONS,
  };
}

const QUERY = [
  {
    name: "hold_seconds",
    in: "query",
    required: false,
    schema: { type: "integer", minimum: 0, maximum: 3600 },
    description: "Seconds that a call waits for a person; absent means 50.",
  },
  {
    name: "when_pending",
    in: "query",
    required: false,
    schema: { type: "string", enum: ["deny", "ask"] },
    description: "The decision if nobody answers in time; absent means `deny`.",
  },
];

const NONCE = parameter(
  "X-Hook-Nonce",
  "header",
  "64 hexadecimal digits, new for each call. The response then has `X-Hook-Signature`: the HMAC-SHA-256, in hexadecimal digits, of these digits and the body under the key of the call.",
  "4f2d".repeat(16),
);

/** The hook of a coding agent. */
function hookOperation(client: string, operation: string, name: string): PageOperation {
  const event = { hook_event_name: "PreToolUse", tool_name: "Bash", tool_input: { command: "ls" } };
  const output = { hookEventName: "PreToolUse", permissionDecision: "deny", permissionDecisionReason: "`command` …" };
  return {
    path: `/v1/hooks/${client}`,
    httpMethod: "post",
    operationId: `CodingAgentHooks_${operation}`,
    tag: "CodingAgentHooks",
    summary: `Decides a tool call of ${name}`,
    description: `Takes the event \`PreToolUse\` as ${name} sends it. Returns, with a nonce, \`output\` for the client and the \`decision\`; without one, the output alone.`,
    parameters: [AGENT, NONCE, ...QUERY],
    body: { schema: OPEN_OBJECT, example: event },
    content: { [JSON_TYPE]: { output: { hookSpecificOutput: output }, decision: { decision: "block" } } },
  };
}

const page = (path: string, name: string, summary: string, type: string, example: unknown): PageOperation => ({
  path,
  httpMethod: "get",
  operationId: `Service_${name}`,
  tag: "Service",
  summary,
  description: `${summary}.`,
  content: { [type]: example },
  security: [],
});

const MCP_CALL = {
  jsonrpc: "2.0",
  id: 1,
  method: "tools/call",
  params: { name: "read", arguments: { path: "a.txt" } },
};
const MCP = { path: "/mcp/{server}", tag: "McpGateway", reasons: MCP_REASONS };

const OPERATIONS: readonly PageOperation[] = [
  modelOperation("chat/completions", "Asks a model in a chat", CHAT),
  modelOperation("completions", "Asks a model to complete a text", { model: "gpt-5", prompt: "Dear Zebulon Quist" }),
  modelOperation("responses", "Asks a model for a response", { model: "gpt-5", input: "write to Zebulon Quist" }),
  modelOperation("embeddings", "Asks a model for embeddings", { model: "embedder", input: "Zebulon Quist" }),
  modelOperation("moderations", "Asks a model to classify a text", { input: "Zebulon Quist" }),
  {
    path: "/api/redact/{workspace_id}/openai/v1/models",
    httpMethod: "get",
    tag: "RedactionProxy",
    operationId: "RedactionProxy_Models",
    summary: "Lists the models of the model's service",
    description: "Returns the response of OpenAI's operation at this path. One model is at `…/models/{model}`.",
    parameters: [WORKSPACE],
    content: { [JSON_TYPE]: { object: "list", data: [] } },
    reasons: MODEL_REASONS,
  },
  {
    ...MCP,
    httpMethod: "post",
    operationId: "McpGateway_Post",
    summary: "Sends one message to an MCP server",
    description:
      "Takes one JSON-RPC message of MCP (Streamable HTTP). A `tools/call` is decided first; a block is a result with `isError`, not an HTTP error.",
    parameters: [SERVER, AGENT, SESSION],
    body: { schema: OPEN_OBJECT, example: MCP_CALL },
    content: {
      [JSON_TYPE]: { jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text: "hello" }] } },
      [EVENT_STREAM_TYPE]: 'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n',
    },
  },
  {
    ...MCP,
    httpMethod: "get",
    operationId: "McpGateway_Get",
    summary: "Opens the stream of an MCP session",
    description: "Sends messages of the MCP server other than responses, as Server-Sent Events.",
    parameters: [SERVER, AGENT, SESSION],
    content: { [EVENT_STREAM_TYPE]: 'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n' },
  },
  {
    ...MCP,
    httpMethod: "delete",
    operationId: "McpGateway_Delete",
    summary: "Ends an MCP session",
    description: "Ends the session, here and at the MCP server. The agent's session ends with it.",
    parameters: [SERVER, AGENT, SESSION],
    content: {},
    status: "204",
  },
  hookOperation("claude-code", "ClaudeCode", "Claude Code"),
  hookOperation("codex", "Codex", "Codex"),
  {
    ...page(
      "/.well-known/oauth-protected-resource/mcp/{server}",
      "ProtectedResource",
      "Names the issuer of access tokens for an MCP server (RFC 9728)",
      JSON_TYPE,
      { resource: "https://acp.example.com/mcp/files", bearer_methods_supported: ["header"] },
    ),
    parameters: [SERVER],
  },
  page("/healthz", "Health", "Reports that the process runs", JSON_TYPE, { ok: true, version: "0.1.0" }),
  page("/readyz", "Ready", "Reports that the process serves and reaches its database", JSON_TYPE, { ok: true }),
  {
    ...page("/metrics", "Metrics", "Shows metrics for Prometheus", TEXT_TYPE, "# TYPE acp_call_seconds histogram\n"),
    description:
      "Shows the metrics of the service, of all its workers together, in the text format of Prometheus. Takes `ACP_METRICS_TOKEN`, which works while the database is away, or any API key that has not ended. Needs neither while `ACP_HOST` is a loopback address, unless a header says that a proxy has passed the request on.",
    security: ["metrics_token", "api_key", "bearer"],
  },
  page("/.well-known/jwks.json", "Jwks", "Lists the public keys that sign certificates and checkpoints", JSON_TYPE, {
    keys: [],
  }),
  page("/schemas/mandate.json", "MandateSchema", "Returns the JSON Schema of files of mandates", JSON_TYPE, {}),
  page("/openapi.json", "OpenApi", "Returns this description", JSON_TYPE, { openapi: "3.1.0" }),
  page("/docs", "Docs", "Shows the guides and this description for people", HTML_TYPE, "<!doctype html>"),
];

function operationFrom(operation: PageOperation): object {
  const { operationId, tag, summary, description, parameters = [], body, content, reasons = [], security } = operation;
  const media = Object.entries(content).map(([type, example]) => {
    const schema = type === JSON_TYPE ? OPEN_OBJECT : { type: "string" };
    return [type, { schema, example }];
  });
  const success = {
    description: "The call succeeded.",
    ...(media.length > 0 ? { content: Object.fromEntries(media) } : {}),
  };
  return {
    operationId,
    tags: [tag],
    summary,
    description,
    parameters,
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: { [JSON_TYPE]: { schema: body.schema, example: body.example } } } }),
    responses: { [operation.status ?? "200"]: success, ...errorResponses(reasons) },
    ...(security === undefined ? {} : { security: security.map((scheme) => ({ [scheme]: [] })) }),
  };
}

/** Describes the operations outside of the protos, by path. */
export function pagePaths(): Record<string, Record<string, object>> {
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of OPERATIONS) {
    paths[operation.path] ??= {};
    Object.assign(paths[operation.path] ?? {}, { [operation.httpMethod]: operationFrom(operation) });
  }
  return paths;
}
