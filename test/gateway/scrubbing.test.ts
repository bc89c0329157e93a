import { expect } from "chai";
import { MessageScrubber } from "../../src/gateway/scrubbing.ts";
import type { McpServer } from "../../src/registry/mcp-servers.ts";
import { withClient } from "../support/database.ts";
import { asking, connectStateless, type GatewayService, startGateway } from "./harness.ts";
import { call as callOnce, decisionOf, startSlowServer, textOf } from "./leaving-client.ts";
import { openRawSession, type RawSession } from "./raw-session.ts";
import { beginStream, type ScriptedServer, sendJson, startScriptedServer } from "./scripted-server.ts";
import { send, type Task } from "./task-client.ts";
import { startToolsServer, type ToolsServer, tool } from "./tools-server.ts";
import { until } from "./until.ts";

const EMAIL = "jane.roe@corp-mail.org";
const CARD = "4111 1111 1111 1111";
const NAME = "Zebulon Quist";
const PHONE = "+49 30 901820";
const KINDS = ["email", "payment_card", "person_name"];
/** Any of the values, in any of the forms that the answers below use. */
const PERSONAL = /jane\.roe|4111|Zebulon|amFuZS5yb2U/i;
const BYTES = Buffer.from(`${EMAIL} is in these bytes, which nobody reads: ${"x".repeat(60)}`).toString("base64");

/** What a server answers with, and what its client gets. */
const RESULTS: readonly { what: string; method?: string; params?: object; given: object; want: object }[] = [
  {
    what: "texts of a tool",
    given: { content: [{ type: "text", text: `${NAME} <${EMAIL}>, ${CARD}, ${PHONE}` }] },
    want: { content: [{ type: "text", text: `[PERSON_NAME] <[EMAIL]>, [PAYMENT_CARD], ${PHONE}` }] },
  },
  {
    what: "structured content: nested texts, numbers and names of members",
    given: {
      content: [],
      structuredContent: { [EMAIL]: { deep: [{ card: 4_111_111_111_111_111, ok: 7 }] }, role: NAME },
    },
    want: {
      content: [],
      structuredContent: { "[EMAIL]": { deep: [{ card: "[PAYMENT_CARD]", ok: 7 }] }, role: "[PERSON_NAME]" },
    },
  },
  {
    what: "names of members that are the same without their values",
    given: { content: [], structuredContent: { [EMAIL]: 1, "john.roe@corp-mail.org": 2 } },
    want: { content: [], structuredContent: { "[EMAIL]": 1, "[EMAIL] 2": 2 } },
  },
  {
    what: "JSON in a text, with escapes",
    given: { content: [{ type: "text", text: '{"to":"jane.roe\\u0040corp-mail.org","card":4111111111111111}' }] },
    want: { content: [{ type: "text", text: '{"to":"[EMAIL]","card":"[PAYMENT_CARD]"}' }] },
  },
  {
    what: "JSON within a text, with escapes",
    given: { content: [{ type: "text", text: 'found: {"to":"jane.roe\\u0040corp-mail.org"}' }] },
    want: { content: [{ type: "text", text: 'found: {"to":"[EMAIL]"}' }] },
  },
  {
    what: "embedded resources and links, with escaped URIs",
    given: {
      content: [
        {
          type: "resource",
          resource: { uri: "mail:jane.roe%40corp-mail.org", mimeType: "text/plain", text: `to ${EMAIL}` },
        },
        { type: "resource_link", uri: `mail:${EMAIL}`, name: NAME, description: `of ${NAME}` },
        { type: "resource_link", uri: `data:text/plain;base64,${Buffer.from(EMAIL).toString("base64")}`, name: "a" },
      ],
    },
    want: {
      content: [
        { type: "resource", resource: { uri: "mail:%5BEMAIL%5D", mimeType: "text/plain", text: "to [EMAIL]" } },
        { type: "resource_link", uri: "mail:[EMAIL]", name: "[PERSON_NAME]", description: "of [PERSON_NAME]" },
        { type: "resource_link", uri: "data:text/plain,%5BEMAIL%5D", name: "a" },
      ],
    },
  },
  {
    what: "everything but base64, which is not searched",
    given: {
      content: [
        { type: "image", data: BYTES, mimeType: "image/png" },
        { type: "text", text: EMAIL },
      ],
    },
    want: {
      content: [
        { type: "image", data: BYTES, mimeType: "image/png" },
        { type: "text", text: "[EMAIL]" },
      ],
    },
  },
  {
    what: "plain text in place of base64",
    given: { content: [{ type: "image", data: EMAIL, mimeType: "image/png" }] },
    want: { content: [{ type: "image", data: "[EMAIL]", mimeType: "image/png" }] },
  },
  {
    what: "members that no specification knows, and `_meta`",
    given: { content: [], customer: { id: CARD, status: EMAIL }, _meta: { "acme.com/who": NAME } },
    want: {
      content: [],
      customer: { id: "[PAYMENT_CARD]", status: "[EMAIL]" },
      _meta: { "acme.com/who": "[PERSON_NAME]" },
    },
  },
  {
    what: "contents of a resource",
    method: "resources/read",
    params: { uri: "file:///a" },
    given: {
      contents: [
        { uri: "file:///a", text: `Dear ${NAME}` },
        { uri: "file:///b", blob: BYTES },
      ],
    },
    want: {
      contents: [
        { uri: "file:///a", text: "Dear [PERSON_NAME]" },
        { uri: "file:///b", blob: BYTES },
      ],
    },
  },
  {
    what: "a prompt",
    method: "prompts/get",
    params: { name: "greet" },
    given: { description: `for ${NAME}`, messages: [{ role: "user", content: { type: "text", text: EMAIL } }] },
    want: {
      description: "for [PERSON_NAME]",
      messages: [{ role: "user", content: { type: "text", text: "[EMAIL]" } }],
    },
  },
  {
    what: "a completion",
    method: "completion/complete",
    params: { ref: { type: "ref/prompt", name: "greet" }, argument: { name: "who", value: "j" } },
    given: { completion: { values: [EMAIL, "joe"], total: 2 } },
    want: { completion: { values: ["[EMAIL]", "joe"], total: 2 } },
  },
];

