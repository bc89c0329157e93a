import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import {
  AgentBlockedError,
  type ControlPlane,
  EscalationTimeoutError,
  type InterceptReason,
  PendingApproval,
} from "../../src/client/index.ts";
import { blockedText } from "../../src/client/model-text.ts";
import { blockedText as gatewayText } from "../../src/gateway/tool-results.ts";
import type { SealedDecision } from "../../src/state/types.ts";
import type { TestService } from "../support/service.ts";
import { pendingEscalationOf, rejection, startRuledService } from "./harness.ts";

interface RetryCase {
  readonly name: string;
  readonly now: string;
  readonly reasons: readonly { readonly resets_at?: string; readonly decision?: "allow" | "escalate" }[];
  readonly retry_after: string | null;
  readonly text: string;
}

const CASES: readonly RetryCase[] = JSON.parse(
  readFileSync(join(import.meta.dirname, "../testdata/client/retry-after.json"), "utf8"),
);

const reasonsOf = ({ reasons }: RetryCase): InterceptReason[] =>
  reasons.map(({ resets_at: time, decision = null }) => ({
    code: "LIMIT_EXCEEDED",
    message: "3 matching actions in 60 s are more than 2",
    mandateId: null,
    mandateName: null,
    rule: null,
    argument: null,
    valueKind: null,
    wouldPass: null,
    remaining: 0,
    over: 1,
    resetsAt: time === undefined ? null : new Date(time),
    decision,
  }));

describe("the error of a refused call", () => {
  for (const each of CASES) {
    it(`tells ${each.name}.`, () => {
      const reasons = reasonsOf(each);
      const error = new AgentBlockedError("no", "block", { reasons });
      expect(error.retryAfter?.toISOString() ?? null).to.equal(each.retry_after);
      expect(blockedText("pay", reasons, Date.parse(each.now)).endsWith(each.text)).to.equal(true);
    });

    it(`tells ${each.name}, in the gateway too.`, () => {
      const reasons = reasonsOf(each).map(({ resetsAt, decision }) => ({
        code: "LIMIT_EXCEEDED",
        message: "too many",
        ...(resetsAt !== null && { resetsAtMs: resetsAt.getTime() }),
        ...(decision !== null && { decision }),
      }));
      const sealed = { decision: "block", reasons } as unknown as SealedDecision;
      const last = gatewayText("pay", sealed, Date.parse(each.now)).split("\n").at(-1);
      expect(last === each.text).to.equal(each.retry_after !== null);
    });
  }
});

describe("a call beyond a limit", () => {
  let service: TestService;
  let controlPlane: ControlPlane;
  before("starts a server", async () => {
    service = await startRuledService();
    controlPlane = service.admin;
  });
  after("stops the server", () => service?.stop());

  const limited = async (actionType: string, decision: string) => {
    const conditions = { mode: "velocity", match_action_types: [actionType], max_count: 1, window_seconds: 3600 };
    const rules = [{ type: "sequence", decision, conditions }];
    await service.rest("POST /v1/enforce/mandates", { name: `few of ${actionType}`, rules });
    return await service.agent();
  };
  const guarded = (agentId: string, actionType: string, more: object = {}) =>
    controlPlane.guard((amount: number) => `paid ${amount}`, {
      agentId,
      actionType,
      toArguments: (amount: number) => ({ amount }),
      ...more,
    });

  it("is refused with the time from which it may be tried again, for the program and for the model.", async () => {
    const call = guarded(await limited("cash.pay", "block"), "cash.pay");
    const startedAt = Date.now();
    await call(1);
    const error = (await rejection(call(1))) as AgentBlockedError;
    const [reason] = error.reasons;
    expect(reason).to.include({ code: "LIMIT_EXCEEDED", remaining: 0, decision: null });
    expect(error.retryAfter).to.deep.equal(reason?.resetsAt);
    expect(error.retryAfter?.getTime()).to.be.within(startedAt + 3_590_000, Date.now() + 3_610_000);
    expect(error.forModel).to.match(
      /^The action "cash\.pay" was not carried out: it is not permitted\. 2 matching actions in 3600 s are more than 1\. You may try it again after (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC\.$/,
    );
  });

  it("that asks for an approval tells from when it needs none.", async () => {
    const agentId = await limited("card.pay", "escalate");
    await guarded(agentId, "card.pay")(1);
    const pending = (await guarded(agentId, "card.pay", { waitOnEscalate: false })(1)) as unknown as PendingApproval;
    expect(pending).to.be.instanceOf(PendingApproval);
    expect(pending.retryAfter).to.deep.equal(pending.reasons[0]?.resetsAt);
    const late = (await rejection(
      guarded(agentId, "card.pay", { escalationTimeout: 0.2 })(2),
    )) as EscalationTimeoutError;
    expect(late).to.be.instanceOf(EscalationTimeoutError);
    expect(late.retryAfter).to.deep.equal(late.reasons[0]?.resetsAt);
    expect(late.forModel).to.match(/nobody answered in time\. You may try it again after .* UTC\.$/);
  });

  it("that a person rejected is not to be tried again.", async () => {
    const agentId = await limited("wire.pay", "escalate");
    await guarded(agentId, "wire.pay")(1);
    const call = rejection(guarded(agentId, "wire.pay")(3));
    const escalationId = await pendingEscalationOf(controlPlane, agentId);
    await service.rest(`POST /v1/enforce/escalations/${escalationId}/resolve`, { resolution: "rejected" });
    const error = (await call) as AgentBlockedError;
    expect(error.reasons[0]?.resetsAt).to.be.instanceOf(Date);
    expect(error.retryAfter).to.equal(null);
    expect(error.forModel).to.match(/Do not try it again unchanged\.$/);
  });
});
