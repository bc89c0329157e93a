import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { EscalationStatus, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { callerWith, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

const DAY_MS = 86_400_000;

describe("the context of an escalation", () => {
  let workspace: TestWorkspace;
  let agentId: string;
  beforeEach(async () => {
    workspace = await openWorkspace();
    agentId = await workspace.agent("payer");
    const rules = [{ field: "ask", operator: "==", value: { kind: { case: "boolValue", value: true } } }];
    await workspace.mandate([
      { type: RuleType.METADATA, decision: Decision.ESCALATE, conditions: { rules } as never },
      {
        type: RuleType.METADATA,
        decision: Decision.ESCALATE,
        conditions: { rules: [{ field: "items[].price", operator: ">", value: number(1_000) }] } as never,
      },
    ]);
    await workspace.admin.updateWorkspace({ workspaceId: "default", maxPendingEscalationsPerAgent: 1_000 });
  });
  afterEach(() => workspace.close());

  const number = (value: number) => ({ kind: { case: "numberValue", value } });
  interface Called {
    readonly by?: string;
    readonly tool?: string;
    readonly actionType?: string;
    readonly sessionId?: string;
  }
  const act = (args: JsonObject, { by = agentId, tool = "pay", actionType = "payment.send", ...rest }: Called = {}) =>
    workspace.intercept({
      agentId: by,
      actionType,
      ...(tool === "" ? {} : { tool }),
      ...rest,
      actionContent: `${Math.random()}`,
      metadata: { arguments: args },
    });
  const escalate = async (args: JsonObject, called: Called = {}): Promise<string> =>
    (await act({ ...args, ask: true }, called)).escalationId ?? "";
  const contextOf = (escalationId: string) => workspace.escalations.getEscalationContext({ escalationId });
  const usualOf = async (args: JsonObject, called: Called = {}) => {
    const { usual, usualFrom } = await contextOf(await escalate(args, called));
    return { usual: usual.map(({ $typeName: _, ...rest }) => rest), usualFrom };
  };

  it("tells the numbers that the same agent had allowed at the same path of the same tool.", async () => {
    for (const amount of [20, 180, 40, 60]) await act({ payment: { amount } });
    await act({ payment: { amount: "7" } });
    await act({ payment: { amount: 9_000 } }, { tool: "refund" });
    await act({ payment: { amount: 9_000 } }, { by: await workspace.agent("other") });
    await act({ amount: 9_000 });
    await escalate({ payment: { amount: 9_000 } });
    const { usual, usualFrom } = await usualOf({ payment: { amount: 900 }, fee: 2 });
    expect(usual).to.deep.equal([
      { argument: "fee", value: 2, count: 0 },
      { argument: "payment.amount", value: 900, count: 4, minimum: 20, median: 50, percentile95: 180, maximum: 180 },
    ]);
    expect(usualFrom).to.equal(6);
  });

  it("compares by action type where an action calls no tool.", async () => {
    await act({ amount: 5 }, { tool: "", actionType: "Payment.Send" });
    await act({ amount: 7 }, { tool: "", actionType: "other" });
    const { usual } = await usualOf({ amount: 900 }, { tool: "", actionType: "payment.send" });
    expect(usual[0]).to.include({ count: 1, maximum: 5 });
  });

  it("compares amounts of the same currency alone.", async () => {
    await act({ amount: 10, currency: "EUR" });
    await act({ amount: 20, currency: " eur " });
    await act({ amount: 9_000, currency: "JPY" });
    await act({ amount: 8_000 });
    await act({ amount: 7_000, currency: "EUR", amount_currency: "USD" });
    expect((await usualOf({ amount: 30, currency: "EUR" })).usual[0]).to.include({
      currency: "EUR",
      count: 2,
      maximum: 20,
    });
    expect((await usualOf({ amount: 30 })).usual[0]).to.include({ count: 1, maximum: 8_000 });
    const { usual } = await usualOf({ amount: 30, currency: "EUR", currency_code: "USD" });
    expect(usual[0]).to.include({ count: 0 }).and.not.to.have.property("currency");
  });

  it("puts the argument that fired first, and takes the largest of an array's elements.", async () => {
    await act({ items: [{ price: 4 }, { price: 6 }] });
    const asked = await act({ first: 1, name: "a", items: [{ price: 5, name: "b" }, { price: 2_000 }, { price: 3 }] });
    const { usual, earlier } = await contextOf(asked.escalationId ?? "");
    expect(usual.map(({ argument, value, count, maximum }) => [argument, value, count, maximum])).to.deep.equal([
      ["items[].price", 2_000, 2, 6],
      ["first", 1, 0, undefined],
    ]);
    expect(earlier.map(({ argument, value }) => [argument, value])).to.deep.equal([
      ["items[].name", "b"],
      ["name", "a"],
    ]);
  });

  it("takes the newest 500 actions within 90 days before the escalation.", async () => {
    await act({ amount: 9_000 });
    workspace.clock.advance(91 * DAY_MS);
    await act({ amount: 8_000 });
    for (let amount = 1; amount <= 500; amount++) await act({ amount });
    const escalationId = await escalate({ amount: 1 });
    await act({ amount: 7_000 });
    const { usual, usualFrom } = await contextOf(escalationId);
    expect(usualFrom).to.equal(500);
    expect(usual[0]).to.include({ count: 500, minimum: 1, median: 250.5, percentile95: 475, maximum: 500 });
    workspace.clock.advance(91 * DAY_MS);
    expect((await usualOf({ amount: 1 })).usualFrom).to.equal(0);
  });

  it("counts the answers to earlier escalations with the same text, and names the last.", async () => {
    const { keyId } = workspace.adminCaller;
    const resolve = async (args: JsonObject, resolution: Resolution, note: string): Promise<string> => {
      const escalationId = await escalate(args, { by: await workspace.agent() });
      await workspace.escalations.resolveEscalation({ escalationId, resolution, note });
      return escalationId;
    };
    await resolve({ to: "ACME" }, Resolution.APPROVED, "one");
    await resolve({ to: "other" }, Resolution.APPROVED, "elsewhere");
    await resolve({ to: "ACME" }, Resolution.REJECTED, "two");
    const last = await resolve({ to: " Acme\u200b " }, Resolution.APPROVED, "three");
    const withdrawn = await escalate({ to: "acme" });
    await workspace.escalations.withdrawEscalation({ escalationId: withdrawn });
    const refund = await escalate({ to: "acme" }, { tool: "refund" });
    await workspace.resolve(refund);
    const { earlier, earlierFrom } = await contextOf(await escalate({ to: "acme", blank: " ", long: "x".repeat(513) }));
    expect(earlier).to.have.length(1);
    expect(earlier[0]).to.include({ argument: "to", value: "acme", approved: 2, rejected: 1, edited: 0, expired: 0 });
    expect(earlier[0]?.last).to.include({
      escalationId: last,
      status: EscalationStatus.APPROVED,
      edited: false,
      resolvedBy: keyId,
      note: "three",
    });
    expect(earlierFrom).to.equal(5);
  });

  it("counts edits and expiries apart from rejections.", async () => {
    const edited = await escalate({ to: "acme", amount: 5 });
    await workspace.escalations.editEscalation({ escalationId: edited, arguments: { to: "acme", amount: 4 } });
    const expired = await escalate({ to: "acme", amount: 6 });
    workspace.clock.advance(2 * DAY_MS);
    await workspace.escalations.getEscalation({ escalationId: expired });
    const { earlier } = await contextOf(await escalate({ to: "acme" }));
    expect(earlier[0]).to.include({ approved: 0, rejected: 0, edited: 1, expired: 1 });
    expect(earlier[0]?.last).to.include({ escalationId: edited, edited: true, status: EscalationStatus.REJECTED });
  });

  it("tells of a resolved escalation the answers before its own.", async () => {
    const first = await escalate({ to: "acme", amount: 1 });
    const second = await escalate({ to: "acme", amount: 2 });
    await workspace.resolve(first);
    await workspace.resolve(second);
    expect((await contextOf(first)).earlier[0]).to.include({ approved: 0 });
    expect((await contextOf(second)).earlier[0]).to.include({ approved: 1 });
  });

  it("shows the last ten decisions of the agent, newest first, with their arguments.", async () => {
    for (let amount = 1; amount <= 11; amount++) await act({ amount });
    await act({ amount: 99 }, { by: await workspace.agent("other") });
    const escalationId = await escalate({ amount: 12 });
    await act({ amount: 13 });
    const { before } = await contextOf(escalationId);
    expect(before.map(({ arguments: args }) => args?.amount)).to.deep.equal([11, 10, 9, 8, 7, 6, 5, 4, 3, 2]);
    expect(before[0]?.decision).to.include({ agentId, tool: "pay", decision: Decision.ALLOW });
    expect(before[0]?.argumentsCut).to.equal(false);
  });

  it("shows the last decisions of the session alone where there is one.", async () => {
    const { session } = await workspace.authority.createSession({
      agentId,
      purpose: "pays",
      ttlSeconds: 600n,
    } as never);
    const sessionId = session?.sessionId ?? "";
    await act({ amount: 1 }, { sessionId });
    await act({ amount: 2 });
    const { before } = await contextOf(await escalate({ amount: 3 }, { sessionId }));
    expect(before.map(({ arguments: args }) => args?.amount)).to.deep.equal([1]);
  });

  it("cuts long arguments, says so, and stays below 4 KiB of them for each decision.", async () => {
    await act({ text: "ä".repeat(10_000), after: 1 });
    await act({ list: Array.from({ length: 10_000 }, (_, index) => index) });
    await act({ deep: deep(60) });
    await workspace.intercept({ agentId, actionType: "plain" });
    const { before } = await contextOf(await escalate({ amount: 1 }));
    const [plain, nested, list, text] = before;
    expect(plain).to.include({ argumentsCut: false }).and.not.to.have.property("arguments", null);
    expect(plain?.arguments).to.equal(undefined);
    expect(nested?.argumentsCut).to.equal(false);
    for (const cut of [list, text]) {
      expect(cut?.argumentsCut).to.equal(true);
      expect(Buffer.byteLength(JSON.stringify(cut?.arguments))).to.be.within(2_000, 4_200);
    }
    expect(text?.arguments?.text).to.match(/^ä+$/);
  });

  it("stays within its bounds for large and deep arguments, and lets other calls pass.", async () => {
    const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`n${index}`, index]));
    for (let count = 0; count < 8; count++) await act({ many, rows: Array(3_000).fill({ a: "x" }), deep: deep(60) });
    const escalationId = await escalate({ many, rows: Array(3_000).fill({ a: "x" }) });
    const [{ usual, earlier, before }, agent] = await Promise.all([
      contextOf(escalationId),
      workspace.agents.getAgent({ agentId }),
    ]);
    expect(usual).to.have.length(20);
    expect(usual[0]).to.include({ argument: "many.n0", count: 8 });
    expect(earlier.length).to.be.at.most(20);
    expect(before.length).to.be.at.most(10);
    expect(agent.agent?.agentId).to.equal(agentId);
  });

  it("does not compare the tool's name and members that the approval leaves out.", async () => {
    const metadata = { tool: "pay", trace_id: "t", to: "acme", ask: true };
    const { escalationId = "" } = await workspace.intercept({ agentId, actionType: "payment.send", metadata });
    const { earlier } = await contextOf(escalationId);
    expect(earlier.map(({ argument }) => argument)).to.deep.equal(["to"]);
  });

  it("is for people of the workspace, auditors among them, and nobody else.", async () => {
    const escalationId = await escalate({ amount: 1 });
    const { escalations, adminCaller } = workspace;
    for (const role of [Role.OPERATOR, Role.AUDITOR])
      await escalations.getEscalationContext({ escalationId }, callerWith(adminCaller, role));
    const asAgent = escalations.getEscalationContext({ escalationId }, callerWith(adminCaller, Role.AGENT, agentId));
    expect(await reasonOf(asAgent)).to.equal("ROLE_NOT_ALLOWED");
    expect(await reasonOf(contextOf("esc_none"))).to.equal("ESCALATION_NOT_FOUND");
  });
});

/** Nests an object to some levels. */
function deep(levels: number): JsonObject {
  let value: JsonObject = { end: 1 };
  for (let level = 0; level < levels - 3; level++) value = { in: value };
  return value;
}
