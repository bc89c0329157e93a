import { expect } from "chai";
import { type GatewayService, startGateway } from "./harness.ts";
import { decisionIn, GENERATIONS, INITIALIZE, openRaw, post } from "./raw-client.ts";
import { type RecordingServer, startRecordingServer } from "./recording-server.ts";

/** A refused call as its receipt shows it. */
interface Recorded {
  readonly decision: { decision: string; decision_path: string };
  readonly receipt: {
    action: { action_type: string; arguments: unknown };
    trust: { before: number; after: number };
    reasons: { code: string }[];
  };
}

describe("a call that the MCP gateway refuses", () => {
  let gateway: GatewayService;
  const upstreams = new Map<string, RecordingServer>();
  before(async () => {
    gateway = await startGateway();
    for (const generation of GENERATIONS) {
      const upstream = await startRecordingServer(generation === "stateless");
      upstreams.set(generation, upstream);
      await gateway.add(nameOf(generation), { url: upstream.url });
      await gateway.add(`${nameOf(generation)}-strict`, { url: upstream.url }, { mode: "quarantine" });
    }
  });
  after(async () => {
    await gateway?.stop();
    for (const upstream of upstreams.values()) await upstream.close();
  });

  const nameOf = (generation: string): string => (generation === "stateless" ? "newer" : "older");
  const decisionOf = async (id: unknown): Promise<Recorded> =>
    (await gateway.rest(`GET /v1/enforce/decisions/${id}`)) as unknown as Recorded;

  for (const generation of GENERATIONS) {
    it(`is a decision in the log, at no cost to trust (${generation}).`, async () => {
      const upstream = upstreams.get(generation) as RecordingServer;
      upstream.messages.length = 0;
      const schema = { inputSchema: { type: "object" } };
      upstream.tools = [
        { name: "pay", ...schema },
        { name: "resources/read", ...schema },
        { name: "Prompts/Get-all", ...schema },
        { name: "broken", inputSchema: 1 },
      ];
      const server = nameOf(generation);
      for (const [on, name, code, type, args] of [
        [server, "none", "TOOL_UNKNOWN", `${server}.none`, { a: 1 }],
        [server, "PAY", "TOOL_UNKNOWN", `${server}.PAY`, { a: 1 }],
        [server, "broken", "TOOL_UNUSABLE", `${server}.broken`, { a: 1 }],
        [server, "resources/read", "TOOL_UNUSABLE", `${server}.tools/call`, undefined],
        [server, "Prompts/Get-all", "TOOL_UNUSABLE", `${server}.tools/call`, undefined],
        [server, " pay", "TOOL_UNKNOWN", `${server}.tools/call`, undefined],
        [server, "pay\u200b", "TOOL_UNKNOWN", `${server}.tools/call`, undefined],
        [server, "", "TOOL_UNKNOWN", `${server}.tools/call`, undefined],
        [server, "x".repeat(5_000), "TOOL_UNKNOWN", `${server}.tools/call`, undefined],
        [`${server}-strict`, "pay", "TOOL_QUARANTINED", `${server}-strict.pay`, { a: 1 }],
      ] as const) {
        const client = await openRaw(gateway, on, generation);
        const answer = await client.ask("tools/call", { name, arguments: { a: 1 } });
        const said = decisionIn(answer);
        expect(said, `${name} ${answer.text}`).to.include({ decision: "block", decision_path: "mcp_definition" });
        const [id] = await gateway.decisionIdsOf(client.agentId);
        expect(said?.decision_id).to.equal(id);
        const { receipt } = await decisionOf(id);
        expect([receipt.action.action_type, receipt.reasons[0]?.code]).to.deep.equal([type, code]);
        if (args !== undefined) expect(receipt.action.arguments).to.deep.equal(args);
        expect(receipt.trust).to.deep.include({ before: 50, after: 50 });
      }
      expect(upstream.messages).to.deep.equal([]);
      const client = await openRaw(gateway, server, generation);
      const { result = {} } = (await client.ask("tools/list")).body;
      expect((result.tools as { name: string }[]).map(({ name }) => name)).to.deep.equal(["pay"]);
    });

    it(`names no agent that could open anything at a server (${generation}).`, async () => {
      const upstream = upstreams.get(generation) as RecordingServer;
      await openRaw(gateway, nameOf(generation), generation);
      upstream.headers.length = 0;
      for (const other of GENERATIONS) {
        for (let count = 0; count < 5; count++) {
          const client = await openRaw(gateway, nameOf(generation), other, `agt_none_${count}`);
          for (const [method, params] of [
            ["tools/call", { name: "pay", arguments: {} }],
            ["resources/read", { uri: "a" }],
            ["tools/list", {}],
          ] as const) {
            const { status, text } = await client.ask(method, params);
            expect([status >= 400, text].join(), text).to.match(/^true.*(AGENT_NOT_FOUND|Mcp-Session-Id)/);
          }
        }
      }
      expect(upstream.headers).to.deep.equal([]);
    });
  }

  it("is answered with 401 once the agent is revoked, and its call is on record.", async () => {
    for (const generation of GENERATIONS) {
      const client = await openRaw(gateway, nameOf(generation), generation);
      await gateway.rest(`POST /v1/enforce/agents/${client.agentId}/revoke`, { reason: "gone" });
      const upstream = upstreams.get(generation) as RecordingServer;
      upstream.messages.length = 0;
      const who = { ...gateway.headers, "x-agent-id": client.agentId };
      const opened = await post(gateway.urlOf(nameOf(generation)), who, INITIALIZE);
      expect([opened.status, opened.text].join(), opened.text).to.contain("401").and.contain("AGENT_INACTIVE");
      expect((await client.ask("resources/read", { uri: "a" })).status).to.equal(401);
      const call = await client.ask("tools/call", { name: "pay", arguments: {} });
      expect(call.status).to.equal(401);
      expect(decisionIn(call)).to.include({ decision: "block", decision_path: "revoked" });
      expect(await gateway.decisionIdsOf(client.agentId)).to.have.length(1);
      expect(upstream.messages).to.deep.equal([]);
    }
  });

  it("cannot be made to look so by a caller of the interface.", async () => {
    const agentId = await gateway.agent();
    const body = {
      agent_id: agentId,
      action_type: "older.pay",
      metadata: { refusal: { code: "X" }, keepsTrust: true },
    };
    const { decision } = (await gateway.rest("POST /v1/enforce/intercept", body)) as unknown as { decision: string };
    expect(decision).to.equal("allow");
    for (const forged of [{ keeps_trust: true }, { refusal: { code: "TOOL_UNKNOWN", message: "a" } }]) {
      const error = await gateway.rest("POST /v1/enforce/intercept", { ...body, ...forged }).catch(String);
      expect(error).to.contain("400");
    }
  });
});
