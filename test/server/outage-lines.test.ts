/* Lines of an outage of the database: one when it begins and one when it ends, through whatever door the calls come. */
import { expect } from "chai";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { INITIALIZE } from "../gateway/raw-client.ts";
import { startToolsServer, type ToolsServer } from "../gateway/tools-server.ts";
import { sends, startUpstream, type Upstream } from "../redaction/upstream.ts";
import { type BreakableLink, startBreakableLink } from "../support/breakable-link.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { until } from "../support/harness.ts";
import { sessionUrlOf } from "../support/pooler.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";
import { KEPT_OUTPUT } from "../support/server.ts";
import { openWires, type WireName, type Wires } from "../support/wires.ts";

const CALLS = 200;
const AWAY = "the database is away; calls are refused until it answers";
const BACK = "the database answers again";
const JSON_TYPE = { "content-type": "application/json", accept: "application/json, text/event-stream" };
const EVENT = { hook_event_name: "PreToolUse", tool_name: "Bash", tool_input: { command: "ls" } };
const CHAT = { model: "m", messages: [{ role: "user", content: "mail jane.roe@corp-mail.org" }] };

/** Makes the `index`th call with a key. Rejections count as answers. */
type Door = (key: string, index: number) => Promise<unknown>;

describe("the log during an outage of the database", () => {
  let database: TestDatabase;
  let link: BreakableLink;
  let model: Upstream;
  let tools: ToolsServer;
  let service: ServedHere;
  let agentId = "";
  let agentKey = "";
  let session = "";
  let wires: Wires;

  before(async () => {
    database = await createTestDatabase();
    const url = new URL(sessionUrlOf(database.url));
    link = await startBreakableLink({ host: url.hostname, port: Number(url.port) });
    url.port = String(link.port);
    model = await startUpstream(sends({ choices: [{ message: { role: "assistant", content: "Thank you." } }] }));
    tools = await startToolsServer();
    const env = { ACP_LLM_URL: model.url, ACP_LLM_KEY: "key-of-the-model", ACP_MCP_ALLOW: "127.0.0.0/8" };
    service = await serveHere({ databaseUrl: url.href, env });
    wires = openWires(service);
    const made = await post("/v1/enforce/agents", service.adminKey, { name: "agent" });
    agentId = ((await made.json()) as { agent: { agent_id: string } }).agent.agent_id;
    const key = await post("/v1/admin/keys", service.adminKey, { name: "k", role: "agent", agent_id: agentId });
    agentKey = ((await key.json()) as { secret: string }).secret;
    await post("/v1/enforce/mcp-servers", service.adminKey, { name: "bank", url: tools.url });
    const opened = await post("/mcp/bank", agentKey, INITIALIZE);
    session = opened.headers.get("mcp-session-id") ?? "";
    expect(session).not.to.equal("");
    await opened.text();
  });
  after(async () => {
    link.mend();
    wires?.close();
    await service.stop();
    await Promise.all([link.close(), model.close(), tools.close()]);
    await database.drop();
  });

  const post = (path: string, key: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(service.http + path, {
      method: "POST",
      headers: { "x-api-key": key, ...JSON_TYPE, ...headers },
      body: JSON.stringify(body),
    });
  const get = (path: string, key: string): Promise<Response> =>
    fetch(service.http + path, { headers: { "x-api-key": key } });

  const intercept =
    (wire: WireName): Door =>
    (key) => {
      const request = { agent_id: agentId, action_type: "note.write", action_content: "text" };
      const client = wires.all.find(({ name }) => name === wire);
      return client?.unary(EnforcementService.method.intercept, request, { key }) ?? Promise.reject(new Error(wire));
    };
  const doors: Readonly<Record<string, Door>> = {
    REST: intercept("rest"),
    Connect: intercept("connect"),
    "gRPC-Web": intercept("grpc-web"),
    gRPC: intercept("grpc"),
    "the hook of Claude Code": (key) => post("/v1/hooks/claude-code", key, EVENT),
    "the hook of Codex, signed": (key) => post("/v1/hooks/codex", key, EVENT, { "x-hook-nonce": "0a".repeat(32) }),
    "the MCP gateway, with sessions": (key, index) =>
      post(
        "/mcp/bank",
        key,
        { jsonrpc: "2.0", id: index, method: "tools/call", params: { name: "pay", arguments: {} } },
        { "mcp-session-id": session },
      ),
    "the MCP gateway, opening sessions": (key) => post("/mcp/bank", key, INITIALIZE),
    "the redaction proxy": (key) => post("/api/redact/default/openai/v1/chat/completions", key, CHAT),
    "the settings of redaction": (key) => get("/api/redact/default/settings", key),
    "the sign-in of the dashboard": (key) => post("/dashboard/sign-in", key, { key }),
    "the metrics": (key) => get("/metrics", key),
    readiness: (key) => get("/readyz", key),
    "the key set": (key) => get("/.well-known/jwks.json", key),
  };

  type Line = Readonly<Record<string, unknown>>;
  /** The lines after the first `length` characters; nothing may have been dropped. */
  function linesAfter(length: number): Line[] {
    expect(service.output().length, "output is kept whole").to.be.below(KEPT_OUTPUT);
    const added = service.output().slice(length).split("\n");
    return added.filter((line) => line !== "").map((line) => JSON.parse(line) as Line);
  }

  for (const [name, call] of Object.entries(doors)) {
    it(`is one line, and one at its end, for ${CALLS} calls through ${name}.`, async () => {
      const before = service.output().length;
      const messages = (): unknown[] => linesAfter(before).map(({ msg }) => msg);
      link.break();
      // A key that the service knows, and keys that it has to look up.
      const answers = Array.from({ length: CALLS }, async (_, index) => {
        const key = index % 2 === 0 ? agentKey : `acp_${"x".repeat(40)}${index}`;
        const answer = await call(key, index).catch((error: Error) => error);
        return answer instanceof Response ? `${answer.status} ${await answer.text()}` : String(answer);
      });
      await Promise.all(answers);
      await until(() => messages().includes(AWAY));
      link.mend();
      await until(() => messages().includes(BACK));
      expect(messages()).to.deep.equal([AWAY, BACK]);
      await until(async () => (await get("/readyz", "")).status === 200);
    });
  }
});
