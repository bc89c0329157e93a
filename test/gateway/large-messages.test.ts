import { setImmediate } from "node:timers/promises";
import { expect } from "chai";
import { HeldTurns } from "../support/held-turns.ts";
import { startService, type TestService } from "../support/service.ts";
import { connectStateful, connectStateless } from "./harness.ts";
import { startToolsServer, type ToolsServer, tool } from "./tools-server.ts";

const LARGE = "x".repeat(200_000);
/** Held calls end no earlier than the test lets them go on. */
const ENV = { ACP_MCP_ALLOW: "127.0.0.0/8", ACP_DEFAULT_DEADLINE_MS: "600000" };
/** Large calls of a kind that are made at once. */
const CALLS = 5;

type Result = { content: { text: string }[] };

/** Waits for a condition; the time limit of the test is the only bound. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await setImmediate();
}

describe("large messages to the MCP gateway", () => {
  let turns: HeldTurns;
  let service: TestService;
  let upstream: ToolsServer;
  let agentId: string;
  let other: { readonly key: string; readonly agentId: string };

  before(async () => {
    turns = new HeldTurns();
    service = await startService({ largeRequests: turns, env: ENV });
    upstream = await startToolsServer([tool("read")]);
    await service.rest("POST /v1/enforce/mcp-servers", { name: "files", url: upstream.url });
    agentId = await service.agent();
    other = await service.workspace("other");
  });
  after(async () => {
    turns.release();
    await service?.stop();
    await upstream?.close();
  });
  beforeEach(() => {
    upstream.calls.length = 0;
    Object.assign(turns, { taken: 0, left: 0 });
  });

  const url = () => new URL(`${service.http}/mcp/files`);
  const headers = () => ({ "x-api-key": service.adminKey, "x-agent-id": agentId });
  const read = (n: number, text = LARGE) => ({ name: "read", arguments: { n, text } });
  const intercept = (content: string, as = { key: service.adminKey, agentId }) =>
    service.rest(
      "POST /v1/enforce/intercept",
      { agent_id: as.agentId, action_type: "read", action_content: content },
      as.key,
    );
  const hook = (input: object) =>
    fetch(`${service.http}/v1/hooks/claude-code`, {
      method: "POST",
      headers: { ...headers(), "content-type": "application/json" },
      body: JSON.stringify({ hook_event_name: "PreToolUse", tool_name: "Write", tool_input: input }),
    }).then((response) => response.json());

  it("wait in one queue with large requests of every other route, while small ones of all are answered.", async () => {
    const clients = [await connectStateful(url(), headers()), await connectStateless(url(), headers())] as const;
    turns.hold();
    const calls = clients.map((client, n) => client.callTool(read(n) as never));
    await until(() => turns.waiting.length === 2);
    const intercepts = [intercept(LARGE), intercept(LARGE, other)];
    await until(() => turns.waiting.length === 4);
    const hooks = [hook({ text: LARGE })];
    await until(() => turns.waiting.length === 5);
    expect(turns.waiting.filter((workspaceId) => workspaceId === "other")).to.have.length(1);
    for (let n = 0; n < 3; n++) {
      expect(await intercept("small")).to.include({ decision: "allow" });
      expect(await intercept("small", other)).to.include({ decision: "allow" });
      for (const client of clients) await client.callTool(read(n, "small") as never);
      expect(await hook({ text: "small" })).to.deep.equal({});
    }
    expect(turns).to.include({ taken: 0, left: 0 });
    expect(turns.waiting).to.have.length(5);
    turns.release();
    for (const [n, call] of calls.entries()) {
      expect(((await call) as Result).content[0]?.text).to.equal(`read ${JSON.stringify({ n, text: LARGE })}`);
    }
    for (const each of intercepts) expect(await each).to.include({ decision: "allow" });
    // No rule covers the call, so the hook says nothing.
    for (const each of hooks) expect(await each).to.deep.equal({});
    for (const client of clients) await client.close();
    // Read, asked for, decided and written anew: four steps of each call through the gateway, and four of each intercept.
    expect(turns.taken).to.be.at.least(4 * (calls.length + intercepts.length));
  });

  it("come with them one step at a time, and leave turns of the event loop between.", async () => {
    const client = await connectStateless(url(), headers());
    let mostBetween = 0;
    let isDone = false;
    const others = (async () => {
      for (let before = 0; !isDone; before = turns.taken) {
        await setImmediate();
        mostBetween = Math.max(mostBetween, turns.taken - before);
      }
    })();
    const all = Array.from({ length: CALLS }, (_, n) => [
      client.callTool(read(n) as never),
      intercept(`${LARGE}${n}`),
      intercept(`${LARGE}${n}`, other),
    ]);
    await Promise.all(all.flat());
    isDone = true;
    await others;
    expect(upstream.calls.map(({ arguments: args }) => (args as { n: number }).n)).to.have.members([0, 1, 2, 3, 4]);
    expect(mostBetween).to.equal(1);
    await client.close();
  });

  it("are also short ones of many values, whatever the route.", async () => {
    const values = Array.from({ length: 5_000 }, () => 1);
    const client = await connectStateless(url(), headers());
    turns.hold();
    const call = client.callTool({ name: "read", arguments: { n: 0, values } } as never);
    const asked = { agent_id: agentId, action_type: "read", metadata: { values } };
    const rest = service.rest("POST /v1/enforce/intercept", asked);
    const connect = fetch(`${service.http}/agentcontrol.v1.EnforcementService/Intercept`, {
      method: "POST",
      headers: { ...headers(), "content-type": "application/json" },
      body: JSON.stringify({ agentId, actionType: "read", metadata: { values } }),
    });
    const event = hook({ values });
    await until(() => turns.waiting.length === 4);
    expect(turns.taken).to.equal(0);
    turns.release();
    expect(await rest).to.include({ decision: "allow" });
    expect((await connect).status).to.equal(200);
    expect(await event).to.deep.equal({});
    await call;
    await client.close();
  });

  it("leave the queue when their client goes away; the call is neither decided nor forwarded.", async () => {
    const client = await connectStateless(url(), headers());
    turns.hold();
    const leaving = new AbortController();
    const given = client.callTool(read(1) as never, { signal: leaving.signal } as never).catch((error: Error) => error);
    const staying = client.callTool(read(2) as never);
    await until(() => turns.waiting.length === 2);
    leaving.abort();
    await until(() => turns.left === 1);
    expect(turns.waiting).to.have.length(1);
    expect(await given).to.be.instanceOf(Error);
    const abandoned = new AbortController();
    const body = JSON.stringify({ agent_id: agentId, action_type: "left.behind", action_content: LARGE });
    const request = { method: "POST", headers: { ...headers(), "content-type": "application/json" }, body };
    const rest = fetch(`${service.http}/v1/enforce/intercept`, { ...request, signal: abandoned.signal }).catch(String);
    await until(() => turns.waiting.length === 2);
    abandoned.abort();
    await until(() => turns.left === 2);
    await rest;
    turns.release();
    await staying;
    expect(upstream.calls.map(({ arguments: args }) => (args as { n: number }).n)).to.deep.equal([2]);
    const { decisions } = await service.rest("GET /v1/enforce/decisions?action_type=left.behind");
    expect(decisions).to.deep.equal([]);
    await client.close();
  });
});
