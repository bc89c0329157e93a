import { expect } from "chai";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { type ControlPlane, createControlPlane, type InterceptAction } from "../../src/client/index.ts";
import { createGrpcInterceptChannel, createNodeControlPlane } from "../../src/client/node/index.ts";
import { freePort } from "../support/free-port.ts";
import type { TestService } from "../support/service.ts";
import { NOWHERE, rejection, startRuledService } from "./harness.ts";

describe("options of guarded functions", () => {
  let service: TestService;
  let agentId: string;
  let warnings: string[];
  let controlPlane: ControlPlane;
  before("starts a server", async () => {
    service = await startRuledService();
    agentId = await service.agent();
  });
  after("stops the server", () => service?.stop());
  beforeEach("connects for an agent", () => {
    warnings = [];
    const onWarning = (message: string) => void warnings.push(message);
    controlPlane = createControlPlane({ baseUrl: service.http, apiKey: service.adminKey, agentId, onWarning });
  });

  /** Remembers the action of each decision. */
  const noted = () => {
    const actions: InterceptAction[] = [];
    return { actions, onDecision: (_: unknown, action: InterceptAction) => void actions.push(action) };
  };

  describe("that are left out", () => {
    it("are the control plane's agent, the tool's name, and the members of the only parameter.", async () => {
      const { actions, onDecision } = noted();
      const pay = controlPlane.guard(({ amount }: { amount: number }) => `paid ${amount}`, { tool: "pay", onDecision });
      expect(await pay({ amount: 3 })).to.equal("paid 3");
      const tick = controlPlane.guard(() => "ticked", { actionType: "tick", onDecision });
      expect(await tick()).to.equal("ticked");
      const named = actions.map(({ agentId: agent, actionType, tool, metadata }) => [
        agent,
        actionType,
        tool,
        metadata,
      ]);
      expect(named).to.deep.equal([
        [agentId, "pay", "pay", { arguments: { amount: 3 } }],
        [agentId, "tick", undefined, { arguments: {} }],
      ]);
    });

    it("give way to those of the function.", async () => {
      const { actions, onDecision } = noted();
      const other = await service.agent();
      const options = { agentId: other, actionType: "send", tool: "pay", onDecision };
      await controlPlane.guard((amount: number) => amount, { ...options, toArguments: (sum) => ({ sum }) })(3);
      expect(actions).to.have.length(1);
      expect(actions[0]).to.deep.include({ agentId: other, actionType: "send", metadata: { arguments: { sum: 3 } } });
    });

    it("are the agent of an intercept, and of a watch while the function runs.", async () => {
      expect((await controlPlane.intercept({ actionType: "read", actionContent: "" })).decision).to.equal("allow");
      const isStopped = (signal: AbortSignal) => signal.aborted;
      const stoppable = controlPlane.guardWithSignal(isStopped, { actionType: "read" });
      expect(await stoppable()).to.equal(false);
    });

    it("are named by an error if nothing stands for them.", async () => {
      const bare = createControlPlane({ baseUrl: service.http, apiKey: service.adminKey });
      const run = (amount: number) => amount;
      const toArguments = (amount: number) => ({ amount });
      expect(() => bare.guard(run, { actionType: "pay", toArguments })).to.throw(TypeError, "`agentId` is missing");
      expect(() => controlPlane.guard(run, { toArguments })).to.throw(TypeError, "`actionType` is missing");
      const intercepted = bare.intercept({ actionType: "pay", actionContent: "" });
      expect(await rejection(intercepted))
        .to.be.instanceOf(TypeError)
        .with.property("message")
        .that.includes("`agentId`");
    });

    it("cannot be `toArguments` of a function whose parameters have no names for rules.", async () => {
      const before = await service.decisionIdsOf(agentId);
      const many = (amount: number, to: string) => `${amount} ${to}`;
      // @ts-expect-error: without types nothing else names it.
      expect(() => controlPlane.guard(many, { actionType: "pay" })).to.throw(TypeError, "`toArguments` is missing");
      const calls: readonly (readonly unknown[])[] = [[1], [[1]], ["a"], [{ amount: 1 }, 9_000]];
      for (const args of calls) {
        let runs = 0;
        const only = controlPlane.guard((..._: never) => ++runs, { actionType: "pay" } as never);
        expect((await rejection(only(...(args as never)))).message).to.contain("`toArguments` is missing");
        expect(runs).to.equal(0);
      }
      expect(await service.decisionIdsOf(agentId)).to.deep.equal(before);
    });
  });

  describe("with the name of a tool", () => {
    it("warn once if it is not registered, and name it.", async () => {
      const call = () => controlPlane.guard(() => 1, { tool: "pay_mistyped" });
      await call()();
      await call().with({})();
      expect(warnings).to.have.length(1);
      expect(warnings[0]).to.match(/^tool `pay_mistyped` is not registered at the control plane/);
      const seen: (string | null)[] = [];
      await controlPlane.guard(() => 1, { actionType: "tick", onDecision: ({ tool }) => seen.push(tool) })();
      expect([warnings.length, seen]).to.deep.equal([1, [null]]);
    });

    it("do not warn of one that is registered, also when its action is blocked.", async () => {
      await service.rest("POST /v1/enforce/tools", { name: "Pay_Known", input_schema: { type: "object" } });
      const seen: (string | null)[] = [];
      const onDecision = ({ tool }: { tool: string | null }) => seen.push(tool);
      for (const wire of ["http", "grpc"] as const) {
        const connected = createNodeControlPlane({
          baseUrl: service.http,
          ...(wire === "grpc" && { grpcUrl: service.grpc }),
          apiKey: service.adminKey,
          agentId,
          onWarning: (message) => warnings.push(message),
        });
        await connected.guard(() => 1, { tool: "pay_known", onDecision })();
        await rejection(connected.guard(() => 1, { tool: "pay_known", actionType: "danger.pay", onDecision })());
        connected.close();
      }
      expect(seen).to.deep.equal(Array(4).fill("Pay_Known"));
      expect(warnings).to.deep.equal([]);
    });
  });
});

