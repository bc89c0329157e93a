/*
 * An MCP server with everything that the official conformance suite asks of a server, in both generations at one URL: stateful up to
 * 2025-11-25, stateless from 2026-07-28 on. Names and texts are those that the suite expects.
 */
import { randomBytes, randomUUID } from "node:crypto";
import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  createMcpHandler,
  createRequestStateCodec,
  type EventStore,
  fromJsonSchema,
  hostHeaderValidationResponse,
  inputRequired,
  isLegacyRequest,
  type JSONRPCMessage,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  type McpHttpHandler,
  McpServer,
  originValidationResponse,
  ResourceTemplate,
  type ServerContext,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { serveWeb, type WebServer } from "./web-server.ts";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

const states = createRequestStateCodec<Record<string, unknown>>({ key: randomBytes(32) });
const text = (value: string) => ({ content: [{ type: "text" as const, text: value }] });
const image = { type: "image" as const, data: PIXEL, mimeType: "image/png" };
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const objectSchema = (properties: Record<string, object> = {}, required: string[] = Object.keys(properties)) =>
  fromJsonSchema<Record<string, never>>({ type: "object", properties, required } as never);
const STRING = { type: "string" };
const PROMPT = { description: "a prompt of the conformance suite" };
const askName = (message = "What is your name?") =>
  inputRequired.elicit({
    message,
    requestedSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
  });
const askModel = (question: string) =>
  inputRequired.createMessage({
    messages: [{ role: "user", content: { type: "text", text: question } }],
    maxTokens: 50,
  });
const askToConfirm = () =>
  inputRequired.elicit({
    message: "Please confirm",
    requestedSchema: { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] },
  });

type Handler = (context: ServerContext, args: Record<string, unknown>) => Promise<unknown>;

/** Registers a tool without a schema of its own arguments, or with one. */
function tool(server: McpServer, name: string, run: Handler, schema = objectSchema()): void {
  const handle = (args: Record<string, unknown>, context: ServerContext) => run(context, args);
  server.registerTool(name, { description: `conformance: ${name}`, inputSchema: schema as never }, handle as never);
}

function contentTools(server: McpServer): void {
  tool(server, "test_simple_text", async () => text("This is a simple text response for testing."));
  tool(server, "test_image_content", async () => ({ content: [image] }));
  tool(server, "test_audio_content", async () => ({
    content: [{ type: "audio", data: SILENCE, mimeType: "audio/wav" }],
  }));
  const embedded = {
    uri: "test://embedded-resource",
    mimeType: "text/plain",
    text: "This is an embedded resource content.",
  };
  tool(server, "test_embedded_resource", async () => ({ content: [{ type: "resource", resource: embedded }] }));
  const mixed = {
    uri: "test://mixed-content-resource",
    mimeType: "application/json",
    text: '{"test":"data","value":123}',
  };
  tool(server, "test_multiple_content_types", async () => ({
    content: [{ type: "text", text: "Multiple content types test:" }, image, { type: "resource", resource: mixed }],
  }));
  tool(server, "test_error_handling", async () => {
    throw new Error("This tool intentionally returns an error for testing");
  });
  tool(
    server,
    "test_x_mcp_header",
    async (_context, { region }) => text(`region=${String(region ?? "none")}`),
    objectSchema({ region: { ...STRING, "x-mcp-header": "Region" }, level: { type: "integer" } }, []),
  );
  tool(
    server,
    "json_schema_2020_12_tool",
    async () => text("ok"),
    fromJsonSchema({
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      $defs: { address: { $anchor: "addressDef", type: "object", properties: { street: STRING, city: STRING } } },
      properties: {
        name: STRING,
        address: { $ref: "#/$defs/address" },
        contactMethod: STRING,
        phone: STRING,
        email: STRING,
      },
      allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
      if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { required: ["phone"] },
      else: { required: ["email"] },
      additionalProperties: false,
    } as never) as never,
  );
}

