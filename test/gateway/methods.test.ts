import { readFile } from "node:fs/promises";
import { expect } from "chai";
import { METHODS } from "../../src/gateway/methods.ts";
import { TABLE_METHODS } from "../../src/registry/mcp-methods.ts";
import { type GatewayService, startGateway } from "./harness.ts";
import { decisionIn, ENVELOPE, GENERATIONS, openRaw, type RawClient } from "./raw-client.ts";
import { type RecordingServer, startRecordingServer } from "./recording-server.ts";
import { until } from "./until.ts";

/** One request of each decided method, and the action under which it is recorded. */
const DECIDED = {
  "resources/read": { params: { uri: "file:///secret" }, recorded: { uri: "file:///secret" } },
  "prompts/get": {
    params: { name: "greet", arguments: { who: "Ada" } },
    recorded: { name: "greet", arguments: { who: "Ada" } },
  },
  "completion/complete": {
    params: { ref: { type: "ref/prompt", name: "greet" }, argument: { name: "who", value: "A" } },
    recorded: { ref: { type: "ref/prompt", name: "greet" }, argument: { name: "who", value: "A" } },
  },
  "resources/subscribe": { params: { uri: "file:///secret" }, recorded: { uri: "file:///secret" } },
} as const;

/** A decision as its receipt shows it. */
interface Recorded {
  readonly decision: { decision: string; decision_path: string };
  readonly receipt: {
    action: { action_type: string; tool: string; arguments: unknown; metadata: unknown };
    trust: { before: number; after: number };
    reasons: { code: string; message: string }[];
  };
}

