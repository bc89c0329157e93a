import { expect } from "chai";
import { Client } from "pg";
import { type GatewayService, startGateway } from "./harness.ts";
import { decisionsOf, lastOutcome, settledOutcome } from "./outcomes.ts";
import { GENERATIONS, openRaw, type RawClient } from "./raw-client.ts";
import { type RecordingServer, startRecordingServer } from "./recording-server.ts";

describe("a task of an MCP server", () => {
  let gateway: GatewayService;
  const upstreams = new Map<string, RecordingServer>();
  before(async () => {
    gateway = await startGateway();
    for (const generation of GENERATIONS) {
      const upstream = await startRecordingServer(generation === "stateless");
      upstreams.set(generation, upstream);
      await gateway.add(nameOf(generation), { url: upstream.url });
    }
  });
  after(async () => {
    await gateway?.stop();
    for (const upstream of upstreams.values()) await upstream.close();
  });

  let lastId = 0;
  const nameOf = (generation: string): string => (generation === "stateless" ? "newer" : "older");
  /** A server that makes a task with a new id of each call, and lists all of them. */
  const upstreamOf = (generation: string): RecordingServer => {
    const upstream = upstreams.get(generation) as RecordingServer;
    const made: string[] = [];
    upstream.messages.length = 0;
    upstream.answer = ({ method, params }) => {
      const task = (taskId: string) => ({ taskId, status: "working", ttl: 1, createdAt: "", lastUpdatedAt: "" });
      if (method === "tasks/list") return { result: { tasks: made.map(task) } };
      if (method !== "tools/call") return { result: { resultType: "complete", ...task(String(params?.taskId)) } };
      const { taskId = `task-${++lastId}` } = (params?.arguments ?? {}) as { taskId?: string };
      made.push(taskId);
      return {
        result: generation === "stateless" ? { resultType: "task", ...task(taskId) } : { task: task(taskId) },
      };
    };
    return upstream;
  };
  const make = async (client: RawClient, args: object = {}): Promise<string> => {
    const { body, text } = await client.ask("tools/call", { name: "pay", arguments: args });
    const { result } = body as { result?: { taskId?: string; task?: { taskId: string } } };
    const taskId = result?.taskId ?? result?.task?.taskId;
    expect(taskId, text).to.be.a("string");
    return String(taskId);
  };

  for (const generation of GENERATIONS) {
    const methods =
      generation === "stateless"
        ? ["tasks/get", "tasks/update", "tasks/cancel"]
        : ["tasks/get", "tasks/result", "tasks/cancel"];

    it(`belongs to the agent that made it, in every connection (${generation}).`, async () => {
      const upstream = upstreamOf(generation);
      const own = await openRaw(gateway, nameOf(generation), generation);
      const taskId = await make(own);
      const again = await openRaw(gateway, nameOf(generation), generation, own.agentId);
      for (const client of [own, again]) {
        for (const method of methods) {
          const { body, text } = await client.ask(method, { taskId });
          expect(body.result, text).to.include({ taskId });
        }
      }
      expect(upstream.messages).to.have.length(7);
    });

    it(`is to another agent as one that never was (${generation}).`, async () => {
      const upstream = upstreamOf(generation);
      const taskId = await make(await openRaw(gateway, nameOf(generation), generation));
      const stranger = await openRaw(gateway, nameOf(generation), generation);
      upstream.messages.length = 0;
      for (const method of methods) {
        const [theirs, never] = [
          await stranger.ask(method, { taskId }),
          await stranger.ask(method, { taskId: "task-none" }),
        ];
        expect(theirs.body.error?.code).to.equal(-32_602);
        expect({ ...theirs.body, id: 0 }).to.deep.equal({ ...never.body, id: 0 });
        expect(theirs.status).to.equal(never.status);
      }
      const related = { _meta: { "io.modelcontextprotocol/related-task": { taskId } } };
      const call = await stranger.ask("tools/call", { name: "pay", arguments: {}, ...related });
      expect(call.body.error?.code).to.equal(-32_602);
      expect(upstream.messages).to.deep.equal([]);
    });

    it(`has no other name (${generation}).`, async () => {
      const upstream = upstreamOf(generation);
      const client = await openRaw(gateway, nameOf(generation), generation);
      const taskId = await make(client);
      upstream.messages.length = 0;
      for (const trick of [[taskId], { taskId }, null, 1, taskId.toUpperCase(), ` ${taskId}`, ""]) {
        const { body, text } = await client.ask("tasks/get", { taskId: trick }, {});
        expect([-32_602, -32_020], text).to.include(body.error?.code);
      }
      const { body: refused } = await client.ask("tasks/get", { taskId: `${taskId}\u0000` }, {});
      expect(refused.error).to.include({ code: -32_600 });
      for (const related of ["text", { taskId: [taskId] }, {}]) {
        const _meta = { "io.modelcontextprotocol/related-task": related };
        expect([-32_602, -32_600]).to.include((await client.ask("tasks/get", { taskId, _meta })).body.error?.code);
      }
      expect(upstream.messages).to.deep.equal([]);
      const { body } = await client.ask("tools/call", { name: "pay", arguments: { taskId: "agentcontrol.esc_1" } });
      expect(body.error?.message).to.contain("keeps for its own");
    });
  }

  const ENDS: readonly [string, string, object, string][] = [
    ["completed", "tasks/get", { status: "completed" }, "succeeded"],
    ["completed with an error of the tool", "tasks/get", { status: "completed", result: { isError: true } }, "failed"],
    ["failed", "tasks/get", { status: "failed" }, "failed"],
    ["cancelled", "tasks/cancel", { status: "cancelled" }, "pending"],
    ["working", "tasks/get", { status: "working" }, "pending"],
  ];
  for (const generation of GENERATIONS) {
    for (const [what, method, result, status] of ENDS) {
      it(`that is ${what} leaves the outcome of its call ${status} (${generation}).`, async () => {
        const upstream = upstreamOf(generation);
        const client = await openRaw(gateway, nameOf(generation), generation);
        const taskId = await make(client);
        expect((await lastOutcome(gateway, client.agentId))?.status).to.equal("pending");
        upstream.answer = () => ({ result: { resultType: "complete", taskId, ...result } });
        for (let round = 0; round < 2; round++) await client.ask(method, { taskId });
        if (status === "pending") {
          upstream.answer = () => ({ result: { resultType: "complete", content: [] } });
          await client.ask("tools/call", { name: "pay", arguments: {} });
          expect((await settledOutcome(gateway, client.agentId))?.status).to.equal("succeeded");
        } else {
          expect(await settledOutcome(gateway, client.agentId)).to.include({ status, reported_by: "gateway" });
        }
        expect((await decisionsOf(gateway, client.agentId))[0]?.outcome?.status).to.equal(status);
      });
    }
  }

  it("ends the outcome of its call with its result, not with an error about the task.", async () => {
    const upstream = upstreamOf("with sessions");
    const client = await openRaw(gateway, "older", "with sessions");
    const taskId = await make(client);
    upstream.answer = () => ({ error: { code: -32_602, message: "the task has expired" } });
    await client.ask("tasks/result", { taskId });
    upstream.answer = () => ({ result: { content: [], isError: true } });
    const again = await openRaw(gateway, "older", "with sessions", client.agentId);
    await again.ask("tasks/result", { taskId });
    const outcome = await settledOutcome(gateway, client.agentId);
    expect(outcome).to.include({ status: "failed", error: "the tool answered with `isError`" });
  });

  it("is listed for its agent alone.", async () => {
    upstreamOf("with sessions");
    const [one, two] = [
      await openRaw(gateway, "older", "with sessions"),
      await openRaw(gateway, "older", "with sessions"),
    ];
    const [first, second] = [await make(one), await make(two)];
    const listed = async (client: RawClient) => {
      const { result = {} } = (await client.ask("tasks/list")).body;
      return (result.tasks as { taskId: string }[]).map(({ taskId }) => taskId);
    };
    expect(await listed(one)).to.deep.equal([first]);
    expect(await listed(two)).to.deep.equal([second]);
    expect(await listed(await openRaw(gateway, "older", "with sessions"))).to.deep.equal([]);
  });

  it("tells its status to its agent alone.", async () => {
    const upstream = upstreamOf("with sessions");
    const [one, two] = [
      await openRaw(gateway, "older", "with sessions"),
      await openRaw(gateway, "older", "with sessions"),
    ];
    const taskId = await make(one);
    const status = { jsonrpc: "2.0", method: "notifications/tasks/status", params: { taskId, status: "working" } };
    upstream.answer = () => ({ before: [status], result: { content: [] } });
    const call = async (client: RawClient) =>
      (await client.ask("tools/call", { name: "pay", arguments: {} })).text.includes(taskId);
    expect([await call(one), await call(two)]).to.deep.equal([true, false]);
  });

  it("that another agent listens for is refused.", async () => {
    const upstream = upstreamOf("stateless");
    const own = await openRaw(gateway, "newer", "stateless");
    const taskId = await make(own);
    upstream.messages.length = 0;
    const stranger = await openRaw(gateway, "newer", "stateless");
    const params = { notifications: { taskIds: [taskId] } };
    expect((await stranger.ask("subscriptions/listen", params)).body.error?.code).to.equal(-32_602);
    expect(upstream.messages).to.deep.equal([]);
    expect((await own.ask("subscriptions/listen", params)).body.result).to.be.an("object");
  });

  it("is forgotten with its server.", async () => {
    await using cleanup = new AsyncDisposableStack();
    await gateway.add("brief", { url: upstreamOf("stateless").url });
    await make(await openRaw(gateway, "brief", "stateless"));
    const database = new Client({ connectionString: gateway.database.ownerUrl });
    await database.connect();
    cleanup.defer(() => database.end());
    const count = async () => {
      const { rows } = await database.query<{ count: string }>("select count(*) from mcp_task where server = 'brief'");
      return Number(rows[0]?.count);
    };
    expect(await count()).to.equal(1);
    await gateway.rest("DELETE /v1/enforce/mcp-servers/brief");
    expect(await count()).to.equal(0);
  });
});
