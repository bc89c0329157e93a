import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import {
  AgentBlockedError,
  AgentStoppedError,
  AlreadyClaimedError,
  type ControlPlane,
  type ControlPlaneRequestError,
  createControlPlane,
  type InterceptResult,
} from "../../src/client/index.ts";
import { until } from "../support/harness.ts";
import type { TestService } from "../support/service.ts";
import { createProbe, NOWHERE, pendingEscalationOf, rejection, startRuledService } from "./harness.ts";

describe("single calls of a guarded function", () => {
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

  const escalation = async (escalationId: string) =>
    (await controlPlane.client(EscalationService).getEscalation({ escalationId })).escalation;
  const read = async (request: string, body?: object) =>
    (await service.rest(request, body)) as unknown as Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  const newSession = async (): Promise<string> =>
    String((await read("POST /v1/enforce/sessions", { agent_id: agentId })).session?.session_id);
  const guarded = (more: object = {}) => {
    const seen: InterceptResult[] = [];
    const call = controlPlane.guard((amount: number) => `paid ${amount}`, {
      agentId,
      actionType: "pay",
      toArguments: (amount: number) => ({ amount }),
      onDecision: (result) => seen.push(result),
      ...more,
    });
    return { call, seen };
  };
  /** A library whose calls of one method stop before, or after, they reach the service. */
  const held = (method: string, when: "before" | "after") => {
    const [reached, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const fetch: typeof globalThis.fetch = async (input, init) => {
      if (!String(input).endsWith(`/${method}`)) return await globalThis.fetch(input, init);
      const response = when === "after" ? await globalThis.fetch(input, init) : undefined;
      reached.resolve();
      await release.promise;
      return response ?? (await globalThis.fetch(input, init));
    };
    const { http: baseUrl, adminKey: apiKey } = service;
    const library = createControlPlane({ baseUrl, apiKey, fetch });
    return { library, reached: reached.promise, release: release.resolve };
  };

  describe("take options of their own", () => {
    it("for the session, the principal and the request id, and leave those of other calls.", async () => {
      const principal = await service.agent();
      const grant = { grantor_agent_id: principal, grantee_agent_id: agentId, action_types: ["pay"] };
      await service.rest("POST /v1/enforce/grants", grant);
      const sessionId = await newSession();
      const { call, seen } = guarded();
      const requestId = randomUUID();
      const own = call.with({ sessionId, onBehalfOf: principal }).with({ requestId });
      expect([await own(1), await call(2)]).to.deep.equal(["paid 1", "paid 2"]);
      expect(await rejection(own(1))).to.be.instanceOf(AlreadyClaimedError);
      const [first, other, again] = seen as [InterceptResult, InterceptResult, InterceptResult];
      expect([first.replayed, other.replayed, again.replayed]).to.deep.equal([false, false, true]);
      expect(again.decisionId).to.equal(first.decisionId);
      const receiptOf = async (decisionId: string) => (await read(`GET /v1/enforce/decisions/${decisionId}`)).receipt;
      expect(await receiptOf(first.decisionId)).to.include({ session_id: sessionId, on_behalf_of: principal });
      expect(await receiptOf(other.decisionId)).to.include({ session_id: null, on_behalf_of: null });
    });

    it("in place of those of the function; an undefined one changes nothing.", async () => {
      const { call } = guarded({ sessionId: "ses_unknown" });
      expect(await rejection(call.with({ sessionId: undefined })(1))).to.be.instanceOf(AgentBlockedError);
      expect(await call.with({ sessionId: await newSession() })(1)).to.equal("paid 1");
    });

    it("for the receiver: it stays that of the call.", async () => {
      const account = {
        balance: 5,
        add: controlPlane.guard(
          function (this: { readonly balance: number }, amount: number) {
            return this.balance + amount;
          },
          { agentId, actionType: "pay", toArguments: (amount) => ({ amount }) },
        ),
      };
      expect(await account.add.with({}).call(account, 3)).to.equal(8);
    });

    it("for the signal, beside that of the function: either gives the call up.", async () => {
      for (const which of [0, 1]) {
        const signals = [new AbortController(), new AbortController()] as const;
        const { call } = guarded({ actionType: "review.pay", signal: signals[0].signal });
        const outcome = rejection(call.with({ signal: signals[1].signal })(which));
        const escalationId = await pendingEscalationOf(controlPlane, agentId);
        const reason = new Error("the run was stopped");
        signals[which as 0 | 1].abort(reason);
        expect(await outcome).to.equal(reason);
        await until(async () => (await escalation(escalationId))?.resolvedBy === "withdrawal");
      }
    });
  });

  describe("that are given up", () => {
    it("while an approval is waited for take back their own ask only.", async () => {
      const leaving = new AbortController();
      const { call } = guarded({ actionType: "review.pay" });
      const leaver = rejection(call.with({ signal: leaving.signal })(5));
      const stayer = call(5);
      const escalationId = await pendingEscalationOf(controlPlane, agentId);
      await until(async () => (await escalation(escalationId))?.asked === 2);
      leaving.abort();
      await leaver;
      await until(async () => (await escalation(escalationId))?.asked === 1);
      await service.resolve(escalationId, "approved");
      expect(await stayer).to.equal("paid 5");
    });

    it("while they are decided take back the ask that the decision made.", async () => {
      const { library, reached, release } = held("Intercept", "after");
      const leaving = new AbortController();
      const probe = createProbe(library, { agentId, actionType: "review.pay", signal: leaving.signal });
      const outcome = rejection(probe.call(1));
      await reached;
      leaving.abort();
      expect(await outcome).to.equal(leaving.signal.reason);
      const escalationId = await pendingEscalationOf(controlPlane, agentId);
      release();
      await until(async () => (await escalation(escalationId))?.resolvedBy === "withdrawal");
      expect(probe.runs).to.deep.equal([]);
    });

    it("while the function runs abort its signal, and end as the function does.", async () => {
      for (const abortWhenRevoked of [true, false]) {
        const leaving = new AbortController();
        const running = Promise.withResolvers<void>();
        const work = controlPlane.guardWithSignal(
          (signal, amount: number) => {
            running.resolve();
            return new Promise<string>((resolve) => {
              signal.addEventListener("abort", () => resolve(`stopped at ${amount}: ${signal.reason}`));
            });
          },
          { agentId, actionType: "pay", toArguments: (amount) => ({ amount }), abortWhenRevoked },
        );
        const outcome = work.with({ signal: leaving.signal })(9);
        await running.promise;
        leaving.abort("enough");
        expect(await outcome).to.equal("stopped at 9: enough");
      }
    });

    it("before they run do not run, even if nothing could be decided.", async () => {
      const leaving = new AbortController();
      const away = createControlPlane({ baseUrl: NOWHERE, apiKey: "none", timeoutMs: 200 });
      const onUnchecked = () => leaving.abort(new Error("rather not"));
      const probe = createProbe(away, {
        agentId,
        actionType: "read",
        onUnreachable: "allow",
        onUnchecked,
        signal: leaving.signal,
      });
      expect((await rejection(probe.call(1))).message).to.equal("rather not");
      expect(probe.runs).to.deep.equal([]);
    });
  });

  describe("wait for hooks", () => {
    it("that are asynchronous, and do not run when one rejects.", async () => {
      const steps: string[] = [];
      const onDecision = async () => {
        await new Promise((resolve) => setImmediate(resolve));
        steps.push("told");
      };
      const probe = createProbe(controlPlane, { agentId, actionType: "read", onDecision });
      await probe.call(1).then(() => steps.push("ran"));
      expect(steps).to.deep.equal(["told", "ran"]);
      const failing = () => Promise.reject(new Error("the audit is away"));
      const audited = createProbe(controlPlane, { agentId, actionType: "read", onDecision: failing });
      expect((await rejection(audited.call(1))).message).to.equal("the audit is away");
      const away = createControlPlane({ baseUrl: NOWHERE, apiKey: "none", timeoutMs: 200 });
      const unchecked = createProbe(away, {
        agentId,
        actionType: "read",
        onUnreachable: "allow",
        onUnchecked: failing,
      });
      expect((await rejection(unchecked.call(1))).message).to.equal("the audit is away");
      expect([...audited.runs, ...unchecked.runs]).to.deep.equal([]);
    });
  });

  describe("that are refused tell a model", () => {
    const wordsOf = async (call: Promise<unknown>): Promise<string> => {
      const error = await rejection(call);
      expect(error).to.be.instanceOf(AgentBlockedError);
      return (error as AgentBlockedError).forModel;
    };

    it("why an action is not permitted, and what would be.", async () => {
      await service.rest("POST /v1/enforce/tools", {
        name: "refund",
        input_schema: { type: "object", properties: { amount: { type: "number" } } },
      });
      await service.rest("POST /v1/enforce/mandates", {
        name: `refunds ${agentId}`,
        scope: "agent",
        agent_id: agentId,
        rules: [
          {
            type: "argument",
            tool: "refund",
            decision: "block",
            description: "refunds are small",
            conditions: { rules: [{ field: "amount", operator: ">", value: 500 }] },
          },
        ],
      });
      const words = await wordsOf(guarded({ tool: "refund" }).call(501));
      expect(words).to.match(/^The action "pay" was not carried out: it is not permitted\. .*refunds are small/);
      expect(words)
        .to.contain("amount <= 500")
        .and.match(/Do not try it again unchanged\.$/);
      expect(words).not.to.match(/\b(dec|esc|mnd|agt)_/);
    });

    it("what the person said who rejected it.", async () => {
      const words = wordsOf(guarded({ actionType: "review.pay" }).call(1));
      const escalationId = await pendingEscalationOf(controlPlane, agentId);
      const resolution = { resolution: "rejected", note: "ask Ann first" };
      await service.rest(`POST /v1/enforce/escalations/${escalationId}/resolve`, resolution);
      expect(await words).to.equal(
        'The action "review.pay" was not carried out: a person rejected it. They said: "ask Ann first". Do not try it again unchanged.',
      );
    });

    it("with which arguments a person would approve it.", async () => {
      const words = wordsOf(guarded({ actionType: "review.pay" }).call(100));
      const escalationId = await pendingEscalationOf(controlPlane, agentId);
      await service.rest(`POST /v1/enforce/escalations/${escalationId}/edit`, { arguments: { amount: 40 } });
      expect(await words).to.contain('They would approve it with these arguments: {"amount":40}.');
    });

    it("that nobody answered, that the ask was withdrawn, or that it could not be checked.", async () => {
      const unanswered = await wordsOf(guarded({ actionType: "review.pay", escalationTimeout: 0.2 }).call(1));
      expect(unanswered).to.contain("nobody answered in time").and.contain("ask for it again later");
      const withdrawn = wordsOf(guarded({ actionType: "review.two" }).call(1));
      await until(async () => {
        const { escalations } = await controlPlane.client(EscalationService).listEscalations({ agentId });
        const asked = escalations.find(({ actionType }) => actionType === "review.two");
        if (asked === undefined) return false;
        await controlPlane.withdrawEscalation(asked.escalationId);
        return true;
      });
      expect(await withdrawn).to.contain("withdrawn");
      const away = createControlPlane({ baseUrl: NOWHERE, apiKey: "none", timeoutMs: 200 });
      const unchecked = await wordsOf(createProbe(away, { agentId, actionType: "read" }).call(1));
      expect(unchecked).to.contain("the check is not available at the moment").and.not.contain("ECONNREFUSED");
    });

    it("to stop, when its agent must.", () => {
      const revoked = new AgentStoppedError("agt_1", { change: "revoked" });
      expect(revoked.forModel).to.equal("Stop now: you were revoked. Take no further action.");
      const killed = new AgentStoppedError("agt_1", { change: "killed", sessionId: "ses_1" });
      expect(killed.forModel).to.equal("Stop now: your session was ended. Take no further action.");
    });
  });

  describe("withdrawEscalation", () => {
    it("rejects for an escalation that is resolved, or that does not exist.", async () => {
      const { escalationId } = await controlPlane.intercept({ agentId, actionType: "review.pay", actionContent: "" });
      await service.resolve(escalationId ?? "", "approved");
      const late = await rejection(controlPlane.withdrawEscalation(escalationId ?? ""));
      expect(late as ControlPlaneRequestError).to.include({ reason: "ESCALATION_RESOLVED" });
      const unknown = await rejection(controlPlane.withdrawEscalation("esc_unknown"));
      expect(unknown as ControlPlaneRequestError).to.include({ code: "NOT_FOUND" });
    });
  });
});