describe("errors of a connection", () => {
  const away = createControlPlane({ baseUrl: NOWHERE, apiKey: "acp_some_key", agentId: "agt_1", timeoutMs: 200 });
  const told = (call: Promise<unknown>) => rejection(call).then(({ message }) => message);

  it("name the address and the cause: of an intercept, of a guarded call, of another call and of a stream.", async () => {
    const cause = `${NOWHERE}: connect ECONNREFUSED 127.0.0.1:4747`;
    const intercepted = await told(away.intercept({ actionType: "read", actionContent: "" }));
    expect(intercepted).to.equal(`the control plane did not answer: ${cause}`);
    const guarded = await told(away.guard(() => 1, { actionType: "read" })());
    expect(guarded).to.equal(`the action could not be decided: the control plane did not answer: ${cause}`);
    const agents = away.client(AgentService);
    expect(await told(agents.listAgents({}))).to.equal(`[unknown] ${cause}`);
    const watching = agents.watchAgent({ agentId: "agt_1" })[Symbol.asyncIterator]();
    expect(await told(watching.next())).to.equal(`[unknown] ${cause}`);
  });

  it("name every address of a host, and the name of a host that has none.", async () => {
    const port = await freePort();
    const local = createControlPlane({ baseUrl: `localhost:${port}`, apiKey: "key", agentId: "a", timeoutMs: 3_000 });
    expect(await told(local.intercept({ actionType: "read", actionContent: "" }))).to.match(
      new RegExp(
        `^the control plane did not answer: http://localhost:${port}: .*connect ECONNREFUSED 127.0.0.1:${port}`,
      ),
    );
    const named = { baseUrl: "http://control-plane.invalid", apiKey: "key", agentId: "a", timeoutMs: 3_000 };
    const unknown = createControlPlane(named).intercept({ actionType: "read", actionContent: "" });
    expect(await told(unknown)).to.match(
      /http:\/\/control-plane\.invalid: getaddrinfo (ENOTFOUND|EAI_AGAIN) control-plane\.invalid$/,
    );
  });

  it("name the address of the gRPC port and the cause.", async () => {
    const port = await freePort();
    const channel = createGrpcInterceptChannel({ url: `127.0.0.1:${port}`, apiKey: "key" });
    const request = { requestId: "3b241101-e2bb-4255-8caf-4136c566a962" };
    const fault = await rejection(channel.intercept(request as never, { signal: undefined, timeoutMs: 2_000 }));
    channel.close();
    expect(fault.message).to.match(
      new RegExp(`^the stream to 127.0.0.1:${port} ended: .*connect ECONNREFUSED 127.0.0.1:${port}`),
    );
    expect(fault).to.include({ code: "UNAVAILABLE", reached: false });
  });
});