describe("an MCP server whose messages are scrubbed", () => {
  let gateway: GatewayService;
  let upstream: ScriptedServer;
  let session: RawSession;
  before(async () => {
    upstream = await startScriptedServer();
    gateway = await startGateway();
    await gateway.rest("POST /api/redact/default/values", { values: [{ value: NAME }] });
    await gateway.add("files", { url: upstream.url }, { scrub: KINDS });
    await gateway.add("plain", { url: upstream.url });
    session = await openRawSession(gateway.urlOf("files"), gateway.headers);
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });
  const answers = (result: object): void => {
    upstream.answer = ({ id }, response) => sendJson(response, { jsonrpc: "2.0", id, result });
  };
  const sendOwn = (message: object): void => upstream.sendOwn?.(message);
  const call = (of = session) => of.ask("tools/call", { name: "read", arguments: {} });

  for (const { what, method = "tools/call", params = { name: "read", arguments: {} }, given, want } of RESULTS) {
    it(`gives its client ${what}, without the values.`, async () => {
      answers(given);
      const { messages } = await session.ask(method, params);
      expect(messages[0]?.result).to.deep.equal(want);
    });
  }

  it("passes everything as it is where no kind is named.", async () => {
    const given = {
      content: [{ type: "text", text: `${NAME} ${EMAIL}` }],
      structuredContent: { [EMAIL]: 4_111_111_111_111_111 },
    };
    answers(given);
    const plain = await openRawSession(gateway.urlOf("plain"), gateway.headers);
    expect((await call(plain)).messages[0]?.result).to.deep.equal(given);
  });

  it("gives errors without the values, of the protocol and of HTTP.", async () => {
    upstream.answer = ({ id }, response) =>
      sendJson(response, {
        jsonrpc: "2.0",
        id,
        error: { code: -32_000, message: `no ${EMAIL}`, data: { id: CARD, who: [NAME] } },
      });
    const error = { code: -32_000, message: "no [EMAIL]", data: { id: "[PAYMENT_CARD]", who: ["[PERSON_NAME]"] } };
    expect((await call()).messages[0]?.error).to.deep.equal(error);
    upstream.answer = (_received, response) => void response.writeHead(500).end(`${NAME} is not known`);
    expect((await call()).text).to.equal("[PERSON_NAME] is not known");
    upstream.answer = (_received, response) =>
      sendJson(response, { oops: "jane.roe@corp-mail.org", card: 4_111_111_111_111_111 }, 500);
    expect((await call()).text).not.to.match(PERSONAL);
  });

  it("is not quoted when it refuses to list its definitions.", async () => {
    const { answerList } = upstream;
    upstream.answerList = ({ id }, response) =>
      sendJson(response, { jsonrpc: "2.0", id, error: { code: -32_001, message: `ask ${EMAIL}` } });
    const refresh = (name: string) =>
      gateway.rest(`POST /v1/enforce/mcp-servers/${name}:refresh`, {}).then(
        () => "",
        (error: unknown) => JSON.stringify([error, String(error)]),
      );
    expect(await refresh("plain")).to.contain(`ask ${EMAIL}`);
    const refused = await refresh("files");
    expect(refused).to.contain("does not list its").and.contain("error -32001");
    expect(refused).not.to.match(PERSONAL);
    upstream.answerList = answerList;
  });

  it("gives progress, log messages and requests of the server without the values, and the marks of the protocol as they are.", async () => {
    const own = [
      {
        method: "notifications/progress",
        params: { progressToken: "t-1", progress: 4_111_111_111_111_111, message: `at ${NAME}` },
      },
      {
        method: "notifications/message",
        params: { level: "info", logger: "db", data: { user: { id: EMAIL }, text: CARD } },
      },
      {
        id: 7,
        method: "elicitation/create",
        params: { message: `Is ${EMAIL} right?`, requestedSchema: { type: "object", properties: {} } },
      },
    ];
    upstream.answer = ({ id }, response) => {
      const sends = beginStream(response);
      for (const message of own) sends({ jsonrpc: "2.0", ...message });
      sends({ jsonrpc: "2.0", id, result: { content: [], nextCursor: CARD } });
      response.end();
    };
    const { messages } = await call();
    const shown = messages.map(({ params, result }) => params ?? result);
    expect(shown).to.deep.equal([
      { progressToken: "t-1", progress: 4_111_111_111_111_111, message: "at [PERSON_NAME]" },
      { level: "info", logger: "db", data: { user: { id: "[EMAIL]" }, text: "[PAYMENT_CARD]" } },
      { message: "Is [EMAIL] right?", requestedSchema: { type: "object", properties: {} } },
      { content: [], nextCursor: CARD },
    ]);
  });

  it("gives a result without the values on whichever stream it comes.", async () => {
    const other = await openRawSession(gateway.urlOf("files"), gateway.headers);
    upstream.sendOwn = undefined;
    const { said: heard } = await other.listen();
    await until(() => upstream.sendOwn !== undefined);
    let asked: unknown;
    upstream.answer = ({ id }, response) => {
      asked = id;
      beginStream(response);
      response.end();
    };
    await call(other);
    const result = { content: [{ type: "text", text: `late: ${EMAIL}` }] };
    sendOwn({ jsonrpc: "2.0", id: asked, result });
    await until(() => heard().includes("late"));
    expect(heard()).to.contain("late: [EMAIL]").and.not.to.match(PERSONAL);
    const changed = {
      jsonrpc: "2.0",
      method: "notifications/message",
      params: { level: "info", data: `then ${NAME}` },
    };
    sendOwn(changed);
    await until(() => heard().includes("then"));
    expect(heard()).to.contain("then [PERSON_NAME]").and.not.to.match(PERSONAL);
  });

  it("keeps names and schemas of its tools, and pins them as it wrote them.", async () => {
    upstream.about = { instructions: `ask ${NAME}` };
    const inputSchema = { type: "object", properties: { to: { type: "string", default: EMAIL } } };
    upstream.tools = [{ name: "read", description: `reads the mail of ${EMAIL}`, inputSchema }];
    const other = await openRawSession(gateway.urlOf("files"), gateway.headers);
    expect(other.opened.messages[0]?.result).to.deep.include({ instructions: "ask [PERSON_NAME]" });
    expect(other.opened.messages[0]?.result).to.have.nested.property("serverInfo.version", "1.2.3.4");
    const listed = (await other.ask("tools/list")).messages[0]?.result as unknown as { tools: object[] };
    expect(listed.tools).to.deep.equal([{ name: "read", description: "reads the mail of [EMAIL]", inputSchema }]);
    const { tools } = (await gateway.rest("GET /v1/enforce/mcp-servers/files/tools")) as unknown as {
      tools: { active: { definition: { description: string } } }[];
    };
    expect(tools[0]?.active.definition.description).to.contain(EMAIL);
    answers({ content: [] });
    expect((await call(other)).messages[0]?.result).to.deep.equal({ content: [] });
  });

  it("hides a value from the first message after it was registered, and follows the workspace's allow-list.", async () => {
    const given = { content: [{ type: "text", text: `Mirabel Oakes and ${EMAIL}` }] };
    answers(given);
    expect(JSON.stringify((await call()).messages)).to.contain("Mirabel Oakes and [EMAIL]");
    await gateway.rest("POST /api/redact/default/values", { values: [{ value: "Mirabel Oakes" }] });
    expect(JSON.stringify((await call()).messages)).to.contain("[PERSON_NAME] and [EMAIL]");
    // Disabled kinds are about the proxy: this server names its kinds itself.
    await gateway.rest("PUT /api/redact/default/settings", { disabled_kinds: ["email"] });
    expect(JSON.stringify((await call()).messages)).to.contain("[PERSON_NAME] and [EMAIL]");
    await gateway.rest("PUT /api/redact/default/settings", { allow: ["*@corp-mail.org"] });
    expect(JSON.stringify((await call()).messages)).to.contain(`[PERSON_NAME] and ${EMAIL}`);
    await gateway.rest("PUT /api/redact/default/settings", {});
  });

  it("begins and ends with an update of the server.", async () => {
    const given = { content: [{ type: "text", text: EMAIL }] };
    answers(given);
    await gateway.rest("PATCH /v1/enforce/mcp-servers/plain", { scrub: ["email"] });
    const other = await openRawSession(gateway.urlOf("plain"), gateway.headers);
    expect(JSON.stringify((await call(other)).messages)).to.contain("[EMAIL]");
    await gateway.rest("PATCH /v1/enforce/mcp-servers/plain", { scrub: [] });
    const last = await openRawSession(gateway.urlOf("plain"), gateway.headers);
    expect(JSON.stringify((await call(last)).messages)).to.contain(EMAIL);
  });
});

