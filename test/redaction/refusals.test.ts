import { once } from "node:events";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { registerAgent } from "../../src/registry/agents.ts";
import { createKey, revokeKey } from "../../src/registry/keys.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import { until } from "../support/harness.ts";
import { openRedactionWorkspace, PERSONAL, type RedactionWorkspace, ROLES, WORKSPACE } from "./harness.ts";
import { type Answer, chatEvents, chunk, completion, sends, streams } from "./upstream.ts";

const { email } = PERSONAL;
const CHAT = "/chat/completions";
const ASK = { model: "test-1", messages: [{ role: "user", content: "hi" }] };
const MAX_BODY = 20_000;
const TIMING = { connectMs: 2_000, headersMs: 300, idleMs: 300 };

interface OpenAiError {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly code: string | null;
    readonly param: string | null;
  };
}

/** Requests that are refused before the model's service hears of them. */
const REFUSED: readonly {
  readonly description: string;
  readonly path?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly want: { readonly status: number; readonly code: string; readonly type: string; readonly param?: string };
}[] = [
  {
    description: "a body that is no JSON",
    body: '{"model": ',
    want: { status: 400, code: "MALFORMED_JSON", type: "invalid_request_error" },
  },
  {
    description: "a form, as files are sent",
    body: "--x",
    headers: { "content-type": "multipart/form-data; boundary=x" },
    want: { status: 415, code: "UNSUPPORTED_MEDIA_TYPE", type: "invalid_request_error" },
  },
  {
    description: "a compressed body",
    body: ASK,
    headers: { "content-encoding": "gzip" },
    want: { status: 415, code: "UNSUPPORTED_MEDIA_TYPE", type: "invalid_request_error" },
  },
  {
    description: "a body that is too large",
    body: { ...ASK, user: "x".repeat(MAX_BODY) },
    want: { status: 413, code: "BODY_TOO_LARGE", type: "invalid_request_error" },
  },
  {
    description: "a body that nests too deeply",
    body: `{"input":${"[".repeat(9_900)}${"]".repeat(9_900)}}`,
    want: { status: 400, code: "BODY_TOO_DEEP", type: "invalid_request_error" },
  },
  {
    description: "an image in a message",
    body: { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }] },
    want: { status: 400, code: "NOT_SCRUBBABLE", type: "invalid_request_error", param: "messages[0].content[0]" },
  },
  {
    description: "a wish for audio",
    body: { ...ASK, audio: { voice: "alloy", format: "wav" } },
    want: { status: 400, code: "NOT_SCRUBBABLE", type: "invalid_request_error", param: "audio" },
  },
  {
    description: "text as numbers of tokens",
    path: "/embeddings",
    body: { model: "e-1", input: [[1, 2, 3]] },
    want: { status: 400, code: "NOT_SCRUBBABLE", type: "invalid_request_error", param: "input" },
  },
  {
    description: "a query",
    path: `${CHAT}?after=${encodeURIComponent(email)}`,
    body: {},
    want: { status: 400, code: "INVALID_FIELD", type: "invalid_request_error", param: "query" },
  },
  {
    description: "a path that climbs",
    path: "/x/..%5cadmin",
    body: {},
    want: { status: 404, code: "ROUTE_NOT_FOUND", type: "not_found_error" },
  },
  {
    description: "a path that is not percent-encoded text",
    path: "/models/%ff",
    body: {},
    want: { status: 400, code: "INVALID_FIELD", type: "invalid_request_error", param: "path" },
  },
  {
    description: "an authorization of another scheme",
    body: ASK,
    headers: { authorization: "Basic YTpi" },
    want: { status: 400, code: "INVALID_FIELD", type: "invalid_request_error", param: "authorization" },
  },
  {
    description: "a key that is none",
    body: ASK,
    headers: { authorization: "Bearer acp_wrong" },
    want: { status: 401, code: "KEY_INVALID", type: "authentication_error" },
  },
  {
    description: "no key",
    body: ASK,
    headers: { authorization: "" },
    want: { status: 401, code: "KEY_MISSING", type: "authentication_error" },
  },
];

