import { expect } from "chai";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { guard } from "../../src/client/guard.ts";
import {
  AgentBlockedError,
  type ControlPlane,
  ControlPlaneRequestError,
  createControlPlane,
  EscalationTimeoutError,
  type InterceptResult,
  PendingApproval,
} from "../../src/client/index.ts";
import { presentationId } from "../../src/client/request-id.ts";
import { until } from "../support/harness.ts";
import type { TestService } from "../support/service.ts";
import { createProbe, NOWHERE, pendingEscalationOf, rejection, startRuledService } from "./harness.ts";

describe("guard", () => {
  let service: TestService;
  let controlPlane: ControlPlane;
  let agentId: string;

  before("starts a server", async () => {
    service = await startRuledService();
    controlPlane = service.admin;
  });
  after("stops the server", () => service?.stop());
  beforeEach("registers an agent", async () => {
    agentId = await service.agent();
  });

  it("runs the function with its own parameters, receiver and result when the action is allowed", async () => {
    const account = {
      balance: 5,
      add: controlPlane.guard(
        function (this: { balance: number }, amount: number, note: string) {
          return Promise.resolve(`${this.balance + amount} ${note}`);
        },
        { agentId, actionType: "account.add", toArguments: (amount, note) => ({ amount, note }) },
      ),
    };
    expect(await account.add(3, "euro")).to.equal("8 euro");
  });

  it("passes on what the function throws", async () => {
    const failing = controlPlane.guard(() => Promise.reject(new RangeError("own fault")), {
      agentId,
      actionType: "read",
      toArguments: () => ({}),
    });
    expect(await rejection(failing()))
      .to.be.instanceOf(RangeError)
      .with.property("message", "own fault");
  });

  it("presents an approval under an id that follows from the first attempt's", async () => {
    const sent: (string | undefined)[] = [];
    const watched: ControlPlane = Object.create(controlPlane);
    watched.intercept = (action, options) => {
      sent.push(action.requestId);
      return controlPlane.intercept(action, options);
    };
    const fn = () => "ran";
    const call = guard(watched, fn, { agentId, actionType: "review.pay", toArguments: () => ({}) })();
    const escalationId = await pendingEscalationOf(service.admin, agentId);
    await service.resolve(escalationId, "approved");
    expect(await call).to.equal("ran");
    const [first = "", presented] = sent;
    expect(sent.length).to.equal(2);
    expect(presented).to.equal(presentationId(first, escalationId));
  });

  it("does not run the function on block and says why", async () => {
    const probe = createProbe(controlPlane, { agentId, actionType: "danger.delete" });
    const error = (await rejection(probe.call(1))) as AgentBlockedError;
    expect(error).to.be.instanceOf(AgentBlockedError);
    expect(error).to.include({ decision: "block", escalationId: null, name: "AgentBlockedError" });
    expect(error.decisionId).to.match(/^dec_/);
    expect(error.reasons[0]).to.include({ code: "ACTION_MATCHED", mandateName: "house rules" });
    expect(error.message).to.contain("danger.delete").and.contain("too dangerous");
    expect(probe.runs).to.deep.equal([]);
  });

  it("runs the function only after a human approved", async () => {
    const seen: InterceptResult[] = [];
    const probe = createProbe(controlPlane, {
      agentId,
      actionType: "review.pay",
      onDecision: (each) => seen.push(each),
    });
    const outcome = probe.call(100);
    const escalationId = await pendingEscalationOf(service.admin, agentId);
    expect(probe.runs).to.deep.equal([]);
    await service.resolve(escalationId, "approved");
    expect(await outcome).to.equal("ran 1");
    expect(probe.runs).to.deep.equal([100]);
    expect(seen.map(({ decision, decisionPath }) => [decision, decisionPath])).to.deep.equal([
      ["escalate", "policy"],
      ["allow", "approved"],
    ]);
  });

  it("runs one of two functions that wait for the same approval, and the other after an approval of its own", async () => {
    const probes = [0, 1].map(() => createProbe(controlPlane, { agentId, actionType: "review.pay" }));
    const outcomes = probes.map((probe) => probe.call(100));
    const first = await pendingEscalationOf(service.admin, agentId);
    const escalations = service.admin.client(EscalationService);
    const read = async (escalationId: string) => (await escalations.getEscalation({ escalationId })).escalation;
    await until(async () => (await read(first))?.asked === 2);
    await service.resolve(first, "approved");
    await Promise.race(outcomes);
    await until(async () => (await read(first))?.replacedBy !== undefined);
    expect(probes.flatMap(({ runs }) => runs)).to.deep.equal([100]);
    await service.resolve((await read(first))?.replacedBy ?? "", "approved");
    expect(await Promise.all(outcomes)).to.deep.equal(["ran 1", "ran 1"]);
    expect(probes.map(({ runs }) => runs)).to.deep.equal([[100], [100]]);
  });

  it("does not run the function when a human rejected", async () => {
    const probe = createProbe(controlPlane, { agentId, actionType: "review.pay" });
    const outcome = rejection(probe.call(100));
    const escalationId = await pendingEscalationOf(service.admin, agentId);
    await service.resolve(escalationId, "rejected");
    const error = await outcome;
    expect(error).to.be.instanceOf(AgentBlockedError).and.include({ decision: "escalate", escalationId });
    expect(error).not.to.be.instanceOf(EscalationTimeoutError);
    expect(error.message).to.contain("was rejected");
    expect(probe.runs).to.deep.equal([]);
  });

  it("does not run the function when nobody resolves in time, and leaves the escalation pending", async () => {
    const probe = createProbe(controlPlane, { agentId, actionType: "review.pay", escalationTimeout: 0.3 });
    const error = (await rejection(probe.call(100))) as EscalationTimeoutError;
    expect(error).to.be.instanceOf(EscalationTimeoutError).and.instanceOf(AgentBlockedError);
    expect(error).to.include({ decision: "escalate", timeout: 0.3 });
    expect(error.decisionId).to.match(/^dec_/);
    expect(error.reasons).to.have.length(1);
    await service.resolve(error.escalationId ?? "", "approved");
    expect(probe.runs).to.deep.equal([]);
  });

  it("returns the escalation at once when it must not wait, and its action passes after an approval", async () => {
    const probe = createProbe(controlPlane, { agentId, actionType: "review.pay", waitOnEscalate: false });
    const pending = (await probe.call(100)) as PendingApproval;
    expect(pending).to.be.instanceOf(PendingApproval).and.to.include({ decision: "escalate", decisionPath: "policy" });
    expect(pending.decisionId).to.match(/^dec_/);
    expect(pending.escalationId).to.match(/^esc_/);
    expect(probe.runs).to.deep.equal([]);

    const { escalationId, action } = pending;
    const early = await controlPlane.intercept({ ...action, escalationId });
    expect(early.decision).to.equal("escalate");
    await service.resolve(escalationId, "approved");
    const late = createProbe(controlPlane, { agentId, actionType: "review.pay", waitOnEscalate: false, escalationId });
    expect(await late.call(100)).to.equal("ran 1");
    expect(await late.call(100)).to.be.instanceOf(PendingApproval);
  });

  it("does not run the function with arguments that changed after the approval was asked for", async () => {
    const order = { amount: 10 };
    const probe = createProbe(controlPlane, { agentId, actionType: "review.pay" });
    const outcome = rejection(probe.call(order));
    const escalationId = await pendingEscalationOf(service.admin, agentId);
    order.amount = 1_000_000;
    await service.resolve(escalationId, "approved");
    expect(await outcome)
      .to.be.instanceOf(AgentBlockedError)
      .with.property("decision", "escalate");
    expect(probe.runs).to.deep.equal([]);
  });

  it("does not run the function with arguments that changed while an allowed action was decided", async () => {
    const order = { amount: 10 };
    const probe = createProbe(controlPlane, { agentId, actionType: "pay" });
    const outcome = rejection(probe.call(order));
    order.amount = 1_000_000;
    expect((await outcome).message).to.contain("changed during the decision");
    expect(probe.runs).to.deep.equal([]);
  });

  it("does not run the function when the control plane cannot be reached", async () => {
    const away = createControlPlane({ baseUrl: NOWHERE, apiKey: "none", timeoutMs: 300 });
    const probe = createProbe(away, { agentId, actionType: "read" });
    const error = (await rejection(probe.call(1))) as AgentBlockedError;
    expect(error).to.be.instanceOf(AgentBlockedError).with.property("decision", null);
    expect(error.cause).to.be.instanceOf(ControlPlaneRequestError).with.property("code", "UNAVAILABLE");
    expect(probe.runs).to.deep.equal([]);
  });

  it("runs the function when the control plane cannot be reached and the caller chose to fail open", async () => {
    const away = createControlPlane({ baseUrl: NOWHERE, apiKey: "none", timeoutMs: 300 });
    const probe = createProbe(away, { agentId, actionType: "read", onUnreachable: "allow" });
    expect(await probe.call(1)).to.equal("ran 1");
  });

  it("never fails open on a block, a refused call or a fault of the caller's own code", async () => {
    const open = { onUnreachable: "allow" } as const;
    const blocked = createProbe(controlPlane, { agentId, actionType: "danger.delete", ...open });
    expect(await rejection(blocked.call(1))).to.be.instanceOf(AgentBlockedError);
    const unknown = createProbe(controlPlane, { agentId: "agt_unknown", actionType: "read", ...open });
    expect(await rejection(unknown.call(1)))
      .to.be.instanceOf(ControlPlaneRequestError)
      .with.property("code", "NOT_FOUND");
    const onDecision = () => {
      throw new ControlPlaneRequestError("UNAVAILABLE", "the audit is away");
    };
    const audited = createProbe(controlPlane, { agentId, actionType: "danger.delete", onDecision, ...open });
    expect((await rejection(audited.call(1))).message).to.equal("the audit is away");
    expect([...blocked.runs, ...unknown.runs, ...audited.runs]).to.deep.equal([]);
  });

  it("stops waiting for a human when the signal aborts, with the signal's reason", async () => {
    const leaving = new AbortController();
    const probe = createProbe(controlPlane, { agentId, actionType: "review.pay", signal: leaving.signal });
    const outcome = rejection(probe.call(100));
    const escalationId = await pendingEscalationOf(service.admin, agentId);
    const reason = new Error("the run was stopped");
    leaving.abort(reason);
    expect(await outcome).to.equal(reason);
    // Nobody asks for the approval any more.
    const path = `GET /v1/enforce/escalations/${escalationId}/status`;
    await until(async () => ((await service.rest(path)) as Record<string, unknown>).status === "rejected");
    expect(probe.runs).to.deep.equal([]);
  });
});