describe("an MCP server whose messages are scrubbed, for stateless clients", () => {
  let gateway: GatewayService;
  let upstream: ToolsServer;
  before(async () => {
    upstream = await startToolsServer([tool("pay"), tool("read")]);
    upstream.answer = () => ({ content: [{ type: "text", text: `paid ${EMAIL}` }], structuredContent: { to: EMAIL } });
    gateway = await startGateway();
    const asks = { type: "action", decision: "escalate", conditions: { match_action_types: ["tools.pay"] } };
    await gateway.rest("POST /v1/enforce/mandates", { name: "people pay", rules: [asks] });
    await gateway.add("tools", { url: upstream.url }, { scrub: ["email"] });
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });

  it("gives the results of calls without the values.", async () => {
    const client = asking(await connectStateless(gateway.urlOf("tools"), gateway.headers));
    const result = await client.request({ method: "tools/call", params: { name: "read", arguments: {} } });
    expect(result).to.deep.include({
      content: [{ type: "text", text: "paid [EMAIL]" }],
      structuredContent: { to: "[EMAIL]" },
    });
    await client.close();
  });

  it("keeps the result of a task without the values.", async () => {
    const url = gateway.urlOf("tools");
    const created = await send(url, gateway.headers, "tools/call", { name: "pay", arguments: {} });
    const { taskId } = created.result as unknown as Task;
    await gateway.resolve(taskId.slice("agentcontrol.".length), "approved");
    let task: Task;
    do task = (await send(url, gateway.headers, "tasks/get", { taskId })).result as unknown as Task;
    while (task.status === "working");
    expect(JSON.stringify(task)).to.contain("paid [EMAIL]").and.not.to.match(PERSONAL);
  });
});