function talkingTools(server: McpServer): void {
  tool(server, "test_tool_with_logging", async ({ mcpReq }) => {
    for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
      await mcpReq.notify({ method: "notifications/message", params: { level: "info", data } });
      await pause(20);
    }
    return text("Tool with logging executed successfully");
  });
  tool(server, "test_logging_tool", async ({ mcpReq }) => {
    await mcpReq.log("info", "logged if the request asked for it");
    return text("logged");
  });
  tool(server, "test_reconnection", async ({ http }) => {
    http?.closeSSE?.();
    await pause(100);
    return text("Reconnection test completed successfully.");
  });
  tool(server, "test_streaming_elicitation", async () => text("a stream of results alone"));
  tool(server, "test_tool_with_progress", async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
      await mcpReq.notify({
        method: "notifications/progress",
        params: { progressToken, progress, total: 100 },
      } as never);
      await pause(20);
    }
    return text(String(progressToken ?? "none"));
  });
  tool(
    server,
    "test_sampling",
    async ({ mcpReq }, { prompt }) => {
      const messages = [{ role: "user" as const, content: { type: "text" as const, text: String(prompt) } }];
      const onCall = { relatedRequestId: mcpReq.id };
      const { content } = (await mcpReq.requestSampling({ messages, maxTokens: 100 }, onCall)) as {
        content: { text?: string };
      };
      return text(`LLM response: ${content.text ?? ""}`);
    },
    objectSchema({ prompt: STRING }),
  );
  const elicit = (name: string, properties: object, required: string[] = []) =>
    tool(
      server,
      name,
      async ({ mcpReq }, { message }) => {
        const requestedSchema = { type: "object", properties, required } as never;
        const params = { message: String(message ?? name), requestedSchema };
        // On the stream of the call: the session's own is lost on a client that calls while it still opens it.
        const { action, content } = await mcpReq.elicitInput(params, { relatedRequestId: mcpReq.id });
        return text(`User response: action=${action}, content=${JSON.stringify(content ?? {})}`);
      },
      objectSchema({ message: STRING }, []),
    );
  elicit("test_elicitation", { username: STRING, email: STRING }, ["username", "email"]);
  elicit("test_elicitation_sep1034_defaults", {
    name: { ...STRING, default: "John Doe" },
    age: { type: "integer", default: 30 },
    score: { type: "number", default: 95.5 },
    status: { ...STRING, enum: ["active", "inactive", "pending"], default: "active" },
    verified: { type: "boolean", default: true },
  });
  const titled = [1, 2, 3].map((each) => ({ const: `value${each}`, title: `Option ${each}` }));
  elicit("test_elicitation_sep1330_enums", {
    untitledSingle: { ...STRING, enum: ["option1", "option2", "option3"] },
    titledSingle: { ...STRING, oneOf: titled },
    legacyEnum: { ...STRING, enum: ["opt1", "opt2", "opt3"], enumNames: ["One", "Two", "Three"] },
    untitledMulti: { type: "array", items: { ...STRING, enum: ["option1", "option2", "option3"] } },
    titledMulti: { type: "array", items: { anyOf: titled } },
  });
}

const responseTo = <T>({ mcpReq }: ServerContext, name: string): T | undefined =>
  mcpReq.inputResponses?.[name] as T | undefined;

