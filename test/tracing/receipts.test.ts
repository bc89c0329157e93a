import { expect } from "chai";
import { type GatewayService, startGateway } from "../gateway/harness.ts";
import { type RecordingServer, startRecordingServer } from "../gateway/recording-server.ts";
import { callWithTrace, PLACES } from "./traced-calls.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const TRACEPARENT = `00-${TRACE}-b7ad6b7169203331-01`;

describe("receipts of actions within a trace", () => {
  let gateway: GatewayService;
  let server: RecordingServer;
  before(async () => {
    gateway = await startGateway();
    server = await startRecordingServer();
    server.tools = [{ name: "pay", inputSchema: { type: "object" } }];
    await gateway.add("shop", { url: server.url });
  });
  after(async () => {
    await gateway?.stop();
    await server?.close();
  });

  /** The newest receipt of an agent. */
  async function receiptOf(agentId: string): Promise<{ trace_id: string | null; canonical_body: string }> {
    const [decisionId] = await gateway.decisionIdsOf(agentId);
    const { receipt } = await gateway.rest(`GET /v1/enforce/decisions/${decisionId}`);
    return receipt as never;
  }

  for (const place of PLACES) {
    it(`name the trace that came in: ${place}.`, async () => {
      const agentId = await gateway.agent();
      await callWithTrace(gateway, "shop", place, agentId, { traceparent: TRACEPARENT, tracestate: "a=b" });
      const { trace_id, canonical_body } = await receiptOf(agentId);
      expect(trace_id).to.equal(TRACE);
      expect(JSON.parse(canonical_body)).to.have.property("trace_id", TRACE);
    });

    it(`name none for a malformed context, which is no fault: ${place}.`, async () => {
      const agentId = await gateway.agent();
      await callWithTrace(gateway, "shop", place, agentId, { traceparent: `00-${TRACE}-0-01`, tracestate: "=" });
      const { trace_id, canonical_body } = await receiptOf(agentId);
      expect(trace_id).to.equal(null);
      expect(JSON.parse(canonical_body)).to.not.have.property("trace_id");
    });
  }

  it("stay the first ones for a repeat in another trace.", async () => {
    const agentId = await gateway.agent();
    const body = { agent_id: agentId, action_type: "pay", action_content: "x", request_id: crypto.randomUUID() };
    const ask = async (traceparent: string) => {
      const headers = { "x-api-key": gateway.adminKey, "content-type": "application/json", traceparent };
      const init = { method: "POST", headers, body: JSON.stringify(body) };
      return (await fetch(`${gateway.http}/v1/enforce/intercept`, init)).json() as Promise<{ replayed?: boolean }>;
    };
    await ask(TRACEPARENT);
    expect((await ask(TRACEPARENT.replace("0af", "1af"))).replayed).to.equal(true);
    expect((await receiptOf(agentId)).trace_id).to.equal(TRACE);
  });

  it("name no trace that a caller of MCP sends beyond the bounds, and neither does the server get it.", async () => {
    const agentId = await gateway.agent();
    server.messages.length = 0;
    const long = { traceparent: `${TRACEPARENT}-${"x".repeat(9_000)}`, tracestate: `a=${"b".repeat(600)}` };
    await callWithTrace(gateway, "shop", "mcp _meta", agentId, { ...long, baggage: "c".repeat(9_000) });
    expect(server.messages.at(-1)?.params).to.have.deep.property("_meta", {});
    await callWithTrace(gateway, "shop", "mcp header", agentId, { tracestate: long.tracestate });
    expect(server.headers.at(-1)).to.not.have.any.keys("traceparent", "tracestate");
  });
});
