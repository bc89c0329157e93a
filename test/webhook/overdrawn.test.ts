import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect } from "chai";
import { RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, OutcomeStatus, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { actionRule, reasonOf } from "../support/harness.ts";
import { CALLER, type DeliveryTest, openDelivery, PERSONAL } from "./harness.ts";

const EVENTS = ["budget.overdrawn", "agent.revoked"];

const SCHEMA = {
  type: "object",
  properties: { amount: { type: "number" }, currency: { type: "string" }, note: { type: "string" } },
};

describe("the event of an overdrawn budget", () => {
  let test: DeliveryTest;
  let mandateId = "";
  const children: ChildProcess[] = [];

  beforeEach(async () => {
    test = await openDelivery();
    await test.tools.registerTool({ name: "transfer", inputSchema: SCHEMA });
    mandateId = await test.mandate([budget(Decision.ESCALATE, Scope.WORKSPACE)]);
  });
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
    await test.close();
  });

  const budget = (decision: Decision, scope: Scope) => ({
    type: RuleType.SEQUENCE,
    decision,
    conditions: {
      mode: SequenceMode.BUDGET,
      sums: [{ tool: "transfer", field: "amount" }],
      currency: "EUR",
      maxTotal: 10,
      windowSeconds: 3_600n,
      scope,
    },
  });

  async function pay(amount: number, escalationId?: string) {
    const { agentId } = test;
    const metadata = { arguments: { amount, currency: "EUR", note: PERSONAL } };
    return test.intercept({ agentId, actionType: "money.send", tool: "transfer", metadata, escalationId });
  }

  /** Asks for a payment that exceeds the budget, has it approved, and makes it. */
  async function payApproved(amount: number) {
    const { escalationId = "" } = await pay(amount);
    await test.resolve(escalationId);
    return { ...(await pay(amount, escalationId)), escalationId };
  }

  const capture = (decisionId: string, amount?: number, replica = test.enforcement) =>
    replica.reportOutcome({ decisionId, status: OutcomeStatus.SUCCEEDED, ...(amount !== undefined && { amount }) });

  /** Ends the log with an event, so that everything before it has arrived. */
  async function eventsOf(count: number) {
    await test.revocations.revokeAgent({ agentId: test.agentId });
    await test.receiver.waitUntil(() => test.receiver.received.some(({ body }) => body.includes("agent.revoked")));
    const events = test.receiver.received.map(({ body }) => JSON.parse(body));
    expect(events.at(-1).type).to.equal("agent.revoked");
    expect(events.slice(0, -1).map(({ type }) => type)).to.deep.equal(new Array(count).fill("budget.overdrawn"));
    return events.slice(0, -1).map(({ data }) => data);
  }

  it("names decision, budget and amounts when more is captured than was reserved, and nothing that people wrote.", async () => {
    test.start();
    await test.register(EVENTS);
    const { decisionId } = await pay(4);
    await capture(decisionId, 11.25);
    const [data] = await eventsOf(1);
    const { pot, ...named } = data.budgets[0];
    expect(pot).to.match(/^[0-9a-f]{32}$/);
    expect(named).to.deep.equal({
      mandate_id: mandateId,
      rule: "rules[0]",
      scope: "workspace",
      group: "default",
      currency: "EUR",
      reserved: 4,
      captured: 11.25,
    });
    const { decision } = await test.enforcement.getDecision({ decisionId });
    expect(data).to.deep.include({
      workspace_id: "default",
      decision_id: decisionId,
      agent_id: test.agentId,
      action_type: "money.send",
      decided_at: new Date(
        Number(decision?.decidedAt?.seconds) * 1_000 + (decision?.decidedAt?.nanos ?? 0) / 1e6,
      ).toISOString(),
      status: "succeeded",
      cause: "capture",
    });
    expect(JSON.stringify(data)).not.to.include(PERSONAL);
  });

  it("does not come for what was reserved, less, nothing, or a failure.", async () => {
    test.start();
    await test.register(EVENTS);
    const paid = [await pay(2), await pay(2), await pay(2), await pay(2)].map(({ decisionId }) => decisionId);
    const [whole = "", exact = "", less = "", failed = ""] = paid;
    await capture(whole);
    await capture(exact, 2);
    await capture(less, 1.999999);
    await test.enforcement.reportOutcome({ decisionId: failed, status: OutcomeStatus.FAILED });
    expect(await eventsOf(0)).to.deep.equal([]);
  });

  it("comes when an approval lets a budget be exceeded, and not when one approves what fits.", async () => {
    test.start();
    await test.register(EVENTS);
    await pay(9);
    const { decisionId, decision, escalationId } = await payApproved(5);
    expect(decision).to.equal(Decision.ALLOW);
    const asking = await test.mandate([actionRule(Decision.ESCALATE, "money.*")]);
    await test.mandates.archiveMandate({ mandateId });
    await payApproved(5);
    await test.mandates.archiveMandate({ mandateId: asking });
    const [data] = await eventsOf(1);
    const { pot, ...named } = data.budgets[0];
    expect(pot).to.match(/^[0-9a-f]{32}$/);
    expect(named).to.deep.equal({
      mandate_id: mandateId,
      rule: "rules[0]",
      scope: "workspace",
      group: "default",
      currency: "EUR",
      limit: 10,
      total: 14,
    });
    expect(data).to.deep.include({ decision_id: decisionId, escalation_id: escalationId, cause: "approval" });
    expect(JSON.stringify(data)).not.to.include(PERSONAL);
  });

  it("comes for each pot that the amount overdraws, also for one whose budget does not cover the agent.", async () => {
    const other = await test.agent("other");
    await test.mandate([budget(Decision.BLOCK, Scope.AGENT)], { scope: Scope.AGENT, agentId: other });
    test.start();
    await test.register(EVENTS);
    const { decisionId } = await pay(4);
    await capture(decisionId, 5);
    const [data] = await eventsOf(1);
    const amounts = { currency: "EUR", reserved: 4, captured: 5 };
    expect(data.budgets).to.have.length(2);
    for (const each of data.budgets) expect(each).to.deep.include(amounts);
    expect(data.budgets.map(({ mandate_id }: { mandate_id?: string }) => mandate_id ?? "")).to.have.members([
      mandateId,
      "",
    ]);
    const { body } = await test.receipt(decisionId);
    expect(body.reserved?.map(({ pot }) => pot)).to.have.members(data.budgets.map(({ pot }: { pot: string }) => pot));
  });

  it("comes once for each entry, whichever replica reports, approves or delivers.", async () => {
    const second = await test.replica();
    const there = test.openWebhooks({}, second);
    test.start();
    there.start();
    await test.register(EVENTS);
    const { decisionId } = await pay(4);
    const reports = [test, second, test, second].map(({ enforcement }) => capture(decisionId, 9, enforcement));
    await Promise.all(reports);
    expect(await reasonOf(capture(decisionId, 8, second.enforcement))).to.equal("OUTCOME_EXISTS");
    const { escalationId = "" } = await pay(5);
    await test.resolve(escalationId);
    const tries = await Promise.all([pay(5, escalationId), pay(5, escalationId)]);
    expect(tries.filter(({ decision }) => decision === Decision.ALLOW)).to.have.length(1);
    const data = await eventsOf(2);
    expect(data.map(({ cause }) => cause)).to.deep.equal(["capture", "approval"]);
  });

  it("comes though the process that delivers is killed, with the same id if it comes again, and counts in the backlog.", async () => {
    const { webhook } = await test.register(EVENTS);
    const backlog = async () =>
      (await test.webhooks.backlogs(CALLER, [webhook.webhookId])).get(webhook.webhookId)?.count;
    const { decisionId } = await pay(4);
    await capture(decisionId, 9);
    const { decisionId: approved } = await payApproved(5);
    expect(await backlog()).to.equal(2);
    test.receiver.answer = (_received, index) => (index === 0 ? new Promise(() => undefined) : {});
    const script = join(import.meta.dirname, "delivery-child.ts");
    const child = spawn(process.execPath, [script, test.url], { stdio: ["pipe", "pipe", "inherit"] });
    children.push(child);
    await test.receiver.waitFor(1);
    child.kill("SIGKILL");
    await once(child, "exit");
    test.start();
    await test.receiver.waitFor(3);
    const ids = test.receiver.received.map(({ headers }) => headers["webhook-id"]);
    expect(ids[1]).to.equal(ids[0]);
    const decisions = test.receiver.received.map(({ body }) => JSON.parse(body).data.decision_id);
    expect(decisions).to.deep.equal([decisionId, decisionId, approved]);
    for (;;) if ((await backlog()) === 0) break;
  });
});
