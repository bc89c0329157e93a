import { expect } from "chai";
import { type GatewayService, startGateway } from "./harness.ts";
import { GENERATIONS, type GenerationName, openRaw } from "./raw-client.ts";
import { type RecordingServer, startRecordingServer } from "./recording-server.ts";

interface RestError {
  readonly error: { readonly code: number; readonly message: string; readonly details: readonly { reason: string }[] };
}

/** JSON texts of arguments that no door takes. */
const REFUSED: Readonly<Record<string, string>> = {
  "50,000 values": `{"a":[${"0,".repeat(49_999)}0]}`,
  "25,000 values": `{"a":[${"0,".repeat(24_999)}0]}`,
  "half a surrogate pair": '{"a":{"b":["\\ud800"]}}',
  "half a surrogate pair in a name": '{"a":{"\\udc00":1}}',
  "a number beyond all numbers": '{"a":{"b":1e400}}',
  "70 levels": `{"a":${"[".repeat(70)}${"]".repeat(70)}}`,
  "a repeated name": '{"a":{"b":1,"b":2}}',
  "61,000 brackets": `{"a":[${"[],".repeat(61_000)}0]}`,
};

/** Text with the place that the doors name differently left out. */
const placeless = (text: string): string =>
  text.replace(/`(?:metadata|params|tool_input)(?:\.arguments)?([^`]*)`/g, "`$1`").replace(/`` /, "");

describe("the bounds of a request", () => {
  let gateway: GatewayService;
  let upstream: RecordingServer;
  before(async () => {
    gateway = await startGateway();
    upstream = await startRecordingServer();
    upstream.answer = () => ({ result: { content: [] } });
    await gateway.add("older", { url: upstream.url });
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });

  const rest = async (path: string, body: string, agentId: string): Promise<RestError> => {
    const headers = { "x-api-key": gateway.adminKey, "x-agent-id": agentId, "content-type": "application/json" };
    const response = await fetch(gateway.http + path, { method: "POST", headers, body });
    return (await response.json()) as RestError;
  };

  for (const [what, args] of Object.entries(REFUSED)) {
    it(`are those of REST for ${what} through the MCP gateway and the hooks, in the form of each.`, async () => {
      const agentId = await gateway.agent();
      const intercept = `{"agent_id":"${agentId}","action_type":"x","metadata":{"arguments":${args}}}`;
      const { error } = await rest("/v1/enforce/intercept", intercept, agentId);
      expect(error.code).to.be.within(400, 429);
      const said = placeless(error.message);

      const client = await openRaw(gateway, "older", "with sessions", agentId);
      const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pay","arguments":${args}}}`;
      const { body, text } = await client.send(call);
      expect(body.error, text.slice(0, 300)).to.be.an("object");
      expect(placeless(body.error?.message ?? "")).to.equal(said);
      expect(body.error?.data?.reason).to.equal(error.details[0]?.reason);

      const event = `{"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":${args}}`;
      const answer = (await rest("/v1/hooks/claude-code", event, agentId)) as unknown as {
        hookSpecificOutput: { permissionDecision: string; permissionDecisionReason: string };
      };
      expect(answer.hookSpecificOutput.permissionDecision).to.equal("deny");
      expect(placeless(answer.hookSpecificOutput.permissionDecisionReason)).to.contain(said);

      expect(await gateway.decisionIdsOf(agentId)).to.have.length(0);
      expect(upstream.messages).to.deep.equal([]);
    });
  }

  it("leave a call of many values that REST takes as it is.", async () => {
    const agentId = await gateway.agent();
    const args = `{"a":[${"0,".repeat(20_000)}0]}`;
    const client = await openRaw(gateway, "older", "with sessions", agentId);
    const { body } = await client.ask("tools/call", { name: "pay", arguments: JSON.parse(args) });
    expect(body.result).to.deep.equal({ content: [] });
    expect(upstream.messages.pop()?.params).to.deep.equal({ name: "pay", arguments: JSON.parse(args) });
  });
});

describe("the bounds of an answer of an MCP server", () => {
  let gateway: GatewayService;
  const upstreams = new Map<GenerationName, RecordingServer>();
  before(async () => {
    gateway = await startGateway();
    for (const generation of GENERATIONS) {
      const upstream = await startRecordingServer(generation === "stateless");
      upstreams.set(generation, upstream);
      await gateway.add(generation === "stateless" ? "newer" : "older", { url: upstream.url });
    }
  });
  after(async () => {
    await gateway?.stop();
    for (const upstream of upstreams.values()) await upstream.close();
  });

  const NOTICE = { jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "x" } };
  const deep = (levels: number): object => {
    let value: object = {};
    for (let level = 0; level < levels; level++) value = [value];
    return value;
  };
  const TOO_LARGE: readonly (readonly [what: string, result: object, excess: string])[] = [
    ["100,001 values", { content: Array(100_001).fill({}) }, "more than 100,000 values"],
    ["200 levels", { content: [deep(200)] }, "more than 128 nested levels"],
  ];
  for (const client of GENERATIONS) {
    for (const server of GENERATIONS) {
      for (const [what, result, excess] of TOO_LARGE) {
        for (const [form, before] of [
          ["JSON", []],
          ["a stream", [NOTICE]],
        ] as const) {
          it(`refuse one with ${what} as ${form}, ${client} before a server ${server}, and say that the tool may have run.`, async () => {
            const upstream = upstreams.get(server) as RecordingServer;
            upstream.answer = () => ({ result: { resultType: "complete", ...result }, before });
            const raw = await openRaw(gateway, server === "stateless" ? "newer" : "older", client);
            const { text } = await raw.ask("tools/call", { name: "pay", arguments: {} });
            expect(text.slice(0, 2_000)).to.contain(`answered with ${excess}`);
            upstream.answer = () => ({ result: { resultType: "complete", content: [{ type: "text", text: "ok" }] } });
            expect((await raw.ask("tools/call", { name: "pay", arguments: {} })).text).to.contain('"ok"');
          });
        }
      }
    }
  }

  it("take a result of many values, as it came.", async () => {
    const upstream = upstreams.get("with sessions") as RecordingServer;
    const rows = Array.from({ length: 30_000 }, (_, row) => ({ row, name: `row "${row}"` }));
    upstream.answer = () => ({ result: { content: [], structuredContent: { rows } } });
    const raw = await openRaw(gateway, "older", "with sessions");
    const { body } = await raw.ask("tools/call", { name: "pay", arguments: {} });
    expect(body.result?.structuredContent).to.deep.equal({ rows });
  });
});
