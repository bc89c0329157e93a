import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { expect } from "chai";
import { type GatewayService, startGateway } from "../gateway/harness.ts";
import { openRaw } from "../gateway/raw-client.ts";
import { type RecordingServer, startRecordingServer } from "../gateway/recording-server.ts";
import { until } from "../gateway/until.ts";
import { completion, sends, startUpstream, type Upstream } from "../redaction/upstream.ts";
import { CALLERS_SPAN, newTrace, startTraced, traceparentIn } from "./harness.ts";

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: Readonly<Record<string, unknown>>;
}

const FORBIDDEN = "forbidden words";
const LEAK = "jane.roe@corp-mail.org";
const STATE = "vendor=1";

for (const mode of ["with spans", "without spans"] as const) {
  describe(`the trace of a caller, ${mode},`, () => {
    let gateway: GatewayService;
    let stop: () => Promise<void>;
    let mcp: RecordingServer;
    let upstream: Upstream;
    const guarded: Received[] = [];
    const hooked: Received[] = [];
    /** Answers as the guard's model, and as a receiver of webhooks. */
    const peer = createServer(async (request, response) => {
      const list = request.url?.startsWith("/v1") ? guarded : hooked;
      const body = (await json(request)) as Received["body"];
      list.push({ headers: request.headers, body });
      const violates = JSON.stringify(body).includes(FORBIDDEN);
      const content = JSON.stringify({ violates, confidence: 0.9, reason: "as it says" });
      const completed = { choices: [{ message: { role: "assistant", content }, finish_reason: "stop" }] };
      response.setHeader("content-type", "application/json").end(JSON.stringify(completed));
    });
    before(async () => {
      await new Promise<void>((resolve) => peer.listen(0, "127.0.0.1", resolve));
      const url = `http://127.0.0.1:${(peer.address() as AddressInfo).port}`;
      mcp = await startRecordingServer();
      upstream = await startUpstream(sends(completion({ content: LEAK })));
      const env = {
        ACP_GUARD_URL: `${url}/v1`,
        ACP_GUARD_MODEL: "judge",
        ACP_LLM_URL: upstream.url,
        ACP_LLM_KEY: "sk-service",
        ACP_WEBHOOK_ALLOW: "127.0.0.0/8",
      };
      if (mode === "with spans") ({ gateway, stop } = await startTraced(env));
      else {
        gateway = await startGateway({ env });
        stop = async () => void (await gateway.stop());
      }
      await gateway.add("shop", { url: mcp.url });
      const rules = [
        { type: "semantic", decision: "block", conditions: { prompt: "says bad words", min_confidence: 0.5 } },
      ];
      await gateway.rest("POST /v1/enforce/mandates", { name: "asks", rules });
      await gateway.rest("POST /v1/enforce/webhooks", { url: `${url}/hook`, events: ["decision.blocked"] });
      await gateway.rest("POST /api/redact/default/webhooks", { url: `${url}/leak` });
    });
    after(async () => {
      await stop?.();
      await mcp?.close();
      await upstream?.close();
      peer.close();
    });

    type Trace = Readonly<Record<string, string>>;

    /** Makes a decision that asks the guard and blocks, and returns the headers of the question and of the webhook. */
    async function blocked(trace: Trace): Promise<{ question: IncomingHttpHeaders; webhook: IncomingHttpHeaders }> {
      const body = JSON.stringify({ agent_id: await gateway.agent(), action_type: "say", action_content: FORBIDDEN });
      const headers = { "x-api-key": gateway.adminKey, "content-type": "application/json", ...trace };
      const response = await fetch(`${gateway.http}/v1/enforce/intercept`, { method: "POST", headers, body });
      const { decision_id: id } = (await response.json()) as { decision_id: string };
      const sent = () => hooked.find((each) => (each.body.data as { decision_id?: string })?.decision_id === id);
      await until(() => sent() !== undefined);
      return { question: guarded.at(-1)?.headers ?? {}, webhook: sent()?.headers ?? {} };
    }

    async function askModel(trace: Trace): Promise<{ model: IncomingHttpHeaders; notice: IncomingHttpHeaders }> {
      const seen = hooked.length;
      const body = JSON.stringify({ model: "test-1", messages: [{ role: "user", content: "hi" }] });
      const headers = { authorization: `Bearer ${gateway.adminKey}`, "content-type": "application/json", ...trace };
      const url = `${gateway.http}/api/redact/default/openai/v1/chat/completions`;
      await (await fetch(url, { method: "POST", headers, body })).text();
      await until(() => hooked.length > seen);
      return { model: upstream.asked.at(-1)?.headers ?? {}, notice: hooked.at(-1)?.headers ?? {} };
    }

    async function callTool(trace: Trace, meta?: object): Promise<{ headers: IncomingHttpHeaders; meta: object }> {
      const client = await openRaw(gateway, "shop", "with sessions");
      await client.ask("tools/call", { name: "pay", arguments: {}, ...(meta && { _meta: meta }) }, trace);
      const { _meta = {} } = (mcp.messages.at(-1)?.params ?? {}) as { _meta?: object };
      return { headers: mcp.headers.at(-1) ?? {}, meta: _meta };
    }

    /** Every header with a trace context that a call in a trace led to. */
    async function passedIn(trace: Trace): Promise<Readonly<Record<string, IncomingHttpHeaders>>> {
      return { ...(await blocked(trace)), ...(await askModel(trace)), mcp: (await callTool(trace)).headers };
    }

    it("goes on to models, MCP servers and webhooks.", async () => {
      const traceId = newTrace();
      const passed = await passedIn({ traceparent: traceparentIn(traceId), tracestate: STATE, baggage: "user=jane" });
      for (const [to, { traceparent, baggage }] of Object.entries(passed)) {
        expect(traceparent, to).to.match(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
        expect(baggage, to).to.equal(undefined);
        if (mode === "without spans") expect(traceparent, to).to.equal(traceparentIn(traceId));
        else expect(traceparent, to).to.not.include(CALLERS_SPAN);
      }
      expect(passed.mcp?.tracestate).to.equal(STATE);
      for (const to of ["model", "question", "webhook", "notice"])
        expect(passed[to]?.tracestate, to).to.equal(undefined);
    });

    it("goes on as not sampled if the caller does not sample it.", async () => {
      const traceId = newTrace();
      const passed = await passedIn({ traceparent: traceparentIn(traceId, false) });
      for (const [to, { traceparent }] of Object.entries(passed)) {
        expect(traceparent, to).to.equal(traceparentIn(traceId, false));
      }
    });

    it("goes nowhere if it is malformed, nor does its tracestate.", async () => {
      const traceId = newTrace();
      const passed = await passedIn({ traceparent: `00-${traceId}-0-01`, tracestate: STATE });
      for (const [to, { traceparent, tracestate }] of Object.entries(passed)) {
        expect(traceparent ?? "", to).to.not.include(traceId);
        expect(tracestate, to).to.equal(undefined);
        if (mode === "without spans") expect(traceparent, to).to.equal(undefined);
      }
      const { meta } = await callTool({}, { traceparent: `00-${traceId}-0-01`, tracestate: STATE });
      expect(JSON.stringify(meta)).to.not.include(traceId).and.not.include(STATE);
    });
  });
}