describe("a result that was kept for a client that left", () => {
  it("is given without the values, also of kinds that its server names only since.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const upstream = await startSlowServer();
    cleanup.defer(() => upstream.close());
    const gateway = await startGateway({ env: { ACP_MCP_HOLD_MS: "400" } });
    cleanup.defer(async () => void (await gateway.stop()));
    await gateway.rest("POST /api/redact/default/values", { values: [{ value: NAME }] });
    await gateway.add("tools", { url: upstream.url }, { scrub: ["email"] });
    const asks = { type: "action", decision: "escalate", conditions: { match_action_types: ["tools.pay"] } };
    await gateway.rest("POST /v1/enforce/mandates", { name: "people pay", rules: [asks] });
    const ask = (signal?: AbortSignal) =>
      callOnce(gateway.urlOf("tools"), gateway.headers, { name: "pay", arguments: {} }, signal);
    await gateway.resolve(decisionOf(await ask()).escalation_id ?? "", "approved");
    const leaving = new AbortController();
    const calling = ask(leaving.signal).catch(() => undefined);
    await until(() => upstream.open === 1);
    leaving.abort();
    await calling;
    upstream.finish(`paid ${NAME} <${EMAIL}>`);
    const statusOf = () =>
      withClient(gateway.database.ownerUrl, async (client) => {
        const { rows } = await client.query("select status from mcp_approved_call");
        return (rows as { status: number }[])[0]?.status;
      });
    await until(async () => (await statusOf()) === 2);
    await gateway.rest("PATCH /v1/enforce/mcp-servers/tools", { scrub: ["email", "person_name"] });
    expect(textOf(await ask())).to.equal("paid [PERSON_NAME] <[EMAIL]>");
    expect(upstream.calls).to.have.length(1);
  });
});