function inputTools(server: McpServer): void {
  const ask = (inputRequests: object, requestState?: string) =>
    inputRequired({ inputRequests, ...(requestState === undefined ? {} : { requestState }) } as never);
  type Said = { content?: { text?: string } };
  tool(server, "test_missing_capability", async (context) =>
    responseTo(context, "llm_answer") === undefined ? ask({ llm_answer: askModel("Say pong") }) : text("done"),
  );
  tool(server, "test_input_required_result_elicitation", async ({ mcpReq }) => {
    const name = acceptedContent<{ name: string }>(mcpReq.inputResponses, "user_name")?.name;
    return typeof name === "string" ? text(`Hello, ${name}!`) : ask({ user_name: askName() });
  });
  tool(server, "test_input_required_result_sampling", async (context) => {
    const said = responseTo<Said>(context, "capital_question");
    if (said === undefined) return ask({ capital_question: askModel("What is the capital of France?") });
    return text(`Sampling response: ${said.content?.text ?? ""}`);
  });
  tool(server, "test_input_required_result_list_roots", async (context) => {
    const roots = responseTo<{ roots?: { uri?: string }[] }>(context, "client_roots")?.roots;
    if (!Array.isArray(roots)) return ask({ client_roots: inputRequired.listRoots() });
    return text(`Client exposed ${roots.length} root(s): ${roots.map(({ uri }) => uri).join(", ")}`);
  });
  tool(server, "test_input_required_result_request_state", async ({ mcpReq }) => {
    if (acceptedContent(mcpReq.inputResponses, "confirm") === undefined) {
      return ask({ confirm: askToConfirm() }, await states.mint({ nonce: randomUUID() }));
    }
    if (mcpReq.requestState() === undefined) throw new Error("the state is missing");
    return text("state-ok: the state came back as it was");
  });
  tool(server, "test_input_required_result_tampered_state", async ({ mcpReq }) => {
    const isAnswered = acceptedContent(mcpReq.inputResponses, "confirm") !== undefined;
    if (mcpReq.requestState() !== undefined && isAnswered) return text("integrity-ok");
    return ask({ confirm: askToConfirm() }, await states.mint({ nonce: randomUUID() }));
  });
  tool(server, "test_input_required_result_multiple_inputs", async (context) => {
    const name = acceptedContent<{ name: string }>(context.mcpReq.inputResponses, "user_name")?.name;
    const greeting = responseTo<Said>(context, "greeting")?.content?.text;
    const roots = responseTo<{ roots?: unknown[] }>(context, "client_roots")?.roots;
    if (typeof name === "string" && typeof greeting === "string" && Array.isArray(roots)) {
      return text(`${greeting} ${name}, ${roots.length} root(s)`);
    }
    const questions = {
      user_name: askName(),
      greeting: askModel("Generate a greeting"),
      client_roots: inputRequired.listRoots(),
    };
    return ask(questions, await states.mint({ nonce: randomUUID() }));
  });
  tool(server, "test_input_required_result_multi_round", async ({ mcpReq }) => {
    const state = mcpReq.requestState<Record<string, unknown>>();
    const mint = (round: number, more: object = {}) => states.mint({ round, nonce: randomUUID(), ...more });
    if (state?.round === undefined) return ask({ step1: askName("Step 1: What is your name?") }, await mint(1));
    if (state.round === 1) {
      const name = acceptedContent<{ name: string }>(mcpReq.inputResponses, "step1")?.name ?? "nobody";
      const schema = {
        type: "object" as const,
        properties: { color: { type: "string" as const } },
        required: ["color"],
      };
      const step2 = inputRequired.elicit({ message: "Step 2: What is your favorite color?", requestedSchema: schema });
      return ask({ step2 }, await mint(2, { name }));
    }
    const color = acceptedContent<{ color: string }>(mcpReq.inputResponses, "step2")?.color;
    return text(`${String(state.name)} likes ${String(color)}`);
  });
  tool(server, "test_input_required_result_capabilities", async ({ mcpReq }) => {
    if (mcpReq.inputResponses !== undefined) return text("answered");
    const declared =
      ((mcpReq.envelope ?? {}) as Record<string, Record<string, unknown>>)[CLIENT_CAPABILITIES_META_KEY] ?? {};
    const questions = {
      ...(declared.elicitation === undefined ? {} : { user_name: askName() }),
      ...(declared.sampling === undefined ? {} : { greeting: askModel("Generate a short greeting") }),
      ...(declared.roots === undefined ? {} : { client_roots: inputRequired.listRoots() }),
    };
    return Object.keys(questions).length === 0 ? text("nothing to ask") : ask(questions);
  });
}

