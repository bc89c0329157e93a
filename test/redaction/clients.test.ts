import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, streamText, type ToolSet, tool } from "ai";
import { expect } from "chai";
import OpenAI, { APIError } from "openai";
import { ControlPlaneRequestError, createControlPlane } from "../../src/client/index.ts";
import { startService, type TestService } from "../support/service.ts";
import { PERSONAL } from "./harness.ts";
import {
  chatEvents,
  chunk,
  completion,
  responseEvents,
  sends,
  startUpstream,
  streams,
  type Upstream,
} from "./upstream.ts";

const { email, name, card } = PERSONAL;
const TEXT = `Ask ${name} at ${email}.`;
const SCRUBBED = "Ask [PERSON_NAME] at [EMAIL].";
const SCHEMA = { type: "object", properties: { to: { type: "string" } }, required: ["to"] } as const;

describe("clients of OpenAI's interface", () => {
  let upstream: Upstream;
  let service: TestService;
  let openai: OpenAI;
  let url: string;

  const put = async (path: string, method: string, body: object): Promise<void> => {
    const headers = { "x-api-key": service.adminKey, "content-type": "application/json" };
    const response = await fetch(`${service.http}/api/redact/default${path}`, {
      method,
      headers,
      body: JSON.stringify(body),
    });
    expect(response.status, await response.text()).to.equal(200);
  };

  before(async () => {
    upstream = await startUpstream();
    const env = { ACP_LLM_URL: upstream.url, ACP_LLM_KEY: "sk-upstream", ACP_LOG_LEVEL: "trace" };
    service = await startService({ env });
    url = `${service.http}/api/redact/default/openai/v1`;
    openai = new OpenAI({ baseURL: url, apiKey: service.adminKey, maxRetries: 0 });
    await put("/values", "POST", { values: [{ value: name }] });
  });
  after(async () => {
    await service?.stop();
    await upstream?.close();
  });
  beforeEach(() => {
    upstream.asked.length = 0;
  });
  afterEach(() => {
    const asked = upstream.asked.map(({ body }) => body).join();
    for (const value of Object.values(PERSONAL)) {
      expect(asked).not.to.include(value);
      expect(service.output()).not.to.include(value);
    }
  });

  const messages = [{ role: "user" as const, content: `mail ${email} of ${name}, ${card}` }];

  it("may be agents with a credential, but hold no federation token.", async () => {
    const call = async <T>(path: string, body: object): Promise<T> => {
      const headers = { "x-api-key": service.adminKey, "content-type": "application/json" };
      const response = await fetch(service.http + path, { method: "POST", headers, body: JSON.stringify(body) });
      expect(response.status).to.equal(200);
      return (await response.json()) as T;
    };
    const { agent } = await call<{ agent: { agent_id: string } }>("/v1/enforce/agents", { name: "payer" });
    const of = { agent_id: agent.agent_id };
    const { secret } = await call<{ secret: string }>("/v1/enforce/credentials", { ...of, name: "c" });
    const token = await call<{ token: string }>("/v1/enforce/federation-tokens", {
      ...of,
      audience: "partner",
      allowed_action_types: ["read.*"],
      max_uses: 1,
      ttl_seconds: 60,
    });
    upstream.answer = sends(completion({ content: "fine" }));
    const ask = (apiKey: string) =>
      new OpenAI({ baseURL: url, apiKey, maxRetries: 0 }).chat.completions.create({ model: "test-1", messages });
    expect((await ask(secret)).choices).to.have.lengthOf(1);
    const error = await ask(token.token).catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(APIError).and.to.include({ status: 403, code: "role_not_allowed" });
    expect(upstream.asked).to.have.lengthOf(1);
  });

  describe("such as openai", () => {
    it("complete chats.", async () => {
      upstream.answer = sends(completion({ content: TEXT }));
      const { choices } = await openai.chat.completions.create({ model: "test-1", messages });
      expect(choices[0]?.message.content).to.equal(SCRUBBED);
      expect(upstream.asked[0]?.headers.authorization).to.equal("Bearer sk-upstream");
    });

    it("stream chats with calls of tools and usage.", async () => {
      const call = (fragment: object): string => chunk({ tool_calls: [{ index: 0, ...fragment }] });
      const [first = "", ...rest] = chatEvents([...TEXT]);
      upstream.answer = streams([
        first,
        ...rest.slice(0, -3),
        call({ id: "call_1", type: "function", function: { name: "send", arguments: "" } }),
        ...[...JSON.stringify({ to: email })].map((text) => call({ function: { arguments: text } })),
        chunk({}, "tool_calls"),
        ...rest.slice(-2),
      ]);
      const stream = openai.chat.completions.stream({
        model: "test-1",
        messages,
        stream_options: { include_usage: true },
        tools: [{ type: "function", function: { name: "send", parameters: SCHEMA } }],
      });
      const final = await stream.finalChatCompletion();
      expect(final.choices[0]?.message.content).to.equal(SCRUBBED);
      const [made] = final.choices[0]?.message.tool_calls ?? [];
      expect(made).to.have.nested.property("function.arguments", '{"to":"[EMAIL]"}');
      expect(final.usage?.total_tokens).to.equal(5);
      expect(final.choices[0]?.finish_reason).to.equal("tool_calls");
    });

    it("ask for responses, whole and streamed.", async () => {
      upstream.answer = streams(responseEvents([...TEXT]));
      const stream = openai.responses.stream({ model: "test-1", input: `mail ${email}` });
      const final = await stream.finalResponse();
      expect(final.output_text).to.equal(SCRUBBED);
      const item = { type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: TEXT }] };
      upstream.answer = sends({ id: "resp_2", object: "response", model: "test-1", output: [item] });
      const whole = await openai.responses.create({ model: "test-1", input: `mail ${email}` });
      expect(whole.output_text).to.equal(SCRUBBED);
    });

    it("embed, list models, and get errors of ours and of the model's service as their own.", async () => {
      upstream.answer = sends({ object: "list", data: [{ object: "embedding", index: 0, embedding: "AACAPwAAAEA=" }] });
      const { data } = await openai.embeddings.create({ model: "e-1", input: [email] });
      expect([...(data[0]?.embedding ?? [])]).to.deep.equal([1, 2]);
      upstream.answer = sends({ object: "list", data: [{ id: "test-1", object: "model" }] });
      expect((await openai.models.list()).data[0]?.id).to.equal("test-1");
      upstream.answer = sends(
        { error: { message: `too long for ${name}`, type: "x", code: "context_length_exceeded" } },
        400,
      );
      const failed = await openai.models.list().catch((error: APIError) => error);
      expect(failed).to.be.instanceOf(APIError).and.to.include({ status: 400, code: "context_length_exceeded" });
      expect((failed as APIError).message).to.include("[PERSON_NAME]");
      const stranger = new OpenAI({ baseURL: url, apiKey: "acp_wrong", maxRetries: 0 });
      const refused = await stranger.models.list().catch((error: APIError) => error);
      expect(refused).to.include({ status: 401, code: "key_invalid" });
    });

    it("hear of a stream that breaks off as of an error.", async () => {
      upstream.answer = streams([chunk({ content: email.slice(0, 8) }), "data: {broken\n\n"]);
      const stream = await openai.chat.completions.create({ model: "test-1", messages, stream: true });
      let said = "";
      let failure: unknown;
      try {
        for await (const { choices } of stream) said += choices[0]?.delta.content ?? "";
      } catch (error) {
        failure = error;
      }
      expect(failure).to.be.instanceOf(APIError);
      expect(said).to.equal("");
    });
  });

  describe("such as the AI SDK", () => {
    const provider = () => createOpenAI({ baseURL: url, apiKey: service.adminKey });
    const prompt = messages[0]?.content ?? "";

    it("generate and stream text with chats.", async () => {
      const model = provider().chat("test-1");
      upstream.answer = sends(completion({ content: TEXT }));
      expect((await generateText({ model, prompt })).text).to.equal(SCRUBBED);
      upstream.answer = streams(chatEvents([...TEXT]));
      const { textStream } = streamText({ model, prompt });
      let said = "";
      for await (const part of textStream) said += part;
      expect(said).to.equal(SCRUBBED);
    });

    it("generate and stream text with responses.", async () => {
      const model = provider().responses("test-1");
      upstream.answer = streams(responseEvents([...TEXT]));
      expect(await streamText({ model, prompt }).text).to.equal(SCRUBBED);
    });

    it("call tools with the caller's own values where the workspace allows it.", async () => {
      await put("/settings", "PUT", { restore_values: true });
      upstream.answer = (asked, response) => {
        const said = /\[EMAIL_\d+_[A-Z]+\]/.exec(asked.body)?.[0] ?? "";
        const call = (fragment: object): string => chunk({ tool_calls: [{ index: 0, ...fragment }] });
        const pieces = [...`{"to":"${said}"}`].map((text) => call({ function: { arguments: text } }));
        const begin = call({ id: "call_1", type: "function", function: { name: "send", arguments: "" } });
        return streams([begin, ...pieces, chunk({}, "tool_calls"), "data: [DONE]\n\n"])(asked, response);
      };
      const tools = { send: tool({ inputSchema: jsonSchema<{ to: string }>(SCHEMA) }) } as unknown as ToolSet;
      const calls = await streamText({ model: provider().chat("test-1"), prompt, tools }).toolCalls;
      expect(calls.map(({ input }) => input)).to.deep.equal([{ to: email }]);
    });
  });

  it("and the client library scrubs single texts.", async () => {
    const controlPlane = createControlPlane({ baseUrl: service.http, apiKey: service.adminKey });
    const { text, findings } = await controlPlane.scrub(`to ${name}`);
    expect(text).to.match(/^to \[PERSON_1_[A-Z]+\]$/);
    expect(findings).to.deep.equal([{ kind: "person_name", start: 3, end: 16 }]);
    const failed = await controlPlane.scrub("x", { workspaceId: "other" }).catch((error: unknown) => error);
    expect(failed).to.be.instanceOf(ControlPlaneRequestError).and.to.include({ reason: "WORKSPACE_NOT_FOUND" });
  });
});