describe("a message that cannot be scrubbed", () => {
  const lines: string[] = [];
  const keep = (details: object, message: string): void => void lines.push(JSON.stringify({ ...details, message }));
  const scrubber = new MessageScrubber(
    { workspaceId: "default", name: "files", scrub: ["email"] } as unknown as McpServer,
    {
      scrubJson: () => Promise.reject(new RangeError(`about ${EMAIL}`)),
      log: { info: keep, warn: keep, error: keep },
    },
  );

  it("is withheld: a response becomes an error, an HTTP error says so, and any other message is dropped.", async () => {
    const response = { jsonrpc: "2.0" as const, id: 3, result: { content: [{ type: "text", text: EMAIL }] } };
    const shown = [
      await scrubber.response("tools/call", response, (each) => each),
      await scrubber.response("tools/list", response, (each) => each),
      await scrubber.text(EMAIL),
    ];
    expect(JSON.stringify(shown)).to.contain("could not be scrubbed, and is withheld").and.not.to.match(PERSONAL);
    expect(shown[0]).to.have.nested.property("error.code", -32_000);
    expect(
      await scrubber.message({ jsonrpc: "2.0", method: "notifications/message", params: { data: EMAIL } }),
    ).to.equal(undefined);
    expect(lines.join()).to.contain("withheld").and.not.to.match(PERSONAL);
  });
});