/** Answers of the model's service that nothing is passed on of. */
const UNFIT: readonly { readonly description: string; readonly path?: string; readonly answer: Answer }[] = [
  {
    description: "a redirect",
    answer: (_asked, response) => response.writeHead(307, { location: "http://127.0.0.1:1/" }).end(),
  },
  {
    description: "sound",
    answer: (_asked, response) => response.writeHead(200, { "content-type": "audio/mpeg" }).end("x"),
  },
  {
    description: "an image in JSON",
    answer: sends({ data: [{ b64_json: "AAAA" }] }),
  },
  {
    description: "JSON that is none",
    answer: (_asked, response) => response.writeHead(200, { "content-type": "application/json" }).end(`{"${email}`),
  },
  { description: "an unknown encoding", answer: sends({}, 200, { "content-encoding": "compress" }) },
  { description: "a stream that nobody knows", path: "/embeddings", answer: streams(chatEvents([email])) },
  {
    description: "half of an answer",
    answer: (_asked, response) => {
      response.writeHead(200, { "content-type": "application/json", "content-length": "100" });
      response.write(`{"a":"${email}`, () => response.destroy());
    },
  },
  { description: "nothing in time", answer: () => undefined },
];

const ENCODINGS: readonly [string, (text: string) => Buffer][] = [
  ["gzip", gzipSync],
  ["deflate", deflateSync],
  ["br", brotliCompressSync],
  ["zstd", zstdCompressSync],
];

/** A reason as the code of OpenAI's form. */
const codeOf = (reason: string): string => reason.toLowerCase();

describe("the redaction proxy refuses", () => {
  let workspace: RedactionWorkspace;
  before(async () => {
    workspace = await openRedactionWorkspace({ maxBodyBytes: MAX_BODY, timing: TIMING });
  });
  after(() => workspace?.close());
  beforeEach(() => {
    workspace.upstream.asked.length = 0;
    workspace.upstream.answer = sends(completion({ content: "fine" }));
  });

  for (const { description, path = CHAT, body, headers, want } of REFUSED) {
    it(`${description}, in OpenAI's form.`, async () => {
      const response = await workspace.post(path, body, headers);
      const { error } = (await response.json()) as OpenAiError;
      const { status, param = null, code, type } = want;
      expect(response.status).to.equal(status);
      expect(error)
        .to.include({ code: codeOf(code), type, param })
        .and.to.have.all.keys("message", "type", "param", "code");
      expect(JSON.stringify(error)).not.to.include(email);
      expect(workspace.upstream.asked).to.deep.equal([]);
    });
  }

  for (const { description, path = CHAT, answer } of UNFIT) {
    it(`to pass on ${description}.`, async () => {
      workspace.upstream.answer = answer;
      const response = await workspace.post(path, ASK);
      const text = await response.text();
      expect(response.status, text).to.equal(502);
      expect((JSON.parse(text) as OpenAiError).error).to.include({
        code: codeOf("LLM_UNAVAILABLE"),
        type: "server_error",
      });
      expect(text).not.to.include(email);
    });
  }

  it("another workspace than the key's, an unknown method, and everything while no model is configured.", async () => {
    const { baseUrl, key } = workspace;
    const headers = { authorization: `Bearer ${key}` };
    await createWorkspace({ database: workspace.database, nowMs: Date.now(), by: "system" }, { workspaceId: "other" });
    for (const other of ["other", "none"]) {
      const response = await fetch(`${baseUrl.replace(`/${WORKSPACE}/`, `/${other}/`)}/models`, { headers });
      expect(response.status).to.equal(404);
      expect(((await response.json()) as OpenAiError).error.code).to.equal("workspace_not_found");
    }
    expect((await fetch(`${baseUrl}/models`, { method: "PUT", headers })).status).to.equal(405);
    const without = await workspace.process({ llmUrl: undefined });
    const response = await fetch(`${without.baseUrl}/models`, { headers });
    expect(response.status).to.equal(400);
    const { error } = (await response.json()) as OpenAiError;
    expect(error.code).to.equal(codeOf("LLM_NOT_CONFIGURED"));
    expect(workspace.upstream.asked).to.deep.equal([]);
  });

  it("bodies past the bytes that its requests in flight may hold, and takes more once they are done.", async () => {
    const narrow = await workspace.process({ maxHeldBytes: 20_000 });
    const ask = { ...ASK, user: "x ".repeat(2_000) };
    let answer: () => void = () => undefined;
    const asked = new Promise<void>((resolve) => {
      workspace.upstream.answer = (each, response) => {
        answer = () => void sends(completion({ content: "fine" }))(each, response);
        resolve();
      };
    });
    const first = narrow.post(CHAT, ask);
    await asked;
    const second = await narrow.post(CHAT, ask);
    expect(second.status).to.equal(429);
    expect(second.headers.get("retry-after")).to.equal("1");
    const { error } = (await second.json()) as OpenAiError;
    expect(error.code).to.equal("overloaded");
    expect(error.message).to.match(
      /^the workspace holds \d+ bytes of requests to models in this process, and its share is 10000 at the moment; send less at once, or retry in 1 s$/,
    );
    answer();
    expect((await first).status).to.equal(200);
    workspace.upstream.answer = sends(completion({ content: "fine" }));
    expect((await narrow.post(CHAT, ask)).status).to.equal(200);
  });

  it("auditors, and agents that were deactivated.", async () => {
    for (const role of ROLES) {
      const response = await workspace.post(CHAT, ASK, { authorization: `Bearer ${await workspace.keyOf(role)}` });
      expect(response.status, Role[role]).to.equal(role === Role.AUDITOR ? 403 : 200);
    }
    const log = await workspace.logs.of(WORKSPACE);
    const draft = { name: "a", framework: "", description: "", capabilities: [], allowedActionTypes: [] };
    const { agentId } = await registerAgent(log, "key_test", { ...draft, deniedActionTypes: [] });
    const key = await workspace.keyOf(Role.AGENT, agentId);
    expect((await workspace.post(CHAT, ASK, { "x-api-key": key })).status).to.equal(200);
    await log.change("key_test", async ({ seal }) => seal({ type: "agent_deactivated", agent_id: agentId }));
    const refused = await workspace.post(CHAT, ASK, { "x-api-key": key });
    expect(((await refused.json()) as OpenAiError).error.code).to.equal("agent_inactive");
  });
});

