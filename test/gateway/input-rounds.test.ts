import type { Client } from "@modelcontextprotocol/client";
import { expect } from "chai";
import { connectStateless, type GatewayService, startGateway } from "./harness.ts";
import { decisionsOf, settledOutcome } from "./outcomes.ts";
import { type SessionServer, startSessionServer } from "./session-server.ts";
import { until } from "./until.ts";

type Json = Readonly<Record<string, unknown>>;
type Answer = { readonly result?: Json; readonly error?: { readonly message: string } };

const ABILITIES = { elicitation: {}, sampling: {}, roots: {} };
const VERSION = "2026-07-28";
const textOf = (result: unknown): string => (result as { content: { text: string }[] }).content[0]?.text ?? "";
const accepted = (name: string) => ({ action: "accept" as const, content: { name } });

describe("input that a server with sessions asks of a stateless client", () => {
  let gateway: GatewayService;
  let upstream: SessionServer;
  const clients: Client[] = [];
  before(async () => {
    upstream = await startSessionServer();
    gateway = await startGateway();
    await gateway.add("asking", { url: upstream.url });
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });

  /** Connects a client that gives these names, in turn. */
  async function connect(names: readonly string[] = [], abilities: object = ABILITIES): Promise<Client> {
    const client = await connectStateless(gateway.urlOf("asking"), gateway.headers, abilities);
    clients.push(client);
    const left = [...names];
    if ("elicitation" in abilities)
      client.setRequestHandler("elicitation/create", () => accepted(left.shift() ?? "nobody"));
    if ("sampling" in abilities)
      client.setRequestHandler("sampling/createMessage", () => ({
        role: "assistant",
        model: "m",
        content: { type: "text", text: "word" },
      }));
    if ("roots" in abilities) client.setRequestHandler("roots/list", () => ({ roots: [{ uri: "file:///a" }] }));
    return client;
  }

  /** Makes a call of a tool as a client does that answers by itself. */
  async function call(name: string, more: Json = {}, headers: Json = {}, abilities: Json = ABILITIES): Promise<Answer> {
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": VERSION,
      "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": abilities,
    };
    const { signal, ...params } = more as { signal?: AbortSignal };
    const response = await fetch(gateway.urlOf("asking"), {
      method: "POST",
      signal: signal ?? null,
      headers: {
        ...gateway.headers,
        ...(headers as Record<string, string>),
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": VERSION,
        "mcp-method": "tools/call",
        "mcp-name": name,
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name, arguments: {}, ...params, _meta },
      }),
    });
    const text = await response.text();
    const data = text.startsWith("{") ? text : (/^data: (\{.*)$/m.exec(text)?.[1] ?? "{}");
    return JSON.parse(data) as Answer;
  }

  const stateOf = ({ result }: Answer): string => {
    expect(result?.resultType).to.equal("input_required");
    return String(result?.requestState);
  };

  it("shows each client the tools for the input that it declares.", async () => {
    const named = async (abilities: object) =>
      (await (await connect([], abilities)).listTools()).tools.map(({ name }) => name);
    expect(await named({})).to.deep.equal(["hello"]);
    expect(await named(ABILITIES)).to.deep.equal(["both", "hello", "name", "pair", "roots", "sample", "slow"]);
    expect(await named({ sampling: {} })).to.deep.equal(["hello", "sample"]);
  });

  it("reaches it, and the call goes on with its answer: once at the server.", async () => {
    const client = await connect(["Ada"]);
    const before = upstream.calls.length;
    expect(textOf(await client.callTool({ name: "name" }))).to.equal("hello, Ada");
    expect(upstream.calls.slice(before)).to.deep.equal(["name"]);
  });

  it("comes in as many rounds as the tool asks, one after the other or at once.", async () => {
    expect(textOf(await (await connect(["Ada", "Bob"])).callTool({ name: "pair" }))).to.equal("Ada and Bob");
    expect(textOf(await (await connect(["Ada", "Bob"])).callTool({ name: "both" }))).to.equal("Ada and Bob");
  });

  it("belongs to one call, whose outcome its last round settles.", async () => {
    const count = async () => (await decisionsOf(gateway, gateway.agentId)).length;
    const client = await connect(["Ada", "Bob"]);
    const before = await count();
    await client.callTool({ name: "pair" });
    const outcome = await settledOutcome(gateway, gateway.agentId);
    expect(outcome).to.include({ status: "succeeded", reported_by: "gateway" });
    expect((await count()) - before).to.equal(1);
  });

  it("may be a message of the client's model, or its roots.", async () => {
    const client = await connect();
    expect(textOf(await client.callTool({ name: "sample" }))).to.contain("word");
    expect(textOf(await client.callTool({ name: "roots" }))).to.equal("file:///a");
  });

  it("is asked for again if the answer is missing.", async () => {
    const first = await call("name");
    const again = await call("name", { requestState: stateOf(first) });
    const inputResponses = { input: accepted("Ada") };
    const last = await call("name", { requestState: stateOf(again), inputResponses });
    expect(textOf(last.result)).to.equal("hello, Ada");
  });

  it("counts for the call that asked, with its arguments, and once.", async () => {
    const requestState = stateOf(await call("name", { arguments: { title: "Dr " } }));
    const inputResponses = { input: accepted("Ada") };
    const other = await call("name", { arguments: { title: "Sir " }, requestState, inputResponses });
    expect(other.error?.message).to.contain("other parameters");
    const own = await call("name", { arguments: { title: "Dr " }, requestState, inputResponses });
    expect(textOf(own.result)).to.equal("hello, Dr Ada");
    const repeated = await call("name", { arguments: { title: "Dr " }, requestState, inputResponses });
    expect(repeated.error?.message).to.contain("no call waits");
  });

  it("is no other agent's to give.", async () => {
    const requestState = stateOf(await call("name"));
    const other = await gateway.agent();
    const inputResponses = { input: accepted("Eve") };
    const answer = await call("name", { requestState, inputResponses }, { "x-agent-id": other });
    expect(answer.error?.message).to.contain("no call waits");
    expect(textOf((await call("name", { requestState, inputResponses })).result)).to.equal("hello, Eve");
  });

  it("has its result observed in the session of its call, whichever the last round names.", async () => {
    const agentId = await gateway.agent();
    const begin = async (): Promise<string> => {
      const began = await gateway.rest("POST /v1/enforce/sessions", { agent_id: agentId, purpose: "test" });
      return (began as unknown as { session: { session_id: string } }).session.session_id;
    };
    const knows = async (sessionId: string, content: string): Promise<unknown> =>
      (await gateway.rest(`POST /v1/enforce/sessions/${sessionId}/observations`, { source: "result", content }))
        .replayed;
    const named = (sessionId?: string) => ({
      "x-agent-id": agentId,
      ...(sessionId === undefined ? {} : { "x-session-id": sessionId }),
    });
    const [own, other] = [await begin(), await begin()];
    const round = async (name: string, first: Answer, headers: Json) =>
      call("name", { requestState: stateOf(first), inputResponses: { input: accepted(name) } }, headers);
    for (const [name, sessionId] of [
      ["ada@evil.example", undefined],
      ["bob@evil.example", other],
      ["eve@evil.example", own],
    ] as const) {
      const last = await round(name, await call("name", {}, named(own)), named(sessionId));
      expect(textOf(last.result)).to.equal(`hello, ${name}`);
      expect(await knows(own, `hello, ${name}`), name).to.equal(true);
      expect(await knows(other, `hello, ${name}`), name).to.equal(sessionId === other);
    }
    const first = await call("name", {}, named(own));
    const refused = await round("mallory", first, named("ses_unknown"));
    expect(refused.error).to.have.nested.property("data.reason", "SESSION_ENDED");
    expect(textOf((await round("mallory", first, named(own))).result)).to.equal("hello, mallory");
  });

  it("does not mix up calls that wait at the same time.", async () => {
    const first = stateOf(await call("name", { arguments: { title: "1" } }));
    const second = stateOf(await call("name", { arguments: { title: "2" } }));
    const give = (title: string, requestState: string, name: string) =>
      call("name", { arguments: { title }, requestState, inputResponses: { input: accepted(name) } });
    expect(textOf((await give("2", second, "Bob")).result)).to.equal("hello, 2Bob");
    expect(textOf((await give("1", first, "Ada")).result)).to.equal("hello, 1Ada");
  });

  it("comes under the decision on the first round: a person approves once.", async () => {
    const { mandate } = (await gateway.rest("POST /v1/enforce/mandates", {
      name: "names are approved",
      rules: [{ type: "action", decision: "escalate", conditions: { match_action_types: ["asking.pair"] } }],
    })) as unknown as { mandate: { mandate_id: string } };
    const held = call("pair");
    const pending = async () =>
      (await gateway.rest("GET /v1/enforce/escalations?status=ESCALATION_STATUS_PENDING")) as unknown as {
        escalations?: { escalation_id: string }[];
      };
    await until(async () => (await pending()).escalations?.length === 1);
    const { escalations: [escalation] = [] } = await pending();
    await gateway.rest(`POST /v1/enforce/escalations/${escalation?.escalation_id}/resolve`, { resolution: "approved" });
    const answered = async (answer: Answer, name: string) =>
      call("pair", { requestState: stateOf(answer), inputResponses: { input: accepted(name) } });
    const last = await answered(await answered(await held, "Ada"), "Bob");
    expect(textOf(last.result)).to.equal("Ada and Bob");
    expect((await pending()).escalations ?? []).to.deep.equal([]);
    await gateway.rest(`DELETE /v1/enforce/mandates/${mandate.mandate_id}`);
  });

  it("is refused of an agent that was revoked meanwhile.", async () => {
    const agentId = await gateway.agent();
    const requestState = stateOf(await call("name", {}, { "x-agent-id": agentId }));
    await gateway.rest(`POST /v1/enforce/agents/${agentId}/revoke`, { reason: "gone" });
    const given = { requestState, inputResponses: { input: accepted("Ada") } };
    const answer = JSON.stringify(await call("name", given, { "x-agent-id": agentId }));
    expect(answer).to.contain('"decision_path":"revoked"').and.not.contain("hello");
  });

  it("is awaited no longer once the agent is revoked: the call ends at the server.", async () => {
    const [leaving, staying] = [await gateway.agent(), await gateway.agent()];
    const requestState = stateOf(await call("name", {}, { "x-agent-id": staying }));
    stateOf(await call("pair", {}, { "x-agent-id": leaving }));
    const before = upstream.cancelled.length;
    await gateway.rest(`POST /v1/enforce/agents/${leaving}/revoke`, { reason: "gone" });
    await until(async () => upstream.cancelled.length > before);
    expect(upstream.cancelled.slice(before)).to.deep.equal(["pair"]);
    const given = { requestState, inputResponses: { input: accepted("Ada") } };
    expect(textOf((await call("name", given, { "x-agent-id": staying })).result)).to.equal("hello, Ada");
  });

  it("is awaited no longer once the key is revoked, in whichever round.", async () => {
    const { key, secret } = (await gateway.rest("POST /v1/admin/keys", {
      name: "of a client",
      role: "agent",
    })) as unknown as { key: { key_id: string }; secret: string };
    const own = { "x-api-key": secret };
    const first = await call("pair", {}, own);
    const given = { requestState: stateOf(first), inputResponses: { input: accepted("Ada") } };
    const requestState = stateOf(await call("pair", given, own));
    const before = upstream.cancelled.length;
    await gateway.rest(`DELETE /v1/admin/keys/${key.key_id}`);
    await until(async () => upstream.cancelled.length > before);
    expect(upstream.cancelled.slice(before)).to.deep.equal(["pair"]);
    const late = await call("pair", { requestState, inputResponses: { input: accepted("Bob") } });
    expect(late.error?.message).to.contain("no call waits");
  });

  it("cancels the call at the server when its client goes away in a round.", async () => {
    const requestState = stateOf(await call("slow"));
    const leaving = new AbortController();
    const given = { requestState, inputResponses: { input: accepted("Ada") }, signal: leaving.signal };
    const left = call("slow", given).catch((error: Error) => error.name);
    await until(async () => upstream.slow === 1);
    leaving.abort();
    expect(await left).to.equal("AbortError");
    await until(async () => upstream.cancelled.includes("slow"));
  });
});
