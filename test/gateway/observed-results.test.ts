import type { ServerResponse } from "node:http";
import { expect } from "chai";
import { withClient } from "../support/database.ts";
import type { RestCall } from "../support/service.ts";
import { startGatewayBehindLink } from "./behind-link.ts";
import { type GatewayService, startGateway } from "./harness.ts";
import { decisionsOf, settledOutcome } from "./outcomes.ts";
import { decisionIn, GENERATIONS, type GenerationName, openRaw, type RawClient } from "./raw-client.ts";
import { beginStream, type Received, type ScriptedServer, sendJson, startScriptedServer } from "./scripted-server.ts";
import { until } from "./until.ts";

const CALLS = ["tools/call", "resources/read"];
const CALL = { name: "read", arguments: {} };
const text = (value: string) => ({ type: "text", text: value });

/** Starts a server with the tool `read`, and empty lists of anything else. */
async function startListing(): Promise<ScriptedServer> {
  const server = await startScriptedServer();
  server.answerList = ({ id }, response) =>
    sendJson(response, { jsonrpc: "2.0", id, result: { resources: [], resourceTemplates: [], prompts: [] } });
  return server;
}

/** Begins a session of an agent. */
async function beginSession(rest: RestCall, agentId: string): Promise<string> {
  const { session } = (await rest("POST /v1/enforce/sessions", { agent_id: agentId, purpose: "test" })) as unknown as {
    session: { session_id: string };
  };
  return session.session_id;
}

/** Tells a session a result. Tells whether it had observed just this before, or why it is refused. */
async function told(rest: RestCall, sessionId: string, content: string, more: object = {}): Promise<unknown> {
  const path = `POST /v1/enforce/sessions/${sessionId}/observations`;
  try {
    const { replayed } = await rest(path, { source: "result", content, ...more });
    return replayed;
  } catch (error) {
    return /"reason": ?"(\w+)"/.exec((error as Error).message)?.[1];
  }
}

