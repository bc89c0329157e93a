import { createTaskSessionFromClient, type RawClientDispatch } from "@modelcontextprotocol/ext-tasks/client";
import { isCreateTaskResultV2, isDetailedTaskV2 } from "@modelcontextprotocol/ext-tasks/core/v2";
import { expect } from "chai";
import { ownedBy } from "../support/owned-key.ts";
import { connectStateless, type GatewayService, startGateway } from "./harness.ts";
import { EXTENSION, FRAMING, send, type Task, textOf } from "./task-client.ts";
import { startToolsServer, type ToolsServer, tool } from "./tools-server.ts";
import { until } from "./until.ts";

const CALL = { name: "pay", arguments: { amount: 7 } };

const asks = { type: "action", decision: "escalate", conditions: { match_action_types: ["bank.pay", "other.*"] } };
const expires = { ...asks, escalation_ttl_seconds: 1, conditions: { match_action_types: ["bank.expire"] } };

describe("a call that waits for a person as a task", () => {
  let gateway: GatewayService;
  let upstream: ToolsServer;
  before(async () => {
    upstream = await startToolsServer([tool("pay"), tool("expire")]);
    gateway = await startGateway({ env: { ACP_PUBLIC_URL: "http://127.0.0.1:7080", ACP_MCP_HOLD_MS: "300" } });
    await gateway.add("bank", { url: upstream.url });
    await gateway.add("other", { url: upstream.url });
    await gateway.rest("POST /v1/enforce/mandates", { name: "people pay", rules: [asks, expires] });
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });
  beforeEach(() => {
    upstream.calls.length = 0;
    upstream.answer = (name, args) => ({ content: [{ type: "text", text: `${name} ${JSON.stringify(args)}` }] });
  });

  /** A client of an agent of its own. */
  async function open() {
    const agentId = await gateway.agent();
    const who = { ...gateway.headers, "x-agent-id": agentId };
    const ask = (method: string, params: object, more?: object, url = gateway.urlOf("bank")) =>
      send(url, who, method, params as never, more);
    const create = async (call: object = CALL): Promise<Task> => {
      const { result } = await ask("tools/call", call);
      expect(isCreateTaskResultV2(result), JSON.stringify(result)).to.equal(true);
      return result as unknown as Task;
    };
    const get = async ({ taskId }: Task): Promise<Task> => {
      const { result } = await ask("tasks/get", { taskId });
      expect(isDetailedTaskV2(result), JSON.stringify(result)).to.equal(true);
      return result as unknown as Task;
    };
    const settled = async (task: Task): Promise<Task> => {
      let now = task;
      await until(async () => {
        now = await get(task);
        return now.status !== "working";
      });
      return now;
    };
    return { agentId, who, ask, create, get, settled };
  }
  const escalationOf = ({ taskId }: Task): string => taskId.slice(taskId.indexOf("esc_"));
  const answer = (task: Task, body: object) =>
    gateway.rest(`POST /v1/enforce/escalations/${escalationOf(task)}/resolve`, body);

  it("is followed to its result by the official client of the extension.", async () => {
    const agentId = await gateway.agent();
    const who = { ...gateway.headers, "x-agent-id": agentId };
    const client = await connectStateless(gateway.urlOf("bank"), who, FRAMING.clientCapabilities);
    expect(client.getServerCapabilities()?.extensions).to.have.property(EXTENSION);
    const rawDispatch: RawClientDispatch = async (request) => {
      const { method, params } = request as unknown as { method: string; params: Record<string, unknown> };
      const body = await send(gateway.urlOf("bank"), who, method, params);
      return (body.error === undefined
        ? { kind: "result", result: body.result }
        : { kind: "error", error: body.error }) as unknown as Awaited<ReturnType<RawClientDispatch>>;
    };
    const session = createTaskSessionFromClient(client, {
      endpointId: "bank",
      rawDispatch,
      v2RequestFraming: FRAMING,
    });
    const execution = await session.callTool("pay", { amount: 7 });
    expect(execution.kind).to.equal("task");
    const { escalations } = (await gateway.rest(
      `GET /v1/enforce/escalations?status=pending&agent_id=${agentId}`,
    )) as unknown as { escalations: { escalation_id: string }[] };
    await gateway.resolve(escalations[0]?.escalation_id ?? "", "approved");
    const { outcome } = await execution.settle();
    expect(JSON.stringify(outcome)).to.contain('pay {\\"amount\\":7}');
    expect(upstream.calls).to.deep.equal([CALL]);
    await session.close();
    await client.close();
  });

  it("is working until a person approves it, and is then forwarded once, however often it is asked for.", async () => {
    const { create, get, settled } = await open();
    const task = await create();
    expect(task.statusMessage).to.contain(`http://127.0.0.1:7080/escalations/${escalationOf(task)}`);
    expect((await get(task)).status).to.equal("working");
    await answer(task, { resolution: "approved" });
    await Promise.all(Array.from({ length: 10 }, () => get(task)));
    expect(textOf(await settled(task))).to.equal('pay {"amount":7}');
    expect(textOf(await get(task))).to.equal('pay {"amount":7}');
    expect(upstream.calls).to.have.length(1);
  });

  it("is one task for two identical calls, and is forwarded once for both.", async () => {
    const { create, settled } = await open();
    const [one, two] = [await create(), await create()];
    expect(two.taskId).to.equal(one.taskId);
    await answer(one, { resolution: "approved" });
    await Promise.all([settled(one), settled(two)]);
    expect(upstream.calls).to.have.length(1);
  });

  it("is never forwarded while nobody asks for it.", async () => {
    const { create } = await open();
    await answer(await create(), { resolution: "approved" });
    await gateway.rest("GET /v1/enforce/agents");
    expect(upstream.calls).to.have.length(0);
  });

  it("has its result observed in its own session and in the one that asks for it, which must be the agent's.", async () => {
    const { agentId, who } = await open();
    const begin = async (): Promise<string> => {
      const began = await gateway.rest("POST /v1/enforce/sessions", { agent_id: agentId, purpose: "test" });
      return (began as unknown as { session: { session_id: string } }).session.session_id;
    };
    const [own, other] = [await begin(), await begin()];
    const ask = async (sessionId: string, method: string, params: object) =>
      send(gateway.urlOf("bank"), { ...who, "x-session-id": sessionId }, method, params as never);
    const task = (await ask(own, "tools/call", CALL)).result as unknown as Task;
    await answer(task, { resolution: "approved" });
    await until(async () => (await ask(other, "tasks/get", task)).result?.status === "completed");
    for (const session of [own, other]) {
      const path = `POST /v1/enforce/sessions/${session}/observations`;
      const { replayed } = await gateway.rest(path, { source: "result", content: 'pay {"amount":7}' });
      expect(replayed, session === own ? "its own" : "the other").to.equal(true);
    }
    const counts = async () =>
      (await Promise.all([own, other].map((session) => gateway.rest(`GET /v1/enforce/sessions/${session}`)))).map(
        ({ observations }) => observations,
      );
    const before = await counts();
    await ask(own, "tasks/get", task);
    await ask(other, "tasks/get", task);
    expect(await counts()).to.deep.equal(before);
    for (const method of ["tasks/get", "tasks/cancel"])
      expect((await ask("ses_unknown", method, task)).error?.data, method).to.include({ reason: "SESSION_ENDED" });
  });

  it("completes with a person's note when it is rejected, and when its time is up.", async () => {
    const { create, settled } = await open();
    const rejected = await create();
    await answer(rejected, { resolution: "rejected", note: "ask accounting first" });
    const end = await settled(rejected);
    expect([end.status, end.result?.isError]).to.deep.equal(["completed", true]);
    expect(textOf(end)).to.contain("ask accounting first");
    expect(textOf(await settled(await create({ name: "expire", arguments: {} })))).to.contain("in time");
    expect(upstream.calls).to.have.length(0);
  });

  it("runs with the arguments that a person approved in its place.", async () => {
    const { create, settled } = await open();
    const task = await create();
    const edit = { arguments: { amount: 3 } };
    await gateway.rest(`POST /v1/enforce/escalations/${escalationOf(task)}/edit`, edit);
    expect(textOf(await settled(task))).to.equal('pay {"amount":3}');
    expect(upstream.calls).to.have.length(1);
  });

  it("waits for a second person where four eyes are wanted, whoever edits it, and is withdrawn with what it waits for.", async () => {
    await gateway.rest("PATCH /v1/admin/workspaces/default", { four_eyes: true });
    const [ann, bob] = [await ownedBy("Ann", gateway), await ownedBy("Bob", gateway)];
    const { ask, create, get, settled } = await open();
    const edited = async (task: Task): Promise<string> => {
      const edit = { arguments: { amount: 3 } };
      const { replacement } = await ann(`POST /v1/enforce/escalations/${escalationOf(task)}/edit`, edit);
      return String((replacement as unknown as { escalation_id: string }).escalation_id);
    };
    const task = await create();
    const waitsFor = await edited(task);
    const now = await get(task);
    expect([now.status, now.taskId]).to.deep.equal(["working", task.taskId]);
    expect(now.statusMessage).to.contain(`/escalations/${waitsFor}`);
    expect(upstream.calls).to.have.length(0);
    await bob(`POST /v1/enforce/escalations/${waitsFor}/resolve`, { resolution: "approved" });
    expect(textOf(await settled(task))).to.equal('pay {"amount":3}');
    const refused = await create();
    await bob(`POST /v1/enforce/escalations/${await edited(refused)}/resolve`, { resolution: "rejected", note: "no" });
    expect(textOf(await settled(refused))).to.contain('They said: "no"');
    const cancelled = await create();
    const withdrawn = await edited(cancelled);
    await ask("tasks/cancel", { taskId: cancelled.taskId });
    expect((await get(cancelled)).status).to.equal("cancelled");
    const { escalation } = await gateway.rest(`GET /v1/enforce/escalations/${withdrawn}`);
    expect(escalation).to.include({ status: "rejected", resolved_by: "withdrawal" });
    await gateway.rest("PATCH /v1/admin/workspaces/default", { four_eyes: false });
    expect(upstream.calls).to.have.length(1);
  });

  it("withdraws its escalation when it is cancelled, and is not forwarded later.", async () => {
    const { ask, create, get } = await open();
    const task = await create();
    expect((await ask("tasks/cancel", { taskId: task.taskId })).result).to.deep.equal({ resultType: "complete" });
    expect((await get(task)).status).to.equal("cancelled");
    const { escalation } = (await gateway.rest(`GET /v1/enforce/escalations/${escalationOf(task)}`)) as unknown as {
      escalation: { status: string; resolved_by: string };
    };
    expect([escalation.status, escalation.resolved_by]).to.deep.equal(["rejected", "withdrawal"]);
    const approved = await create();
    await answer(approved, { resolution: "approved" });
    await ask("tasks/cancel", { taskId: approved.taskId });
    expect((await get(approved)).status).to.equal("cancelled");
    expect(upstream.calls).to.have.length(0);
  });

  for (const end of ["its client cancels it", "its agent is revoked"]) {
    it(`is cancelled upstream when ${end} while it runs.`, async () => {
      const { ask, create, get, agentId } = await open();
      let isCancelled = false;
      upstream.answer = (_name, _args, signal) =>
        new Promise((resolve) =>
          signal.addEventListener("abort", () => {
            isCancelled = true;
            resolve({ content: [] });
          }),
        );
      const task = await create();
      await answer(task, { resolution: "approved" });
      expect((await get(task)).status).to.equal("working");
      await until(() => upstream.calls.length === 1);
      if (end.includes("revoked")) await gateway.rest(`POST /v1/enforce/agents/${agentId}/revoke`, { reason: "test" });
      else await ask("tasks/cancel", { taskId: task.taskId });
      await until(() => isCancelled);
      const { result, error } = await ask("tasks/get", { taskId: task.taskId });
      expect(JSON.stringify(result ?? error)).to.contain(end.includes("revoked") ? "AGENT_INACTIVE" : "cancelled");
    });
  }

  it("fails with the server's own error, and where the server needs input.", async () => {
    const { create, settled } = await open();
    for (const [what, text] of [
      ["error", "out of money"],
      ["input", "capability"],
    ]) {
      upstream.answer = () => {
        if (what === "error") throw new Error("out of money");
        return { resultType: "input_required", inputRequests: { who: { method: "roots/list" } } };
      };
      const task = await create({ name: "pay", arguments: { what } });
      await answer(task, { resolution: "approved" });
      const end = await settled(task);
      expect([end.status, end.error?.message].join(), JSON.stringify(end)).to.contain("failed").and.to.contain(text);
    }
  });

  it("is nobody else's: another agent, another server and a client without the capability are refused.", async () => {
    const { ask, create } = await open();
    const { taskId } = await create();
    const stranger = await open();
    for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
      const params = { taskId, inputResponses: {} };
      expect((await stranger.ask(method, params)).error?.code).to.equal(-32_602);
      expect((await ask(method, params, undefined, gateway.urlOf("other"))).error?.code).to.equal(-32_602);
      expect((await ask(method, { ...params, taskId: "agentcontrol.none" })).error?.code).to.equal(-32_602);
      const { error } = await ask(method, params, {});
      expect(error?.code).to.equal(-32_021);
      expect(error?.data).to.deep.equal({ requiredCapabilities: { extensions: { [EXTENSION]: {} } } });
    }
    expect((await ask("tasks/get", { taskId })).result).to.have.property("status", "working");
    // One that declares no tasks is held, and then told that the call is pending.
    expect(JSON.stringify(await ask("tools/call", CALL, {}))).to.contain("waits for a person");
  });
});
