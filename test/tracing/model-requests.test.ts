import { expect } from "chai";
import { chatEvents, completion, sends, startUpstream, streams, type Upstream } from "../redaction/upstream.ts";
import type { CollectedSpan } from "./collector.ts";
import { CALLERS_SPAN, newTrace, startTraced, type Traced, traceparentIn } from "./harness.ts";

const SECRET = "S3CRETWORD";
const PERSON = "jane.roe@corp-mail.org";
const LLM_KEY = "sk-service-0123456789";
const ROUTE = "/api/redact/{workspace_id}/openai/v1";
const CHAT = { model: "test-1", messages: [{ role: "user", content: `${SECRET} of ${PERSON}` }] };

describe("spans of requests to models", () => {
  let service: Traced;
  let upstream: Upstream;
  before(async () => {
    upstream = await startUpstream();
    service = await startTraced({ ACP_LLM_URL: upstream.url, ACP_LLM_KEY: LLM_KEY });
  });
  after(async () => {
    await service?.stop();
    await upstream?.close();
  });
  beforeEach(() => {
    upstream.answer = sends(completion({ content: `${SECRET} for ${PERSON}` }));
  });

  /** Asks through the proxy; a body is posted. */
  async function ask(
    path: string,
    body: object | undefined,
    trace: Readonly<Record<string, string>>,
    signal: AbortSignal | null = null,
  ): Promise<Response> {
    const { http, adminKey } = service.gateway;
    const headers = { authorization: `Bearer ${adminKey}`, "content-type": "application/json", ...trace };
    const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
    return fetch(`${http}/api/redact/default/openai/v1${path}`, { ...init, signal });
  }

  /** Asks in a trace, reads the whole answer, and returns both spans; the second is missing if no model was asked. */
  async function spansOf(path: string, body?: object, trace = newTrace()): Promise<[CollectedSpan, CollectedSpan?]> {
    await (await ask(path, body, { traceparent: traceparentIn(trace) })).text().catch(() => undefined);
    const spans = await service.spansOf(trace, body === undefined ? "GET" : "POST");
    const server = spans.find(({ kind }) => kind === "server") as CollectedSpan;
    const client = spans.find(({ kind }) => kind === "client");
    return client === undefined ? [server] : [server, client];
  }

  /** Attributes of a span without the port, which differs. */
  const attributesOf = (span: CollectedSpan | undefined): Record<string, unknown> => {
    const { "server.port": _, ...attributes } = span?.attributes ?? {};
    return attributes;
  };

  const OPERATIONS: readonly [string, string, object | undefined, Record<string, string>][] = [
    ["chat", "/chat/completions", CHAT, { "openai.api.type": "chat_completions" }],
    ["chat", "/responses", { model: "test-1", input: SECRET }, { "openai.api.type": "responses" }],
    ["text_completion", "/completions", { model: "test-1", prompt: SECRET }, {}],
    ["embeddings", "/embeddings", { model: "test-1", input: SECRET }, {}],
    ["moderations", "/moderations", { model: "test-1", input: SECRET }, {}],
    ["models", "/models", undefined, {}],
  ];
  for (const [operation, path, body, more] of OPERATIONS) {
    it(`name operation and model of ${path}, and nothing of what was said.`, async () => {
      const [server, client] = await spansOf(path, body);
      const method = body === undefined ? "GET" : "POST";
      expect(server).to.deep.include({ name: `${method} ${ROUTE}${path}`, parentSpanId: CALLERS_SPAN, isError: false });
      expect(server.attributes).to.deep.equal({
        "http.request.method": method,
        "http.route": ROUTE + path,
        "http.response.status_code": 200,
      });
      const name = body === undefined ? operation : `${operation} test-1`;
      expect(client).to.deep.include({ name, parentSpanId: server.spanId, isError: false });
      expect(attributesOf(client)).to.deep.equal({
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "openai",
        ...(body === undefined ? {} : { "gen_ai.request.model": "test-1" }),
        ...more,
        "server.address": "127.0.0.1",
        "http.response.status_code": 200,
      });
    });
  }

  it("tell a stream and an output of JSON.", async () => {
    upstream.answer = streams(chatEvents([SECRET]));
    const format = { stream: true, response_format: { type: "json_object" } };
    const [, client] = await spansOf("/chat/completions", { ...CHAT, ...format });
    expect(client?.attributes).to.include({ "gen_ai.request.stream": true, "gen_ai.output.type": "json" });
  });

  it("name the status of a model's service that refuses.", async () => {
    upstream.answer = sends({ error: { message: SECRET } }, 429);
    const [server, client] = await spansOf("/chat/completions", CHAT);
    expect(client).to.include({ isError: true });
    expect(client?.attributes).to.include({ "error.type": "429", "http.response.status_code": 429 });
    expect(server).to.include({ isError: false });
    expect(server.attributes).to.include({ "http.response.status_code": 429 });
  });

  const FAILURES: readonly [string, Upstream["answer"]][] = [
    ["breaks off", (_, response) => response.writeHead(200, { "content-type": "application/json" }).destroy()],
    ["refuses our key", sends({ error: { message: LLM_KEY } }, 401)],
    [
      "answers with what is no JSON",
      (_, response) => response.setHeader("content-type", "application/json").end(SECRET),
    ],
  ];
  for (const [what, answer] of FAILURES) {
    it(`name the reason for a service that ${what}.`, async () => {
      upstream.answer = answer;
      const [server, client] = await spansOf("/chat/completions", CHAT);
      for (const span of [server, client]) {
        expect(span?.isError).to.equal(true);
        expect(span?.attributes).to.include({ "error.type": "LLM_UNAVAILABLE" });
      }
      expect(server.attributes).to.include({ "http.response.status_code": 502 });
    });
  }

  it("name the reason for a stream that breaks off.", async () => {
    upstream.answer = (_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(chatEvents([SECRET])[0] ?? "", () => response.destroy());
    };
    const [server, client] = await spansOf("/chat/completions", { ...CHAT, stream: true });
    for (const span of [server, client]) expect(span?.attributes).to.include({ "error.type": "LLM_UNAVAILABLE" });
  });

  it("tell that the caller left.", async () => {
    const [traceId, leaving] = [newTrace(), new AbortController()];
    upstream.answer = () => leaving.abort();
    const trace = { traceparent: traceparentIn(traceId) };
    await ask("/chat/completions", CHAT, trace, leaving.signal).catch(() => undefined);
    await service.spansOf(traceId, "chat");
    for (const span of await service.spansOf(traceId, "POST")) {
      expect(span.attributes).to.include({ "error.type": "CANCELLED" });
    }
  });

  it("show refusals of ours, for which no model is asked.", async () => {
    const [server, client] = await spansOf("/files", { purpose: SECRET });
    expect(client).to.equal(undefined);
    expect(server).to.deep.include({ name: "POST", isError: false });
    expect(server.attributes).to.deep.equal({ "http.request.method": "POST", "http.response.status_code": 404 });
  });

  it("name no model whose name could be a personal value.", async () => {
    const [, client] = await spansOf("/chat/completions", { ...CHAT, model: PERSON });
    expect(client).to.include({ name: "chat" });
    expect(client?.attributes).to.not.have.property("gen_ai.request.model");
  });

  it("name a model only if the service has answered for it: until then it is any text.", async () => {
    const model = "sk-a-key-in-the-wrong-place";
    upstream.answer = sends({ error: { message: "no such model" } }, 404);
    const [, unknown] = await spansOf("/chat/completions", { ...CHAT, model });
    expect(unknown?.name).to.equal("chat");
    expect(service.hasSent(model)).to.equal(false);
    const [, known] = await spansOf("/chat/completions", CHAT);
    expect(known?.name).to.equal("chat test-1");
    expect(known?.attributes).to.include({ "gen_ai.request.model": "test-1", "error.type": "404" });
  });

  it("are not recorded for a trace that is not sampled.", async () => {
    const [unsampled, sampled] = [newTrace(), newTrace()];
    await (await ask("/models", undefined, { traceparent: traceparentIn(unsampled, false) })).text();
    await spansOf("/models", undefined, sampled);
    expect(service.collector.spans.filter(({ traceId }) => traceId === unsampled)).to.deep.equal([]);
  });

  it("hold no key, prompt, answer or personal value.", async () => {
    expect(service.collector.spans).to.not.deep.equal([]);
    for (const text of [SECRET, PERSON, LLM_KEY, service.gateway.adminKey])
      expect(service.hasSent(text)).to.equal(false);
  });
});