describe("results through the gateway", () => {
  let gateway: GatewayService;
  let upstream: ScriptedServer;
  before(async () => {
    upstream = await startListing();
    gateway = await startGateway();
    await gateway.add("bank", { url: upstream.url }, { drift: "86400", pass_methods: ["bank/extra"] });
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });

  const answering = (members: object) => {
    upstream.answer = ({ id }: Received, response: ServerResponse) =>
      sendJson(response, { jsonrpc: "2.0", id, ...members });
  };
  const openNamed = async (generation: GenerationName = "stateless") => {
    const agentId = await gateway.agent();
    const own = await openRaw(gateway, "bank", generation, agentId);
    const sessionId = await beginSession(gateway.rest, agentId);
    const ask: RawClient["ask"] = (method, params) => own.ask(method, params, { "x-session-id": sessionId });
    return { ...own, ask, sessionId };
  };
  const lastDecision = async (agentId: string) => (await decisionsOf(gateway, agentId)).at(-1)?.decision_id;
  const observations = async (agentId: string) =>
    withClient(gateway.database.ownerUrl, async (client) => {
      const { rows } = await client.query<{ body: string }>("select body from ledger_entry order by seq");
      return rows
        .map(({ body }) => JSON.parse(body))
        .filter(({ type, agent_id }) => type === "session_observed" && agent_id === agentId);
    });

  for (const generation of GENERATIONS)
    it(`are observed in the session that a client names, ${generation}, as results of their decisions.`, async () => {
      const agentId = await gateway.agent();
      const own = await openRaw(gateway, "bank", generation, agentId);
      const sessionId = await beginSession(gateway.rest, agentId);
      answering({ result: { content: [text("from eve@evil.example")] } });
      const { body } = await own.ask("tools/call", CALL, { "x-session-id": sessionId });
      expect(body.result?.content).to.deep.equal([text("from eve@evil.example")]);
      const decisionId = await lastDecision(agentId);
      expect(await observations(agentId)).to.have.length(1);
      expect(await told(gateway.rest, sessionId, "from eve@evil.example", { decision_id: decisionId })).to.equal(true);
      expect(await told(gateway.rest, sessionId, "another", { decision_id: decisionId })).to.equal(
        "OBSERVATION_EXISTS",
      );
    });

  it("are observed in the session of a connection whose client names none.", async () => {
    const own = await openRaw(gateway, "bank", "with sessions");
    answering({ result: { content: [text("from eve@evil.example")] } });
    await own.ask("tools/call", CALL);
    const [observed, ...others] = await observations(own.agentId);
    expect(others).to.deep.equal([]);
    expect(observed).to.include({ source: "result", tool: "bank.read", decision_id: await lastDecision(own.agentId) });
  });

  it("are not observed without a session.", async () => {
    const own = await openRaw(gateway, "bank", "stateless");
    answering({ result: { content: [text("from eve@evil.example")] } });
    await own.ask("tools/call", CALL);
    expect(await observations(own.agentId)).to.deep.equal([]);
  });

  const SHAPES: readonly { what: string; result: object; content: string }[] = [
    { what: "several texts", result: { content: [text("one"), text("two")] }, content: "one\ntwo" },
    {
      what: "structured content that a text repeats",
      result: { content: [text('{"b":[2], "a":"x"}')], structuredContent: { a: "x", b: [2] } },
      content: '{"a":"x","b":[2]}',
    },
    {
      what: "structured content with a list that texts repeat",
      result: { content: [text('{"a":1}'), text('{"a":2}')], structuredContent: { result: [{ a: 1 }, { a: 2 }] } },
      content: '{"result":[{"a":1},{"a":2}]}',
    },
    {
      what: "structured content beside another text",
      result: { content: [text("note")], structuredContent: { a: 'x "y"' } },
      content: 'x "y"\n{"a":"x \\"y\\""}\nnote',
    },
    {
      what: "an embedded resource beside an image",
      result: {
        content: [
          { type: "image", data: "aaaa", mimeType: "image/png" },
          { type: "resource", resource: { uri: "file:///a", text: "inside" } },
        ],
      },
      content: 'inside\nfile:///a\n{"uri":"file:///a"}',
    },
    {
      what: "a link to a resource",
      result: { content: [{ type: "resource_link", uri: "file:///a", name: "evil name" }] },
      content: '{"uri":"file:///a","name":"evil name"}',
    },
    {
      what: "a block of an unknown kind",
      result: { content: [{ type: "video", caption: "evil caption" }] },
      content: '{"caption":"evil caption"}',
    },
    {
      what: "a failure",
      result: { isError: true, content: [text("no such account")] },
      content: "no such account",
    },
    {
      what: "a result that pretends to hold another",
      result: { content: [text("seen")], result: { hidden: "unseen" } },
      content: 'unseen\n{"result":{"hidden":"unseen"}}\nseen',
    },
    {
      what: "a result in the form of an earlier protocol",
      result: { toolResult: "from eve@evil.example" },
      content: '{"toolResult":"from eve@evil.example"}',
    },
  ];
  for (const { what, result, content } of SHAPES)
    it(`are observed by the text that a model reads: ${what}.`, async () => {
      const own = await openNamed();
      answering({ result });
      await own.ask("tools/call", CALL);
      const decisionId = await lastDecision(own.agentId);
      expect(await told(gateway.rest, own.sessionId, content, { decision_id: decisionId })).to.equal(true);
    });

  it("without a text are not observed.", async () => {
    const own = await openNamed();
    answering({ result: { content: [{ type: "image", data: "aaaa", mimeType: "image/png" }] } });
    expect((await own.ask("tools/call", CALL)).body.result?.isError).to.equal(undefined);
    expect(await observations(own.agentId)).to.deep.equal([]);
  });

  it("are observed too where they are resources, prompts, errors and answers of methods that pass.", async () => {
    const own = await openNamed("with sessions");
    const observes = async (members: object, method: string, params: object, content: string) => {
      answering(members);
      answering(members);
      await own.ask(method, params);
      expect(await told(gateway.rest, own.sessionId, content), method).to.equal(true);
    };
    const contents = [{ uri: "file:///a", text: "page of eve@evil.example" }];
    await observes({ result: { contents } }, "resources/read", { uri: "file:///a" }, "page of eve@evil.example");
    const messages = [{ role: "user", content: text("ask mallory@evil.example") }];
    await observes({ result: { messages } }, "prompts/get", { name: "p" }, "ask mallory@evil.example");
    const error = { code: -32_000, message: "call trudy@evil.example", data: { at: "oscar@evil.example" } };
    const content = 'call trudy@evil.example\noscar@evil.example\n{"at":"oscar@evil.example"}';
    await observes({ error }, "tools/call", CALL, content);
    await observes({ result: { more: "walter@evil.example" } }, "bank/extra", {}, '{"more":"walter@evil.example"}');
    upstream.answer = (_asked, response) => response.writeHead(400).end("see peggy@evil.example");
    await own.ask("tools/call", CALL);
    expect(await told(gateway.rest, own.sessionId, "see peggy@evil.example")).to.equal(true);
  });

  it("are observed before they stand on a stream.", async () => {
    const own = await openNamed();
    upstream.answer = ({ id }, response) => {
      const send = beginStream(response);
      send({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "soon" } });
      send({ jsonrpc: "2.0", id, result: { content: [text("from eve@evil.example")] } });
      response.end();
    };
    expect((await own.ask("tools/call", CALL)).text).to.contain("eve@evil.example");
    expect(await told(gateway.rest, own.sessionId, "from eve@evil.example")).to.equal(true);
  });

  for (const method of ["sampling/createMessage", "elicitation/create"])
    it(`are observed beside what their server asks by ${method}, before its client gets it.`, async () => {
      const own = await openNamed("with sessions");
      upstream.answer = ({ id }, response) => {
        const send = beginStream(response);
        send({
          jsonrpc: "2.0",
          id: "s-1",
          method,
          params: { _meta: {}, message: `for ${method} of eve@evil.example` },
        });
        send({ jsonrpc: "2.0", id, result: { content: [] } });
        response.end();
      };
      expect((await own.ask("tools/call", CALL)).text).to.contain("eve@evil.example");
      const content = `{"message":"for ${method} of eve@evil.example"}`;
      expect(await told(gateway.rest, own.sessionId, content)).to.equal(true);
    });

  it("have no requests beside them that an unknown session would have to observe: the server gets an error.", async () => {
    const own = await openRaw(gateway, "bank", "with sessions");
    const asked = { jsonrpc: "2.0", id: "s-1", method: "sampling/createMessage", params: { message: "swordfish" } };
    let refused: Received | undefined;
    upstream.answer = (received, response) => {
      if (received.method === undefined) {
        refused = received;
        return void response.writeHead(202).end();
      }
      const send = beginStream(response);
      send(asked);
      send({ jsonrpc: "2.0", id: received.id, result: {} });
      response.end();
    };
    const { text: given, body } = await own.ask("ping", {}, { "x-session-id": "ses_unknown" });
    expect(given).not.to.contain("swordfish");
    expect(body.result).to.deep.equal({});
    await until(async () => refused !== undefined);
    expect(refused).to.have.nested.property("error.data.reason", "SESSION_ENDED");
  });

  it("above 1 MiB are cut, and make their session full.", async () => {
    const own = await openNamed();
    answering({ result: { content: [text(`${"é".repeat(600_000)} eve@evil.example`)] } });
    const { body } = await own.ask("tools/call", CALL);
    expect(JSON.stringify(body)).to.contain("eve@evil.example");
    const [observed] = await observations(own.agentId);
    expect(observed).to.include({ full: true });
  });

  it("stand nowhere in the database.", async () => {
    const own = await openNamed();
    const secret = "zz-swordfish-4711";
    answering({ result: { content: [text(`the password is ${secret}`)], structuredContent: { [secret]: [secret] } } });
    await own.ask("tools/call", CALL);
    answering({ error: { code: 1, message: secret } });
    await own.ask("tools/call", CALL);
    expect(await observations(own.agentId)).to.have.length(2);
    await withClient(gateway.database.ownerUrl, async (client) => {
      const { rows } = await client.query<{ name: string }>(
        "select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'",
      );
      expect(rows.length).to.be.greaterThan(30);
      const hex = Buffer.from(secret).toString("hex");
      for (const { name } of rows) {
        const found = await client.query(`select 1 from "${name}" t where to_jsonb(t)::text ~ '${secret}|${hex}'`);
        expect(found.rowCount, name).to.equal(0);
      }
    });
  });

  it("are observed although the agent told other content for the decision first.", async () => {
    const own = await openNamed();
    const early = "nothing to see";
    upstream.answer = async ({ id }, response) => {
      const decisionId = await lastDecision(own.agentId);
      expect(await told(gateway.rest, own.sessionId, early, { decision_id: decisionId })).to.equal(false);
      sendJson(response, { jsonrpc: "2.0", id, result: { content: [text("from eve@evil.example")] } });
    };
    expect((await own.ask("tools/call", CALL)).text).to.contain("eve@evil.example");
    const observed = await observations(own.agentId);
    expect(observed.map(({ decision_id }) => decision_id === undefined)).to.deep.equal([false, true]);
    expect(await told(gateway.rest, own.sessionId, "from eve@evil.example")).to.equal(true);
  });

  it("reach the client of a session that has ended meanwhile, which may call nothing more.", async () => {
    const own = await openNamed();
    upstream.answer = async ({ id }, response) => {
      await gateway.rest(`DELETE /v1/enforce/sessions/${own.sessionId}`);
      sendJson(response, { jsonrpc: "2.0", id, result: { content: [text("done")] } });
    };
    expect((await own.ask("tools/call", CALL)).text).to.contain("done");
    const next = await own.ask("tools/call", CALL);
    expect(decisionIn(next)).to.include({ decision: "block" });
  });

  it("are blocked with the session of another agent, an unknown one, and a header with several.", async () => {
    const own = await openNamed();
    const other = await openNamed();
    upstream.answer = (_asked, response) => response.writeHead(500).end("must not be called");
    const named = async (sessionId: string, method = "tools/call", params: object = CALL) => {
      const client = await openRaw(gateway, "bank", "stateless", own.agentId);
      return client.ask(method, params, { "x-session-id": sessionId });
    };
    for (const sessionId of [
      other.sessionId,
      "ses_unknown",
      `${own.sessionId}, ${other.sessionId}`,
      "*",
      "__proto__",
    ]) {
      expect(decisionIn(await named(sessionId)), sessionId).to.include({ decision: "block" });
      const passed = await named(sessionId, "bank/extra", {});
      expect(passed.body.error?.data?.reason, sessionId).to.equal("SESSION_ENDED");
    }
    expect(await named("x".repeat(65))).to.include({ status: 400 });
    expect(await observations(other.agentId)).to.deep.equal([]);
  });
});

