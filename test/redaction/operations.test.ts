import { request } from "node:http";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { registerAgent } from "../../src/registry/agents.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { openRedactionWorkspace, PERSONAL, type RedactionWorkspace, WORKSPACE } from "./harness.ts";
import { completion, sends } from "./upstream.ts";

const CASES = 1_000;
const LLM_KEY = "sk-own-0123456789";
const METHODS = ["GET", "POST", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
const SERVED =
  /^(POST \/v1\/(chat\/completions|completions|responses|embeddings|moderations)|GET \/v1\/models(\/\w[\w.:-]*){0,4})$/;
const SEGMENTS = [
  "chat",
  "completions",
  "responses",
  "embeddings",
  "moderations",
  "models",
  "files",
  "file-1",
  "resp_1",
  "gpt-5",
  "organization",
  "admin_api_keys",
  "vector_stores",
  "assistants",
  "threads",
  "batches",
  "uploads",
  "v1",
  "..",
  ".",
  "",
  ";",
  "..;",
  "%00",
  "%2e%2e",
  "%252e%252e",
  "%5c",
  "..%5c",
  "%2f",
  "..%2f",
  "%252f",
  "%23",
  "%3f",
  "\\",
  "%0d%0a",
  "c%68at",
  "c%2568at",
  "COMPLETIONS",
  "completions%20",
  "completions;a=b",
  "models%00",
  "%ef%bc%8f",
  "%c0%af",
];
const QUERIES = ["", "", "", "", "", "", "?", "?limit=2", "?../../files", "?%2f"];
const HEADERS = [
  "accept",
  "user-agent",
  "openai-organization",
  "openai-project",
  "openai-beta",
  "idempotency-key",
  "cookie",
  "x-stainless-lang",
  "x-stainless-os",
  "x-forwarded-for",
  "referer",
  "origin",
  "proxy-authorization",
  "api-key",
  "x-acp-key",
  "forwarded",
  "x-request-id",
  "traceparent",
  "openai-api-key",
  "authorization-2",
  "x-stainless-helper",
];

/** Sends a request as it is spelt: `fetch` would resolve its path. */
async function send(
  url: string,
  path: string,
  method: string,
  headers: Record<string, string>,
  body: string | undefined,
): Promise<{ readonly status: number; readonly text: string; readonly headers: string }> {
  const { hostname, port, pathname } = new URL(url);
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path: pathname + path, method, headers, agent: false }, async (response) => {
      resolve({
        status: response.statusCode ?? 0,
        text: await text(response),
        headers: JSON.stringify(response.headers),
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

describe("the model's account", () => {
  let workspace: RedactionWorkspace;
  let agentId: string;
  before(async () => {
    workspace = await openRedactionWorkspace({ llmKey: LLM_KEY });
    const log = await workspace.logs.of(WORKSPACE);
    const draft = { name: "a", framework: "", description: "", capabilities: [], allowedActionTypes: [] };
    agentId = (await registerAgent(log, "key_test", { ...draft, deniedActionTypes: [] })).agentId;
  });
  after(() => workspace?.close());

  it(`is reached by no other operation and sees none of our keys, for ${CASES} generated paths and headers.`, async () => {
    const below = seededBelow(7);
    const pick = <T>(items: readonly T[]): T => items[below(items.length)] as T;
    const secrets = [workspace.key, await workspace.keyOf(Role.OPERATOR), await workspace.keyOf(Role.AGENT, agentId)];
    workspace.upstream.answer = sends({ ...completion({ content: `mine is ${LLM_KEY}` }) }, 200, {
      "openai-organization": "org-of-the-service",
      "openai-version": LLM_KEY,
      "x-ratelimit-limit": "3",
    });
    workspace.upstream.asked.length = 0;
    let served = 0;
    for (let index = 0; index < CASES; index++) {
      const depth = 1 + below(4);
      const usual = pick(["/chat/completions", "/responses", "/models", "/models/gpt-5", "/embeddings"]);
      const path =
        (below(2) === 0 ? usual : `/${Array.from({ length: depth }, () => pick(SEGMENTS)).join("/")}`) + pick(QUERIES);
      const method = pick(METHODS);
      const secret = pick(secrets);
      const headers: Record<string, string> =
        below(2) === 0 ? { "x-api-key": secret } : { authorization: `Bearer ${secret}` };
      if (below(3) === 0) headers.authorization = `${pick(["Bearer", "bearer", "Basic"])} ${pick(secrets)}`;
      for (let count = below(5); count > 0; count--) {
        headers[pick(HEADERS)] = pick([...secrets, `x ${secret}`, PERSONAL.email, "gpt/5 (linux)", "*/*"]);
      }
      const hasBody = method !== "GET" && method !== "HEAD";
      if (hasBody) headers["content-type"] = "application/json";
      const answer = await send(
        workspace.baseUrl,
        path,
        method,
        headers,
        hasBody ? '{"model":"m","input":"x"}' : undefined,
      );
      const said = `${method} ${path} ${JSON.stringify(headers)}`;
      expect(answer.status, said).to.be.oneOf([200, 400, 404, 405]);
      expect(answer.text + answer.headers, said)
        .not.to.include(LLM_KEY)
        .and.not.to.include("org-of-the-service");
      if (answer.status === 200) served++;
    }
    const { asked } = workspace.upstream;
    expect(asked.length).to.equal(served).and.to.be.above(50);
    for (const each of asked) {
      expect(`${each.method} ${each.path}`).to.match(SERVED);
      const headers = JSON.stringify(each.headers);
      for (const secret of secrets) expect(headers).not.to.include(secret);
      expect(headers).not.to.include(PERSONAL.email);
      expect(each.headers.authorization).to.equal(`Bearer ${LLM_KEY}`);
    }
  });

  it("is not described by the model's service when it refuses our key.", async () => {
    const error = {
      message: "Incorrect API key provided: sk-ow***89",
      type: "invalid_request_error",
      param: null,
      code: "x",
    };
    workspace.upstream.answer = sends({ error }, 401);
    const response = await workspace.post("/chat/completions", { model: "m" });
    expect(response.status).to.equal(502);
    expect(await response.text())
      .to.include("ACP_LLM_KEY")
      .and.not.to.include("sk-ow");
  });
});
