import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import type { GatewayService } from "../gateway/harness.ts";
import { type RecordingServer, startRecordingServer } from "../gateway/recording-server.ts";
import { until } from "../gateway/until.ts";
import type { Collector } from "./collector.ts";
import { named, newTrace, CALLERS_SPAN as SPAN, startTraced, type Traced, traceparentIn } from "./harness.ts";
import { callWithTrace, PLACES } from "./traced-calls.ts";

const SECRET = "DE89370400440532013000";
const VERDICT = { violates: false, confidence: 0.9, reason: "fine" };

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("spans of the service", () => {
  let service: Traced;
  let collector: Collector;
  let gateway: GatewayService;
  let mcp: RecordingServer;
  const peer = createServer((request, response) => {
    request.resume();
    const content = JSON.stringify(VERDICT);
    const completion = { choices: [{ message: { role: "assistant", content }, finish_reason: "stop" }] };
    response.setHeader("content-type", "application/json").end(JSON.stringify(completion));
  });
  before(async () => {
    mcp = await startRecordingServer();
    mcp.tools = [{ name: "pay", inputSchema: { type: "object" } }];
    const model = { ACP_GUARD_URL: `${await listening(peer)}/v1`, ACP_GUARD_MODEL: "judge" };
    service = await startTraced({ ...model, ACP_WEBHOOK_ALLOW: "127.0.0.0/8" });
    ({ collector, gateway } = service);
    await gateway.add("shop", { url: mcp.url });
  });
  after(async () => {
    await service?.stop();
    await mcp?.close();
    peer.close();
  });

  const spansOf: Traced["spansOf"] = (traceId, name) => service.spansOf(traceId, name);

  for (const place of PLACES) {
    it(`continue the trace of the caller, and say nothing of arguments: ${place}.`, async () => {
      const traceId = newTrace();
      const agentId = await gateway.agent();
      const trace = { traceparent: traceparentIn(traceId), tracestate: "vendor=1" };
      await callWithTrace(gateway, "shop", place, agentId, trace, SECRET);
      await spansOf(traceId, "agentcontrol.decide");
      // A stream ends after the decision on its message.
      await until(async () => collector.spans.some((span) => span.traceId === traceId && span.parentSpanId === SPAN));
      const spans = await spansOf(traceId, "agentcontrol.append");
      const [server] = spans.filter(({ parentSpanId }) => parentSpanId === SPAN);
      expect(server).to.deep.include({ kind: "server", traceState: "vendor=1" });
      expect(named(spans, "agentcontrol.decide").attributes).to.deep.include({
        "agentcontrol.decision": "allow",
        "agentcontrol.decision_path": "default",
        "gen_ai.agent.id": agentId,
      });
      expect(named(spans, "agentcontrol.append").parentSpanId).to.equal(named(spans, "agentcontrol.decide").spanId);
      expect(service.hasSent(SECRET)).to.equal(false);
    });
  }

  it("name the call as the conventions of RPC do.", async () => {
    for (const [place, system, status] of [
      ["rest", "rest", "NOT_FOUND"],
      ["connect", "connectrpc", "not_found"],
      ["grpc-web", "grpc", "NOT_FOUND"],
      ["grpc", "grpc", "NOT_FOUND"],
    ] as const) {
      const traceId = newTrace();
      const method = "agentcontrol.v1.EnforcementService/Intercept";
      const trace = { traceparent: traceparentIn(traceId) };
      await callWithTrace(gateway, "shop", place, "agt_nobody", trace).catch(() => undefined);
      const span = named(await spansOf(traceId, method), method);
      const wanted = { "rpc.system.name": system, "rpc.method": method, "rpc.status_code": status };
      expect(span.attributes).to.deep.include(wanted);
      expect(span.isError).to.equal(false);
    }
  });

  it("of a trace that is not sampled are not recorded, nor are the requests that it makes.", async () => {
    const unsampled = newTrace();
    const agentId = await gateway.agent();
    for (const place of PLACES) {
      await callWithTrace(gateway, "shop", place, agentId, { traceparent: traceparentIn(unsampled, false) });
    }
    expect(mcp.messages.at(-1)?.params).to.have.nested.property("_meta.traceparent", traceparentIn(unsampled, false));
    const later = newTrace();
    await callWithTrace(gateway, "shop", "rest", agentId, { traceparent: traceparentIn(later) });
    await spansOf(later, "agentcontrol.v1");
    expect(collector.spans.filter(({ traceId }) => traceId === unsampled)).to.deep.equal([]);
  });

  it("reach MCP servers as the parent of theirs.", async () => {
    const traceId = newTrace();
    const agentId = await gateway.agent();
    await callWithTrace(gateway, "shop", "mcp _meta", agentId, { traceparent: traceparentIn(traceId) });
    // The span of the call to us ends after that of the call to the server, and may be sent later.
    await until(async () => collector.spans.some((span) => span.traceId === traceId && span.parentSpanId === SPAN));
    const spans = await spansOf(traceId, "tools/call pay");
    const { attributes, kind, spanId, parentSpanId } = named(spans, "tools/call pay");
    expect(kind).to.equal("client");
    expect(attributes).to.deep.include({
      "mcp.method.name": "tools/call",
      "gen_ai.tool.name": "pay",
      "gen_ai.operation.name": "execute_tool",
      "network.transport": "tcp",
    });
    const [server] = spans.filter((span) => span.parentSpanId === SPAN);
    expect(parentSpanId).to.equal(server?.spanId);
    const traceparent = `00-${traceId}-${spanId}-01`;
    expect(mcp.messages.at(-1)?.params).to.have.nested.property("_meta.traceparent", traceparent);
    expect(mcp.headers.at(-1)).to.include({ traceparent });
  });

  it("name the model that was asked, and not the question.", async () => {
    const rule = {
      type: "semantic",
      decision: "block",
      conditions: { prompt: "pays nobody PROMPTED", min_confidence: 0.5 },
    };
    await gateway.rest("POST /v1/enforce/mandates", { name: "asks", rules: [rule] });
    const traceId = newTrace();
    const agentId = await gateway.agent();
    await callWithTrace(gateway, "shop", "rest", agentId, { traceparent: traceparentIn(traceId) }, SECRET);
    const spans = await spansOf(traceId, "agentcontrol.decide");
    const span = named(spans, "chat judge");
    expect(span).to.deep.include({ kind: "client", parentSpanId: named(spans, "agentcontrol.decide").spanId });
    const { "server.port": _, ...attributes } = span.attributes;
    expect(attributes).to.deep.equal({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "judge",
      "server.address": "127.0.0.1",
    });
    expect(service.hasSent("PROMPTED") || service.hasSent(SECRET)).to.equal(false);
  });

  it("name the host of a webhook alone.", async () => {
    const url = `http://127.0.0.1:${(peer.address() as AddressInfo).port}/hooks/T0KEN`;
    const made = await gateway.rest("POST /v1/enforce/webhooks", { url, events: ["agent.revoked"] });
    const { webhook } = made as unknown as { webhook: { webhook_id: string } };
    await gateway.rest(`POST /v1/enforce/webhooks/${webhook.webhook_id}:test`, {});
    await until(async () => collector.spans.some(({ name }) => name === "POST"));
    expect(collector.spans.find(({ name }) => name === "POST")?.attributes).to.deep.equal({
      "http.request.method": "POST",
      "server.address": "127.0.0.1",
      "http.response.status_code": 200,
    });
    expect(service.hasSent("T0KEN")).to.equal(false);
  });

  it("of a call without a trace begin one, which its receipt names.", async () => {
    const agentId = await gateway.agent();
    await callWithTrace(gateway, "shop", "rest", agentId, {});
    const [decisionId] = await gateway.decisionIdsOf(agentId);
    const { receipt } = await gateway.rest(`GET /v1/enforce/decisions/${decisionId}`);
    const { trace_id: traceId } = receipt as unknown as { trace_id: string };
    const spans = await spansOf(traceId, "agentcontrol.v1");
    expect(named(spans, "agentcontrol.v1").parentSpanId).to.equal("");
  });
});