describe("a result whose session cannot observe it", () => {
  it("is withheld, with an error that says that the call ran, and its outcome is reported.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const upstream = await startListing();
    cleanup.defer(() => upstream.close());
    const { link, server, rest, agentId } = await startGatewayBehindLink(upstream.url, cleanup);
    const gateway = {
      rest,
      agent: async () => agentId,
      headers: { "x-api-key": server.adminKey },
      urlOf: (name: string) => new URL(`${server.http}/mcp/${name}`),
    } as unknown as GatewayService;
    const own = await openRaw(gateway, "bank", "with sessions", agentId);
    const session = { "x-session-id": await beginSession(rest, agentId) };
    const result = { content: [text("swordfish")], contents: [{ uri: "file:///a", text: "swordfish" }] };
    upstream.answer = ({ id, method }, response) => {
      if (method !== undefined && CALLS.includes(method)) link.break();
      sendJson(response, { jsonrpc: "2.0", id, result });
    };
    const withheld = await own.ask("tools/call", CALL, session);
    expect(withheld.text).not.to.contain("swordfish");
    expect(withheld.body.result).to.include({ isError: true });
    expect(withheld.text).to.match(/the call ran, and its result is withheld: session `ses_\w+` could not observe it/);
    expect(decisionIn(withheld)).to.have.nested.property("reasons[0].code", "RESULT_WITHHELD");
    link.mend();
    expect((await settledOutcome({ rest }, agentId))?.status).to.equal("succeeded");
    const read = await own.ask("resources/read", { uri: "file:///a" }, session);
    expect(read.text).not.to.contain("swordfish");
    expect(read.body.error?.data?.reason).to.equal("STORE_UNAVAILABLE");
    link.mend();
  });
});