describe("the redaction proxy", () => {
  let workspace: RedactionWorkspace;
  before(async () => {
    workspace = await openRedactionWorkspace({ llmKey: "sk-own", timing: { ...TIMING, headersMs: 5_000 } });
  });
  after(() => workspace?.close());
  beforeEach(() => {
    workspace.upstream.asked.length = 0;
    workspace.upstream.answer = sends(completion({ content: `see ${email}` }));
  });

  it("sends its own key up for callers that bring ours alone, and the caller's own when there are both.", async () => {
    const { key } = workspace;
    const cases: readonly [Record<string, string>, string, string | undefined][] = [
      [{}, "Bearer sk-own", undefined],
      [{ "x-api-key": key, authorization: "Bearer sk-caller" }, "Bearer sk-caller", "org-1"],
      [{ "x-api-key": key, authorization: `Bearer ${key}` }, "Bearer sk-own", undefined],
      [{ "x-api-key": key, authorization: `Bearer ${await workspace.keyOf(Role.ADMIN)}` }, "Bearer sk-own", undefined],
    ];
    for (const [headers, authorization, organization] of cases) {
      await workspace.post(CHAT, ASK, { ...headers, cookie: "a=b", "openai-organization": "org-1" });
      const { headers: asked } = workspace.upstream.asked.at(-1) as { headers: Record<string, string> };
      expect(asked).to.include({ authorization, "accept-encoding": "identity" });
      expect(asked["openai-organization"]).to.equal(organization);
      expect(asked).not.to.have.any.keys("x-api-key", "cookie");
      expect(JSON.stringify(asked)).not.to.include(key);
    }
  });

  for (const [encoding, compress] of ENCODINGS) {
    it(`scrubs an answer in ${encoding}, whole and streamed.`, async () => {
      const headers = { "content-encoding": encoding };
      workspace.upstream.answer = (_asked, response) =>
        response
          .writeHead(200, { "content-type": "application/json", ...headers })
          .end(compress(JSON.stringify(completion({ content: `see ${email}` }))));
      expect(await (await workspace.post(CHAT, ASK)).text()).to.include('"see [EMAIL]"');
      workspace.upstream.answer = streams(
        [compress(chatEvents([email.slice(0, 6), email.slice(6)]).join(""))],
        headers,
      );
      const text = await (await workspace.post(CHAT, { ...ASK, stream: true })).text();
      expect(text).to.include("[EMAIL]").and.to.include("[DONE]").and.not.to.include(email.slice(6));
    });
  }

  it("ends the request to the model's service when the caller goes away.", async () => {
    workspace.upstream.answer = (_asked, response) =>
      response.writeHead(200, { "content-type": "text/event-stream" }).write("\n");
    const leaving = new AbortController();
    const response = await fetch(workspace.baseUrl + CHAT, {
      method: "POST",
      body: JSON.stringify({ ...ASK, stream: true }),
      signal: leaving.signal,
      headers: { "content-type": "application/json", authorization: `Bearer ${workspace.key}` },
    });
    expect(response.status).to.equal(200);
    leaving.abort();
    await workspace.upstream.asked[0]?.gone;
  });

  it("reads no faster than the caller does.", async () => {
    const big = "x ".repeat(32_768);
    let written = 0;
    workspace.upstream.answer = async (asked, response) => {
      if (!asked.path.endsWith(CHAT)) return sends({})(asked, response);
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (; written < 1_000; written++) {
        if (!response.write(chatEvents([big])[1])) await once(response, "drain");
      }
      response.end("data: [DONE]\n\n");
    };
    const response = await workspace.post(CHAT, { ...ASK, stream: true });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    // As long as others are served, the model's service could go on; it does until what lies between is full.
    for (let [stalled, before] = [0, -1]; stalled < 10; stalled = written === before ? stalled + 1 : 0) {
      before = written;
      await (await workspace.post("/embeddings", { input: "x" })).text();
    }
    expect(written).to.be.below(900);
    await reader.cancel();
  });

  it("passes the errors of the model's service on, with what says when to try again.", async () => {
    const body = { error: { message: `slow down ${email}`, type: "rate_limit", code: "x", param: null } };
    workspace.upstream.answer = sends(body, 429, { "retry-after": "7", "set-cookie": "a=b" });
    const response = await workspace.post(CHAT, ASK);
    expect(response.status).to.equal(429);
    expect(response.headers.get("retry-after")).to.equal("7");
    expect(response.headers.get("set-cookie")).to.equal(null);
    const { error } = (await response.json()) as OpenAiError;
    expect(error.message).to.equal("slow down [EMAIL]");
    workspace.upstream.answer = (_asked, answer) =>
      answer.writeHead(503, { "content-type": "text/html" }).end(`<b>${email}</b>`);
    const plain = await workspace.post(CHAT, ASK);
    expect(plain.status).to.equal(503);
    expect(((await plain.json()) as OpenAiError).error).to.deep.equal({
      message: "<b>[EMAIL]</b>",
      type: "server_error",
      param: null,
      code: null,
    });
  });

  it("lets media pass where the workspace allows it.", async () => {
    const settings = { restoreValues: false, allowMedia: true, disabledKinds: [], allow: [] };
    await workspace.redaction.putSettings(workspace.caller, settings);
    const part = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
    const response = await workspace.post(CHAT, {
      model: "m",
      messages: [{ role: "user", content: [part, { type: "text", text: email }] }],
    });
    expect(response.status).to.equal(200);
    const [asked] = JSON.parse(workspace.upstream.asked[0]?.body ?? "{}").messages;
    expect(asked.content[0]).to.deep.equal(part);
    expect(asked.content[1].text).to.match(/^\[EMAIL_1_/);
  });
});

describe("an answer of the model whose caller's key ends", () => {
  let workspace: RedactionWorkspace;
  before(async () => {
    workspace = await openRedactionWorkspace({ llmKey: "sk-upstream-key" });
  });
  after(() => workspace?.close());

  async function askWith(isStream: boolean) {
    const log = await workspace.logs.of(WORKSPACE);
    const { key, secret } = await createKey(log, "key_test", { name: "test", role: Role.OPERATOR, agentId: null });
    let gone: Promise<unknown> | undefined;
    workspace.upstream.answer = (asked, response) => {
      gone = asked.gone;
      response.writeHead(200, { "content-type": isStream ? "text/event-stream" : "application/json" });
      response.write(isStream ? chunk({ role: "assistant", content: "It goes on. " }) : "{");
    };
    const headers = { authorization: `Bearer ${secret}` };
    const asked = workspace.post("/chat/completions", { model: "test-1", messages: [], stream: isStream }, headers);
    await until(async () => gone !== undefined);
    return { asked, end: () => revokeKey(log, "key_test", key.keyId), gone: () => gone };
  }

  it("is cut while it streams, with the reason, and the model's service hears of it.", async () => {
    const { asked, end, gone } = await askWith(true);
    const response = await asked;
    await end();
    expect(await response.text())
      .to.contain("It goes on.")
      .and.to.contain("key_invalid");
    await gone();
  });

  it("is refused when it comes whole.", async () => {
    const { asked, end, gone } = await askWith(false);
    await end();
    const response = await asked;
    expect([response.status, await response.text()].join())
      .to.contain("401")
      .and.to.match(/key_invalid/i);
    await gone();
  });
});
