import { fromJson, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import { ListValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import type { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision, DecisionPath } from "../../gen/agentcontrol/v1/resources_pb.js";
import { digestOf } from "../../src/tree/canonical.ts";
import { actionRule, type Replica } from "../support/harness.ts";
import { type EscalationWorkspace, openEscalationWorkspace } from "./harness.ts";

type Request = MessageInitShape<typeof InterceptRequestSchema> & { readonly metadata?: JsonObject };

describe("an approved escalation", () => {
  let workspace: EscalationWorkspace;
  before(async () => {
    workspace = await openEscalationWorkspace(2);
  });
  after(() => workspace.close());

  const ask = (agentId = workspace.agentId): Request => ({
    agentId,
    actionType: "ask",
    actionContent: "may I",
    metadata: { arguments: { amount: 5 }, recipient: "ACME", trace_id: "one" },
  });

  async function escalated(request: Request, resolution?: Resolution): Promise<string> {
    const { escalationId = "" } = await workspace.intercept(request);
    if (resolution !== undefined) await workspace.resolve(escalationId, resolution);
    return escalationId;
  }

  it("lets its action pass once, and the receipt says so.", async () => {
    const escalationId = await escalated(ask(), Resolution.APPROVED);
    const passed = await workspace.intercept({ ...ask(), escalationId }, workspace.replicas[1]);
    expect(passed).to.include({ decision: Decision.ALLOW, decisionPath: DecisionPath.APPROVED });
    expect(passed.reasons[0]?.code).to.equal("APPROVED");
    const { body } = await workspace.receipt(passed.decisionId);
    expect(body).to.include({ used_escalation_id: escalationId, decision_path: "approved" });
    expect(body.escalation_id).to.equal(undefined);
    const { escalation } = await workspace.escalations.getEscalation({ escalationId });
    expect(escalation?.usedByDecisionId).to.equal(passed.decisionId);
    const again = await workspace.intercept({ ...ask(), escalationId });
    expect(again.decision).to.equal(Decision.ESCALATE);
    expect(again.escalationId).to.not.equal(escalationId);
    expect(again.reasons.at(-1)?.message).to.contain(`was used up by decision \`${passed.decisionId}\``);
  });

  it("is used by exactly one of 20 at once on two replicas.", async () => {
    const escalationId = await escalated(ask(), Resolution.APPROVED);
    const uses = Array.from({ length: 20 }, (_, index) =>
      workspace.intercept({ ...ask(), escalationId }, workspace.replicas[index % 2] as Replica),
    );
    const decisions = (await Promise.all(uses)).map(({ decision }) => decision);
    expect(decisions.filter((decision) => decision === Decision.ALLOW)).to.have.length(1);
    expect(decisions.filter((decision) => decision === Decision.ESCALATE)).to.have.length(19);
  });

  it("covers the same action in another trace, in whatever order its metadata comes.", async () => {
    const escalationId = await escalated(ask(), Resolution.APPROVED);
    const metadata = { trace_id: "two", recipient: "ACME", arguments: { amount: 5 }, traceparent: "00-1" };
    const passed = await workspace.intercept({ ...ask(), metadata, escalationId });
    expect(passed.decision).to.equal(Decision.ALLOW);
  });

  it("shows the approver everything that it covers, and what it does not.", async () => {
    const { escalation } = await workspace.escalations.getEscalation({ escalationId: await escalated(ask()) });
    expect(escalation).to.deep.include({ metadata: ask().metadata, ignoredMetadata: ["trace_id"] });
    const { decisionId = "", actionDigest } = escalation ?? {};
    const { body } = await workspace.receipt(decisionId);
    expect(body).to.deep.include({ digest_ignores: ["trace_id"], action_digest: actionDigest });
    const covered = {
      agent_id: workspace.agentId,
      action_type: "ask",
      action_content: "may I",
      tool: null,
      tool_version: null,
      metadata: { arguments: { amount: 5 }, recipient: "ACME" },
      on_behalf_of: null,
      grant_id: null,
      intent_contract_id: null,
    };
    expect(actionDigest).to.equal(digestOf(covered));
  });

  it("covers what the workspace says when the action is decided.", async () => {
    const { admin, workspaceId } = workspace;
    const before = (await admin.getWorkspace({ workspaceId })).workspace?.approvalIgnores ?? [];
    const setIgnores = (names: readonly string[]) =>
      admin.updateWorkspace({ workspaceId, approvalIgnores: fromJson(ListValueSchema, [...names]) });
    const escalationId = await escalated(ask(), Resolution.APPROVED);
    const other = { ...ask(), metadata: { ...ask().metadata, recipient: "EVIL" }, escalationId };
    await setIgnores(["recipient"]);
    expect((await workspace.intercept(other, workspace.replicas[1])).decision).to.equal(Decision.ESCALATE);
    await setIgnores([]);
    expect((await workspace.intercept({ ...ask(), escalationId })).decision).to.equal(Decision.ESCALATE);
    await setIgnores(before);
    expect((await workspace.intercept({ ...ask(), escalationId })).decision).to.equal(Decision.ALLOW);
  });

  const others: Readonly<Record<string, () => Promise<Request>>> = {
    "another agent": async () => ask(await workspace.agent()),
    "other content": async () => ({ ...ask(), actionContent: "may I please" }),
    "other arguments": async () => ({ ...ask(), metadata: { ...ask().metadata, arguments: { amount: 6 } } }),
    "other metadata beside the arguments": async () => ({
      ...ask(),
      metadata: { ...ask().metadata, recipient: "EVIL" },
    }),
    "more metadata": async () => ({ ...ask(), metadata: { ...ask().metadata, urgent: true } }),
    "no metadata": async () => ({ ...ask(), metadata: undefined as never }),
    "another tool": async () => ({ ...ask(), tool: "hammer" }),
    "an action type in other letters": async () => ({ ...ask(), actionType: "ASK" }),
  };
  for (const [what, other] of Object.entries(others)) {
    it(`is not usable for ${what}, and stays unused.`, async () => {
      const escalationId = await escalated(ask(), Resolution.APPROVED);
      const refused = await workspace.intercept({ ...(await other()), escalationId });
      expect(refused.decision).to.equal(Decision.ESCALATE);
      expect(refused.reasons.at(-1)?.code).to.equal("APPROVAL_NOT_USABLE");
      expect((await workspace.intercept({ ...ask(), escalationId })).decision).to.equal(Decision.ALLOW);
    });
  }

  for (const [status, resolution] of [
    ["pending", undefined],
    ["rejected", Resolution.REJECTED],
  ] as const) {
    it(`that is ${status} instead lets nothing pass.`, async () => {
      const escalationId = await escalated(ask(), resolution);
      const refused = await workspace.intercept({ ...ask(), escalationId });
      expect(refused.decision).to.equal(Decision.ESCALATE);
      expect(refused.reasons.at(-1)?.message).to.equal(`escalation \`${escalationId}\` is ${status}, not approved`);
    });
  }

  it("that does not exist lets nothing pass, and does not tell from another agent's.", async () => {
    const own = await escalated(ask(), Resolution.APPROVED);
    const other = await workspace.agent();
    const messages: (string | undefined)[] = [];
    for (const escalationId of [own, "esc_none"]) {
      const { reasons } = await workspace.intercept({ ...ask(other), escalationId });
      messages.push(reasons.at(-1)?.message.replace(escalationId, "ID"));
    }
    expect(messages[0]).to.equal(messages[1]);
  });

  it("loses to a mandate that now blocks, and is not used up by it.", async () => {
    const escalationId = await escalated(ask(), Resolution.APPROVED);
    const mandateId = await workspace.mandate([actionRule(Decision.BLOCK, "ask")]);
    const blocked = await workspace.intercept({ ...ask(), escalationId }, workspace.replicas[1]);
    expect(blocked).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.POLICY });
    await workspace.mandates.archiveMandate({ mandateId });
    expect((await workspace.intercept({ ...ask(), escalationId })).decision).to.equal(Decision.ALLOW);
  });

  it("loses to the deactivation of its agent.", async () => {
    const agentId = await workspace.agent();
    const escalationId = await escalated(ask(agentId), Resolution.APPROVED);
    await workspace.agents.deactivateAgent({ agentId });
    const refused = await workspace.intercept({ ...ask(agentId), escalationId }, workspace.replicas[1]);
    expect(refused).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.REVOKED });
  });

  it("ends with the version of the tool's schema that it was given for.", async () => {
    const { tools } = workspace;
    const schema = (maximum: number) => ({ type: "object", properties: { amount: { type: "number", maximum } } });
    await tools.registerTool({ name: "till", inputSchema: schema(10) });
    const escalationId = await escalated({ ...ask(), tool: "till" }, Resolution.APPROVED);
    await tools.registerTool({ name: "till", inputSchema: schema(20) });
    const refused = await workspace.intercept({ ...ask(), tool: "till", escalationId });
    expect(refused.decision).to.equal(Decision.ESCALATE);
  });
});