function resources(server: McpServer): void {
  const read = (uri: string, content: object) => async () => ({ contents: [{ uri, ...content }] }) as never;
  const plain = { mimeType: "text/plain", text: "This is the content of the static text resource." };
  server.registerResource(
    "static-text",
    "test://static-text",
    { mimeType: "text/plain" },
    read("test://static-text", plain),
  );
  const binary = { mimeType: "image/png", blob: PIXEL };
  server.registerResource(
    "static-binary",
    "test://static-binary",
    { mimeType: "image/png" },
    read("test://static-binary", binary),
  );
  const watched = { mimeType: "text/plain", text: "Watched resource content" };
  server.registerResource("watched", "test://watched-resource", {}, read("test://watched-resource", watched));
  server.registerResource(
    "template",
    new ResourceTemplate("test://template/{id}/data", { list: undefined }),
    { mimeType: "application/json" },
    async (uri, { id }) => ({
      contents: [
        {
          uri: uri.href,
          mimeType: "application/json",
          text: JSON.stringify({ id, data: `Data for ID: ${String(id)}` }),
        },
      ],
    }),
  );
  server.server.setRequestHandler("resources/subscribe", async () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", async () => ({}));
  server.server.setRequestHandler("logging/setLevel", async () => ({}));
  server.server.setRequestHandler("completion/complete", async () => ({
    completion: { values: [], total: 0, hasMore: false },
  }));
}

function prompts(server: McpServer): void {
  const said = (...contents: object[]) =>
    ({ messages: contents.map((content) => ({ role: "user", content })) }) as never;
  const words = (value: string) => ({ type: "text", text: value });
  server.registerPrompt("test_simple_prompt", PROMPT, async () => said(words("This is a simple prompt for testing.")));
  server.registerPrompt(
    "test_prompt_with_arguments",
    { ...PROMPT, argsSchema: objectSchema({ arg1: STRING, arg2: STRING }) as never },
    (async ({ arg1, arg2 }: Record<string, string>) =>
      said(words(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))) as never,
  );
  server.registerPrompt(
    "test_prompt_with_embedded_resource",
    { ...PROMPT, argsSchema: objectSchema({ resourceUri: STRING }) as never },
    (async ({ resourceUri: uri }: Record<string, string>) =>
      said(
        { type: "resource", resource: { uri, mimeType: "text/plain", text: "Embedded resource content for testing." } },
        words("Please process the embedded resource above."),
      )) as never,
  );
  server.registerPrompt("test_prompt_with_image", PROMPT, async () =>
    said(image, words("Please analyze the image above.")),
  );
  server.registerPrompt("test_input_required_result_prompt", PROMPT, (async ({ mcpReq }: ServerContext) => {
    const context = acceptedContent<{ context: string }>(mcpReq.inputResponses, "user_context")?.context;
    if (typeof context === "string") return said(words(`Use this context: ${context}`));
    const requestedSchema = { type: "object", properties: { context: STRING }, required: ["context"] } as never;
    return inputRequired({
      inputRequests: { user_context: inputRequired.elicit({ message: "What context?", requestedSchema }) },
    });
  }) as never);
}

/** Keeps the events of streams, so that clients can resume them. */
function eventStore(): EventStore {
  const events: { readonly id: string; readonly streamId: string; readonly message: JSONRPCMessage }[] = [];
  return {
    async storeEvent(streamId, message) {
      const id = `${streamId}:${events.length}`;
      events.push({ id, streamId, message });
      return id;
    },
    async replayEventsAfter(lastId, { send }) {
      const at = events.findIndex(({ id }) => id === lastId);
      const streamId = events[at]?.streamId ?? "";
      for (const event of events.slice(at + 1)) {
        if (event.streamId === streamId && Object.keys(event.message).length > 0) await send(event.id, event.message);
      }
      return streamId;
    },
  };
}

/** Starts the server. */
export async function startFixtureServer(): Promise<WebServer> {
  let stateless: McpHttpHandler | undefined;
  const create = (): McpServer => {
    const server = new McpServer(
      { name: "fixture", version: "1" },
      {
        capabilities: {
          tools: { listChanged: true },
          resources: { subscribe: true, listChanged: true },
          prompts: { listChanged: true },
          logging: {},
          completions: {},
        },
        requestState: { verify: states.verify },
      },
    );
    for (const register of [contentTools, talkingTools, inputTools, resources, prompts]) register(server);
    tool(server, "test_trigger_tool_change", async () => {
      stateless?.notify.toolsChanged();
      return text("published");
    });
    tool(server, "test_trigger_prompt_change", async () => {
      stateless?.notify.promptsChanged();
      return text("published");
    });
    return server;
  };
  stateless = createMcpHandler(create, { legacy: "reject" });
  const handler = stateless;
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
  const open = async (): Promise<WebStandardStreamableHTTPServerTransport> => {
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      eventStore: eventStore(),
      retryInterval: 500,
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await create().connect(transport);
    return transport;
  };
  const web = await serveWeb(async (request) => {
    const rejected =
      hostHeaderValidationResponse(request, localhostAllowedHostnames()) ??
      originValidationResponse(request, localhostAllowedOrigins());
    if (rejected !== undefined) return rejected;
    if (!(await isLegacyRequest(request))) return handler.fetch(request);
    const id = request.headers.get("mcp-session-id");
    const known = id === null ? undefined : sessions.get(id);
    if (id !== null && known === undefined) {
      return Response.json(
        { jsonrpc: "2.0", id: null, error: { code: -32_001, message: "Session not found" } },
        { status: 404 },
      );
    }
    return (known ?? (await open())).handleRequest(request);
  });
  return {
    url: web.url,
    async close() {
      await handler.close();
      for (const transport of sessions.values()) await transport.close();
      await web.close();
    },
  };
}
