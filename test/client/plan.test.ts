import { expect } from "chai";
import { AuthorityStatus } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import {
  AgentBlockedError,
  type ControlPlane,
  ControlPlaneRequestError,
  createControlPlane,
} from "../../src/client/index.ts";
import { createPlan, type PlannedStep, type PlanOptions } from "../../src/client/plan.ts";
import { AuthorityService, ToolService } from "../../src/client/proto.ts";
import type { TestService } from "../support/service.ts";
import { rejection, startRuledService } from "./harness.ts";

describe("a plan of the client library", () => {
  let service: TestService;
  let agentId: string;
  /** A library with a key of the agent alone. */
  let own: ControlPlane;
  const runs: string[] = [];

  before("starts a server", async () => {
    service = await startRuledService();
    const inputSchema = { type: "object", properties: { to: { type: "string" } } };
    for (const name of ["send_report", "read_file"])
      await service.admin.client(ToolService).registerTool({ name, inputSchema });
  });
  after("stops the server", () => service?.stop());
  beforeEach("makes an agent with its key", async () => {
    agentId = await service.agent();
    const { secret } = await service.admin.client(AuthorityService).createCredential({ agentId });
    own = createControlPlane({ baseUrl: service.http, apiKey: secret, agentId });
    runs.length = 0;
  });
  afterEach(() => own.close());

  const toolOf = (tool: string) =>
    own.guard(({ to }: { to: string }) => `ran ${runs.push(`${tool} ${to}`)}`, { tool, escalationTimeout: 0.2 });
  const steps: readonly PlannedStep[] = [
    { tool: "read_file" },
    { tool: "send_report", maxCalls: 1, conditions: [{ field: "to", operator: "==", value: "bob@example.com" }] },
  ];
  const planned = (over: Partial<PlanOptions> = {}) => createPlan(own, { goal: "send Bob the report", steps, ...over });
  const statusOf = async (sessionId: string) =>
    (await service.admin.client(AuthorityService).getSession({ sessionId })).session?.status;

  it("runs its calls and no other, with a key of the agent's own.", async () => {
    const plan = await planned();
    const [send, read] = [plan.within(toolOf("send_report")), plan.within(toolOf("read_file"))];
    expect(await read({ to: "x" })).to.equal("ran 1");
    for (const call of [
      () => send({ to: "eve@evil.example" }),
      () => plan.within(toolOf("delete_file"))({ to: "x" }),
    ]) {
      const error = await rejection(call());
      expect(error).to.be.instanceOf(AgentBlockedError);
      expect((error as AgentBlockedError).reasons[0]?.code).to.equal("OUTSIDE_CONTRACT");
    }
    expect(await send({ to: "bob@example.com" })).to.equal("ran 2");
    expect((await rejection(send({ to: "bob@example.com" }))).message).to.include("another call");
    expect(runs).to.deep.equal(["read_file x", "send_report bob@example.com"]);
  });

  it("ends its session, after which nothing of it runs.", async () => {
    const plan = await planned({ ttlSeconds: 60 });
    const read = plan.within(toolOf("read_file"));
    expect(await statusOf(plan.sessionId)).to.equal(AuthorityStatus.ACTIVE);
    await plan.end();
    await plan.end();
    expect(await statusOf(plan.sessionId)).to.equal(AuthorityStatus.ENDED);
    expect(await rejection(read({ to: "x" }))).to.be.instanceOf(AgentBlockedError);
    expect(runs).to.deep.equal([]);
  });

  it("is given to a session that is there, and leaves it open.", async () => {
    const { session } = await service.admin.client(AuthorityService).createSession({ agentId });
    const plan = await planned({ sessionId: session?.sessionId ?? "" });
    expect(plan.sessionId).to.equal(session?.sessionId);
    await plan.end();
    expect(await statusOf(plan.sessionId)).to.equal(AuthorityStatus.ACTIVE);
    const again = await rejection(planned({ sessionId: plan.sessionId }));
    expect(again).to.include({ reason: "SESSION_HAS_CONTRACT" });
    expect(again).to.be.instanceOf(ControlPlaneRequestError);
  });

  it("asks a person about other calls where it says so.", async () => {
    const plan = await planned({ outside: "escalate" });
    expect((await rejection(plan.within(toolOf("delete_file"))({ to: "x" }))).name).to.equal("EscalationTimeoutError");
    expect(runs).to.deep.equal([]);
  });

  it("leaves no session behind when its steps do not compile.", async () => {
    const conditions = [{ field: "recipient", operator: "==", value: "bob" }];
    const error = await rejection(planned({ steps: [{ tool: "send_report", conditions }] }));
    expect(error).to.include({ reason: "PLAN_INVALID" });
    const { sessions } = await service.admin.client(AuthorityService).listSessions({ agentId });
    expect(sessions.map(({ status }) => status)).to.deep.equal([AuthorityStatus.ENDED]);
  });

  it("is refused for another agent, without an agent, and for conditions that are none.", async () => {
    const other = await service.agent();
    expect(await rejection(planned({ agentId: other }))).to.include({ reason: "AGENT_NOT_ALLOWED" });
    const nameless = createControlPlane({ baseUrl: service.http, apiKey: service.adminKey });
    expect((await rejection(createPlan(nameless, { goal: "x", steps }))).message).to.include("`agentId` is missing");
    const conditions = [{ path: "to", is: "bob" }] as never;
    const error = await rejection(planned({ steps: [{ tool: "send_report", conditions }] }));
    expect(error).to.be.instanceOf(TypeError);
    expect(error.message).to.include("conditions of the step `send_report`");
    nameless.close();
  });

  it("is refused for counts that are no whole numbers, before anything is begun.", async () => {
    for (const count of [1.5, 0, -1, Number.NaN, Number.POSITIVE_INFINITY, "2" as never])
      for (const [name, over] of [
        ["ttlSeconds", { ttlSeconds: count }],
        ["maxCalls", { steps: [{ tool: "read_file", maxCalls: count }] }],
      ] as const) {
        const error = await rejection(planned(over));
        expect(error).to.be.instanceOf(TypeError);
        expect(error.message).to.equal(`\`${name}\` must be a whole number above 0, not \`${count}\``);
      }
    const { sessions } = await service.admin.client(AuthorityService).listSessions({ agentId });
    expect(sessions).to.deep.equal([]);
  });

  it("is cancelled by its signal.", async () => {
    const reason = new Error("enough");
    expect(await rejection(planned({ signal: AbortSignal.abort(reason) }))).to.equal(reason);
  });
});
