import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision, DecisionPath } from "../../gen/agentcontrol/v1/resources_pb.js";
import { callerWith, type Replica, reasonOf } from "../support/harness.ts";
import { type EscalationWorkspace, openEscalationWorkspace } from "./harness.ts";

describe("pending escalations", () => {
  let workspace: EscalationWorkspace;
  before(async () => {
    workspace = await openEscalationWorkspace(2);
    await workspace.admin.updateWorkspace({ workspaceId: workspace.workspaceId, maxPendingEscalationsPerAgent: 3 });
  });
  after(() => workspace.close());

  const ask = (agentId: string, actionContent: string, replica: Replica = workspace) =>
    workspace.intercept({ agentId, actionType: "ask", actionContent }, replica);

  it("of an agent are limited: one too many is blocked, and a repeat is not.", async () => {
    const agentId = await workspace.agent();
    const asks = Array.from({ length: 12 }, (_, index) => ask(agentId, `${index}`, workspace.replicas[index % 2]));
    const replies = await Promise.all(asks);
    const pending = replies.filter(({ decision }) => decision === Decision.ESCALATE);
    const blocked = replies.filter(({ decision }) => decision === Decision.BLOCK);
    expect([pending.length, blocked.length]).to.deep.equal([3, 9]);
    for (const { reasons, decisionPath, escalationId } of blocked) {
      expect(reasons[0]).to.include({
        code: "TOO_MANY_PENDING",
        message: "the agent has 3 pending escalations, and at most 3 are allowed",
      });
      expect({ decisionPath, escalationId }).to.deep.equal({
        decisionPath: DecisionPath.POLICY,
        escalationId: undefined,
      });
    }
    const index = replies.indexOf(pending[0] as never);
    expect(await ask(agentId, `${index}`)).to.include({ escalationId: pending[0]?.escalationId });
    expect((await ask(await workspace.agent(), "another agent")).decision).to.equal(Decision.ESCALATE);
    await workspace.resolve(pending[0]?.escalationId ?? "", Resolution.REJECTED, workspace.replicas[1]);
    expect((await ask(agentId, "room")).decision).to.equal(Decision.ESCALATE);
    const fresh = await workspace.replica();
    expect((await ask(agentId, "none left", fresh)).decision).to.equal(Decision.BLOCK);
    fresh.clock.advance(86_400_001);
    expect((await ask(agentId, "expired ones count no more", fresh)).decision).to.equal(Decision.ESCALATE);
  });
});

const NAMES = ["oidc:doe, jane", "oidc:CN=jane,OU=ops", 'oidc:"{}",\\', "oidc:doe"];

describe("four eyes", () => {
  let workspace: EscalationWorkspace;
  before(async () => {
    workspace = await openEscalationWorkspace(1);
  });
  after(() => workspace.close());

  const operator = (keyId: string) => ({ ...callerWith(workspace.adminCaller, Role.OPERATOR), keyId });

  it("keep each key that asked from resolving, and no other, once the workspace wants them.", async () => {
    const { agentId, workspaceId, admin, escalations, enforcement } = workspace;
    const asked = { agentId, actionType: "ask" };
    const { escalationId = "" } = await enforcement.intercept(asked, operator("key_one"));
    await enforcement.intercept(asked, operator("key_two"));
    // A person's name or subject may hold a comma, or anything else that lists are written with.
    for (const keyId of NAMES) await enforcement.intercept(asked, operator(keyId));
    await admin.updateWorkspace({ workspaceId, fourEyes: true });
    const resolve = (keyId: string, resolution = Resolution.APPROVED) =>
      escalations.resolveEscalation({ escalationId, resolution }, operator(keyId));
    for (const keyId of ["key_one", "key_two", ...NAMES]) {
      for (const resolution of [Resolution.APPROVED, Resolution.REJECTED])
        expect(await reasonOf(resolve(keyId, resolution))).to.equal("FOUR_EYES");
    }
    expect((await resolve("key_three")).escalation?.resolvedBy).to.equal("key_three");
  });

  it("are not wanted by default, and an agent's key never resolves.", async () => {
    const { workspaceId, admin, escalations } = workspace;
    await admin.updateWorkspace({ workspaceId, fourEyes: false });
    const escalationId = await workspace.escalate();
    for (const agentId of [null, workspace.agentId]) {
      const as = callerWith(workspace.adminCaller, Role.AGENT, agentId);
      const resolved = escalations.resolveEscalation({ escalationId, resolution: Resolution.APPROVED }, as);
      expect(await reasonOf(resolved)).to.equal("ROLE_NOT_ALLOWED");
    }
    await workspace.resolve(escalationId);
  });
});