describe("the methods that pass the MCP gateway", () => {
  let gateway: GatewayService;
  const upstreams = new Map<string, RecordingServer>();
  before(async () => {
    gateway = await startGateway({
      env: {
        ACP_MCP_HOLD_MS: "300",
        ACP_MCP_PROGRESS_HOLD_MS: "60000",
        ACP_PUBLIC_URL: "http://127.0.0.1:7080",
      },
    });
    for (const generation of GENERATIONS) {
      const upstream = await startRecordingServer(generation === "stateless");
      upstreams.set(generation, upstream);
      await gateway.add(nameOf(generation), { url: upstream.url });
      await gateway.add(`${nameOf(generation)}-open`, { url: upstream.url }, { pass_methods: ["vendor/search"] });
    }
  });
  after(async () => {
    await gateway?.stop();
    for (const upstream of upstreams.values()) await upstream.close();
  });

  const nameOf = (generation: string): string => (generation === "stateless" ? "newer" : "older");
  const upstreamOf = (generation: string): RecordingServer => {
    const upstream = upstreams.get(generation) as RecordingServer;
    upstream.messages.length = 0;
    upstream.answer = () => ({ result: { resultType: "complete" } });
    return upstream;
  };
  const latest = async (agentId: string): Promise<Recorded> => {
    const [id] = await gateway.decisionIdsOf(agentId);
    return (await gateway.rest(`GET /v1/enforce/decisions/${id}`)) as unknown as Recorded;
  };
  const forbidden = (): Promise<string> => agentWith({ denied_action_types: ["*"] });
  const agentWith = async (permissions: object): Promise<string> => {
    const { agent } = (await gateway.rest("POST /v1/enforce/agents", { name: "a", permissions })) as unknown as {
      agent: { agent_id: string };
    };
    return agent.agent_id;
  };

  it("are those of the guide's table, with their rules and generations, and those that no server may name itself.", async () => {
    const guide = await readFile(new URL("../../src/gateway/README.md", import.meta.url), "utf8");
    const rows = [...guide.matchAll(/^\| ((?:`[^`|]+`(?:, )?)+) +\| (A, B|A|B) +\| ([^|]+?) +\|/gm)].flatMap(
      ([, methods = "", generations, rule]) =>
        [...methods.matchAll(/`([^`]+)`/g)].map(([, method]) => `${method} ${generations} ${rule}`),
    );
    const letters = { stateful: "A", stateless: "B" };
    const listed = new Map<string, string>();
    for (const { method, generations, rule } of METHODS) {
      const known = listed.get(`${method} ${rule}`);
      const own = generations.map((each) => letters[each]).join(", ");
      listed.set(`${method} ${rule}`, known === undefined ? own : `${known}, ${own}`);
    }
    const wanted = [...listed].map(([key, generations]) => key.replace(" ", ` ${generations} `));
    expect(rows.sort()).to.deep.equal(wanted.sort());
    expect(TABLE_METHODS).to.include.members(METHODS.map(({ method }) => method));
  });

  for (const generation of GENERATIONS) {
    describe(generation, () => {
      const decided = Object.entries(DECIDED).filter(
        ([method]) => generation === "with sessions" || method !== "resources/subscribe",
      );
      for (const [method, { params, recorded }] of decided) {
        it(`decide \`${method}\`, and say why one is blocked.`, async () => {
          const upstream = upstreamOf(generation);
          const client = await openRaw(gateway, nameOf(generation), generation, await forbidden());
          const answer = await client.ask(method, params);
          expect(answer.body.error?.message).to.contain(`blocked this call of \`${method}\``);
          expect(decisionIn(answer)).to.include({ decision: "block", decision_path: "permissions" });
          expect(upstream.messages).to.deep.equal([]);
          const { receipt } = await latest(client.agentId);
          const type = `${nameOf(generation)}.${method}`;
          expect(receipt.action).to.include({ action_type: type, tool: type });
          expect(receipt.action.arguments).to.deep.equal(recorded);
          expect(receipt.action.metadata).to.deep.equal({ mcp_server: nameOf(generation) });
        });

        it(`pass \`${method}\` as it came once it is allowed.`, async () => {
          const upstream = upstreamOf(generation);
          const client = await openRaw(gateway, nameOf(generation), generation);
          const answer = await client.ask(method, params);
          expect(answer.body.result, answer.text).to.be.an("object");
          const [{ params: passed = {} } = {}] = upstream.messages;
          const { _meta, ...rest } = passed;
          expect(rest).to.deep.equal(params);
          expect((await latest(client.agentId)).decision).to.include({ decision: "allow" });
        });
      }

      it("wait for a person where a rule says so, and pass once.", async () => {
        const upstream = upstreamOf(generation);
        const name = nameOf(generation);
        await gateway.rest("POST /v1/enforce/mandates", {
          name: `ask ${generation}`,
          rules: [
            {
              type: "argument",
              tool: `${name}.resources/read`,
              decision: "escalate",
              conditions: { rules: [{ field: "uri", operator: "starts_with", value: "held:" }] },
            },
          ],
        });
        const client = await openRaw(gateway, name, generation);
        const ask = (uri: string) => client.ask("resources/read", { uri });
        expect((await ask("free:1")).body.result).to.be.an("object");
        const held = await ask("held:1");
        expect(held.body.error?.message).to.contain("waits for a person").and.to.contain("/escalations/esc_");
        const { escalation_id: id } = decisionIn(held) as { escalation_id: string };
        await gateway.resolve(id, "approved");
        expect((await ask("held:2")).body.error?.message).to.contain("waits for a person");
        expect((await ask("held:1")).body.result).to.be.an("object");
        expect((await ask("held:1")).body.error?.message).to.contain("waits for a person");
        expect(upstream.messages.map(({ params }) => params?.uri)).to.deep.equal(["free:1", "held:1"]);
      });

      it("pass with what a person approved in place of what was asked.", async () => {
        const upstream = upstreamOf(generation);
        const client = await openRaw(gateway, nameOf(generation), generation);
        const asking = client.ask("resources/read", { uri: "held:edit", _meta: { progressToken: "held" } });
        let id = "";
        await until(async () => {
          const { escalations = [] } = (await gateway.rest(
            `GET /v1/enforce/escalations?status=pending&agent_id=${client.agentId}`,
          )) as unknown as { escalations?: { escalation_id: string }[] };
          id = escalations[0]?.escalation_id ?? "";
          return id !== "";
        });
        await gateway.rest(`POST /v1/enforce/escalations/${id}/edit`, { arguments: { uri: "free:edit" } });
        await asking;
        await client.ask("resources/read", { uri: "held:edit" });
        expect(upstream.messages.map(({ params }) => params?.uri)).to.deep.equal(["free:edit"]);
        if (generation === "stateless") {
          expect(upstream.headers.findLast((each) => each["mcp-method"] === "resources/read")?.["mcp-name"]).to.equal(
            "free:edit",
          );
        }
      });

      it("complete what a person types at no cost to trust, allowed or blocked.", async () => {
        const { params } = DECIDED["completion/complete"];
        upstreamOf(generation);
        for (const agentId of [await forbidden(), await gateway.agent()]) {
          const client = await openRaw(gateway, nameOf(generation), generation, agentId);
          for (let count = 0; count < 3; count++) await client.ask("completion/complete", params);
          const { receipt } = await latest(agentId);
          expect(receipt.trust.after).to.equal(50);
          const { agent } = (await gateway.rest(`GET /v1/enforce/agents/${agentId}`)) as unknown as {
            agent: { trust_level: number };
          };
          expect(agent.trust_level).to.equal(50);
        }
      });

      it("leave out listings of what an agent may never use.", async () => {
        const upstream = upstreamOf(generation);
        const listed = [{ name: "a", uri: "a:1" }];
        upstream.answer = ({ method }) => ({
          result: { resultType: "complete", [method === "prompts/list" ? "prompts" : "resources"]: listed },
        });
        const denied = await agentWith({ denied_action_types: [`${nameOf(generation)}.prompts/get`] });
        const client = await openRaw(gateway, nameOf(generation), generation, denied);
        expect((await client.ask("prompts/list")).body.result?.prompts).to.deep.equal([]);
        expect((await client.ask("resources/list")).body.result?.resources).to.deep.equal(listed);
      });

      it("are no others: methods of vendors, of the other generation, or written otherwise.", async () => {
        const upstream = upstreamOf(generation);
        const client = await openRaw(gateway, nameOf(generation), generation);
        const others = generation === "stateless" ? ["resources/subscribe", "logging/setLevel"] : ["server/discover"];
        for (const method of [
          "vendor/search",
          "Tools/Call",
          " tools/call",
          "tools/call\t",
          "__proto__",
          "",
          ...others,
        ]) {
          const headers = { "mcp-method": method.trim() };
          const answer = await client.ask(method, { name: "pay", uri: "a", arguments: {} }, headers);
          const isHeaderFault = answer.body.error?.code === -32_020;
          if (!isHeaderFault) expect(answer.body.error?.code, `${method} ${answer.text}`).to.equal(-32_601);
        }
        expect(upstream.messages).to.deep.equal([]);
        expect(await gateway.decisionIdsOf(client.agentId)).to.deep.equal([]);
      });

      it("are those that the server's registration names, too.", async () => {
        const upstream = upstreamOf(generation);
        const client = await openRaw(gateway, `${nameOf(generation)}-open`, generation);
        const params = { query: "a", _meta: { "vendor/x": 1, progressToken: 7 } };
        expect((await client.ask("vendor/search", params)).body.result).to.be.an("object");
        const { _meta, ...rest } = upstream.messages[0]?.params ?? {};
        expect(rest).to.deep.equal({ query: "a" });
        expect(_meta).to.deep.equal({ progressToken: 7, ...(generation === "stateless" ? ENVELOPE : {}) });
        expect((await client.ask("vendor/other")).body.error?.code).to.equal(-32_601);
      });

      it("need an id where they ask for something.", async () => {
        const upstream = upstreamOf(generation);
        const client = await openRaw(gateway, nameOf(generation), generation);
        const params = { name: "pay", arguments: {}, ...(generation === "stateless" ? { _meta: ENVELOPE } : {}) };
        for (const method of ["tools/call", "resources/read", "tasks/cancel"]) {
          const answer = await client.send({ jsonrpc: "2.0", method, params }, { "mcp-method": method });
          expect(answer.status, answer.text).to.equal(400);
        }
        expect(upstream.messages).to.deep.equal([]);
      });
    });
  }

  it("decide every resource of a subscription, and pass it only whole.", async () => {
    const upstream = upstreamOf("stateless");
    const agentId = await agentWith({ denied_action_types: ["newer.resources/subscribe"] });
    const listen = (client: RawClient, uris: unknown) =>
      client.ask("subscriptions/listen", { notifications: { toolsListChanged: true, resourceSubscriptions: uris } });
    const refused = await listen(await openRaw(gateway, "newer", "stateless", agentId), ["a:1", "a:2"]);
    expect(decisionIn(refused)).to.include({ decision: "block" });
    expect(await gateway.decisionIdsOf(agentId)).to.have.length(2);
    expect(upstream.messages).to.deep.equal([]);
    const allowed = await openRaw(gateway, "newer", "stateless");
    for (const wrong of ["a:1", [1], Array.from({ length: 101 }, (_, at) => `a:${at}`)]) {
      expect((await listen(allowed, wrong)).body.error?.code).to.equal(-32_602);
    }
    await listen(allowed, ["a:1", "a:2"]);
    expect((await latest(allowed.agentId)).receipt.action.action_type).to.equal("newer.resources/subscribe");
    expect(upstream.messages).to.have.length(1);
  });

  it("keep working where a workspace refuses unknown tools, and typed rules about them compile before they were used.", async () => {
    await gateway.rest("PATCH /v1/enforce/workspace", { unknown_tools: "block" }).catch(async () => {
      await gateway.rest("PATCH /v1/admin/workspaces/default", { unknown_tools: "block" });
    });
    const upstream = upstreamOf("with sessions");
    const client = await openRaw(gateway, "older", "with sessions");
    expect((await client.ask("prompts/get", { name: "greet" })).body.result).to.be.an("object");
    expect(upstream.messages).to.have.length(1);
    await gateway.rest("PATCH /v1/admin/workspaces/default", { unknown_tools: "allow" });
  });

  it("end subscriptions of the session alone.", async () => {
    const upstream = upstreamOf("with sessions");
    const [own, other] = [
      await openRaw(gateway, "older", "with sessions"),
      await openRaw(gateway, "older", "with sessions"),
    ];
    await own.ask("resources/subscribe", { uri: "a:1" });
    expect((await other.ask("resources/unsubscribe", { uri: "a:1" })).body.error?.code).to.equal(-32_602);
    expect((await own.ask("resources/unsubscribe", { uri: "a:2" })).body.error?.code).to.equal(-32_602);
    expect((await own.ask("resources/unsubscribe", { uri: "a:1" })).body.result).to.be.an("object");
    expect((await own.ask("resources/unsubscribe", { uri: "a:1" })).body.error?.code).to.equal(-32_602);
    expect(upstream.messages.map(({ method }) => method)).to.deep.equal([
      "resources/subscribe",
      "resources/unsubscribe",
    ]);
  });

  it("pass answers and notifications that name something open in the session, once.", async () => {
    const upstream = upstreamOf("with sessions");
    const asked = {
      jsonrpc: "2.0",
      id: "s1",
      method: "sampling/createMessage",
      params: { _meta: { progressToken: "p1" }, messages: [], maxTokens: 1 },
    };
    upstream.answer = ({ method }) =>
      method === "tools/call"
        ? { before: [asked], result: { content: [] } }
        : { error: { code: -32_601, message: "none" } };
    const [client, other] = [
      await openRaw(gateway, "older", "with sessions"),
      await openRaw(gateway, "older", "with sessions"),
    ];
    const answerTo = (id: unknown) => ({ jsonrpc: "2.0", id, result: { role: "assistant", model: "m", content: {} } });
    const progress = (progressToken: unknown) => ({
      jsonrpc: "2.0",
      method: "notifications/progress",
      params: { progressToken, progress: 1 },
    });
    expect((await client.send(answerTo("s1"))).status).to.equal(400);
    await client.ask("tools/call", { name: "pay", arguments: {} });
    upstream.messages.length = 0;
    expect((await other.send(answerTo("s1"))).status).to.equal(400);
    expect((await client.send(answerTo("s2"))).status).to.equal(400);
    for (const token of ["p2", 1, null, { a: 1 }]) expect((await client.send(progress(token))).status).to.equal(202);
    expect((await other.send(progress("p1"))).status).to.equal(202);
    expect(upstream.messages).to.deep.equal([]);
    expect((await client.send(progress("p1"))).status).to.equal(202);
    expect((await client.send(answerTo("s1"))).status).to.equal(202);
    expect((await client.send(answerTo("s1"))).status).to.equal(400);
    for (const params of [{ requestId: 99 }, { requestId: "1" }, {}]) {
      expect((await client.send({ jsonrpc: "2.0", method: "notifications/cancelled", params })).status).to.equal(202);
    }
    const status = { taskId: "t1", status: "working" };
    await client.send({ jsonrpc: "2.0", method: "notifications/tasks/status", params: status });
    const vendor = await client.send({ jsonrpc: "2.0", method: "notifications/vendor", params: {} });
    expect([vendor.status, vendor.body.error?.code]).to.deep.equal([400, -32_601]);
    await client.send({ jsonrpc: "2.0", method: "notifications/roots/list_changed" });
    expect(upstream.messages.map(({ method, id }) => method ?? id)).to.deep.equal([
      "notifications/progress",
      "s1",
      "notifications/roots/list_changed",
    ]);
  });

  it("are read from messages that are what they seem.", async () => {
    const upstream = upstreamOf("with sessions");
    const client = await openRaw(gateway, "older", "with sessions");
    const call = '"params":{"name":"pay","arguments":{"amount":1}}';
    for (const body of [
      `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call",${call}}`,
      `{"jsonrpc":"2.0","id":1,"method":"ping","\\u006dethod":"tools/call",${call}}`,
      `{"jsonrpc":"2.0","id":null,"method":"tools/call",${call}}`,
      `{"jsonrpc":"2.0","id":1.5,"method":"tools/call",${call}}`,
      `{"jsonrpc":"2.0","id":1e400,"method":"tools/call",${call}}`,
      `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call",${call}}`,
      `{"jsonrpc":"2.0","id":true,"method":"tools/call",${call}}`,
      `{"jsonrpc":"2.0","id":{},"method":"tools/call",${call}}`,
      `[{"jsonrpc":"2.0","id":1,"method":"tools/call",${call}}]`,
      "[]",
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","result":{},${call}}`,
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","error":{"code":1,"message":"a"},${call}}`,
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","extra":1,${call}}`,
      `{"jsonrpc":"2.0","id":1,"method":["tools/call"],${call}}`,
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[{"name":"pay"}]}`,
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"\\ud800":1}}}`,
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"amount":1e999}}}`,
      '{"jsonrpc":"2.0","method":"notifications/Cancelled","params":{"requestId":1}}',
      '{"jsonrpc":"2.0","method":"sampling/createMessage","params":{}}',
      `{"jsonrpc":"2.0","id":1,"result":{},"__proto__":{"method":"tools/call"}}`,
    ]) {
      const { status, text } = await client.send(body);
      expect(status, `${body} ${text}`).to.equal(400);
    }
    for (const [args, problem] of [
      [String.raw`{"a":["\u0000"]}`, "`params.arguments.a[0]` must not hold the character U+0000"],
      [String.raw`{"\u0000":1}`, "must not hold the character U+0000"],
      [`{"a":[${Array(25_000).fill("0").join()}]}`, "must not hold more than 25,000 values"],
    ] as const) {
      const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":${args}}}`;
      const { status, body: answer } = await client.send(body);
      expect([status, answer.error?.code]).to.deep.equal([400, -32_600]);
      expect(answer.error?.message).to.contain(problem);
    }
    for (const body of [
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"__proto__":{"name":"pay"}}}`,
      `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":{"a":1},"arguments":{}}}`,
      `{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":["a"]}}`,
      `{"jsonrpc":"2.0","id":4,"method":"resources/read"}`,
      `{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"file:///public/../vault"}}`,
    ]) {
      const { body: answer, text } = await client.send(body);
      expect(answer.error?.code, `${body} ${text}`).to.equal(-32_602);
    }
    expect(upstream.messages).to.deep.equal([]);
    const { body } = await client.send(
      '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pay","arguments":{"__proto__":{"a":1}}}}',
    );
    expect(body.result, JSON.stringify(body)).to.be.an("object");
    expect(JSON.stringify(upstream.messages)).to.equal(
      '[{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pay","arguments":{"__proto__":{"a":1}}}}]',
    );
  });
});
