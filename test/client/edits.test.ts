import { expect } from "chai";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { MandateService } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { AgentBlockedError, type ControlPlane, type EditableGuardOptions } from "../../src/client/index.ts";
import type { TestService } from "../support/service.ts";
import { pendingEscalationOf, rejection, startRuledService } from "./harness.ts";

type Pay = [amount: number, to: { name: string }];

describe("guard with acceptEdits", () => {
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

  const optionsWith = (more: Partial<EditableGuardOptions<Pay>> = {}): EditableGuardOptions<Pay> => ({
    agentId,
    actionType: "review.pay",
    toArguments: (amount, to) => ({ amount, to: to.name }),
    acceptEdits: true,
    fromArguments: ({ amount, to }) => [Number(amount), { name: String(to) }],
    ...more,
  });
  const editing = async (args: object): Promise<string> => {
    const escalationId = await pendingEscalationOf(controlPlane, agentId);
    await controlPlane.client(EscalationService).editEscalation({ escalationId, arguments: args as never });
    return escalationId;
  };
  const payWith = (options: EditableGuardOptions<Pay>) => {
    const runs: unknown[] = [];
    const pay = controlPlane.guard((amount: number, to: { name: string }) => {
      runs.push([amount, to.name]);
      return `paid ${amount} to ${to.name}`;
    }, options);
    return { runs, call: pay(100, { name: "Ann" }) };
  };

  it("runs the function with the arguments that a person approved, and uses that approval up", async () => {
    for (const toContent of [undefined, (amount: number) => `pay ${amount}`]) {
      agentId = await service.agent();
      const { runs, call } = payWith(optionsWith({ toContent }));
      const escalationId = await editing({ to: "Bob", amount: 50 });
      expect(await call).to.equal("paid 50 to Bob");
      expect(runs).to.deep.equal([[50, "Bob"]]);
      const escalations = controlPlane.client(EscalationService);
      const { escalation } = await escalations.getEscalation({ escalationId });
      const approved = await escalations.getEscalation({ escalationId: escalation?.replacedBy ?? "" });
      expect(approved.escalation?.usedByDecisionId).to.match(/^dec_/);
      expect(approved.escalation?.arguments).to.deep.equal({ amount: 50, to: "Bob" });
    }
  });

  it("runs the arguments of the call where nobody edited them", async () => {
    const { call } = payWith(optionsWith());
    await service.resolve(await pendingEscalationOf(controlPlane, agentId), "approved");
    expect(await call).to.equal("paid 100 to Ann");
  });

  it("does not run what stands for other arguments than the approved ones", async () => {
    for (const fromArguments of [
      (): Pay => [100, { name: "Ann" }],
      ({ amount }: Readonly<Record<string, unknown>>): Pay => [Number(amount) + 1, { name: "Bob" }],
    ]) {
      agentId = await service.agent();
      const { runs, call } = payWith(optionsWith({ fromArguments }));
      const failed = rejection(call);
      await editing({ to: "Bob", amount: 50 });
      const error = await failed;
      expect(error).to.be.instanceOf(AgentBlockedError);
      expect(error.message).to.contain("fromArguments");
      expect(runs).to.deep.equal([]);
    }
  });

  it("passes on what `fromArguments` throws, and does not run", async () => {
    const fault = new RangeError("no such person");
    const { runs, call } = payWith(
      optionsWith({
        fromArguments: () => {
          throw fault;
        },
      }),
    );
    const failed = rejection(call);
    await editing({ to: "Bob", amount: 50 });
    expect(await failed).to.equal(fault);
    expect(runs).to.deep.equal([]);
  });

  it("is needed to run edited arguments: without it the call is rejected", async () => {
    const { acceptEdits: _, fromArguments: __, ...plain } = optionsWith();
    const runs: unknown[] = [];
    const call = controlPlane.guard((...args: Pay) => runs.push(args), plain)(100, { name: "Ann" });
    const failed = rejection(call);
    await editing({ to: "Bob", amount: 50 });
    expect((await failed).message).to.contain("was rejected");
    expect(runs).to.deep.equal([]);
  });

  it("is refused without `fromArguments`", () => {
    const options = { ...optionsWith(), fromArguments: undefined } as never;
    expect(() => controlPlane.guard((..._: Pay) => 0, options)).to.throw(TypeError, "fromArguments");
  });

  it("lets a wait resolve with what was approved instead", async () => {
    const { escalationId } = await controlPlane.intercept({ agentId, actionType: "review.pay", actionContent: "pay" });
    const waits = [
      controlPlane.waitForEscalation(escalationId ?? "", { acceptEdits: true }),
      controlPlane.waitForEscalation(escalationId ?? ""),
    ];
    await editing({ amount: 1 });
    const [edited, plain] = await Promise.all(waits);
    expect(plain).to.equal("rejected");
    expect(edited).to.deep.include({ arguments: { amount: 1 }, actionContent: "pay" });
    const { decision } = await controlPlane.intercept({
      agentId,
      actionType: "review.pay",
      actionContent: "pay",
      metadata: { arguments: { amount: 1 } },
      escalationId: (edited as { escalationId: string }).escalationId,
    });
    expect(decision).to.equal("allow");
    const other = await controlPlane.intercept({ agentId, actionType: "review.two", actionContent: "" });
    const rejected = controlPlane.waitForEscalation(other.escalationId ?? "", { acceptEdits: true });
    await service.resolve(other.escalationId ?? "", "rejected");
    expect(await rejected).to.equal("rejected");
  });

  it("runs with edited arguments that need no approval by now", async () => {
    const { runs, call } = payWith(optionsWith());
    await pendingEscalationOf(controlPlane, agentId);
    const mandates = controlPlane.client(MandateService);
    for (const { mandateId } of (await mandates.listMandates({})).mandates)
      await mandates.archiveMandate({ mandateId });
    await editing({ to: "Bob", amount: 50 });
    expect(await call).to.equal("paid 50 to Bob");
    expect(runs).to.deep.equal([[50, "Bob"]]);
  });
});
