import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { AgentRequirement } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { digestOf } from "../../src/tree/canonical.ts";
import { readLog } from "../log/stored-log.ts";
import { actionRule, openWorkspace, type TestWorkspace } from "../support/harness.ts";

/** An entry as far as these tests look into it. */
interface Sealed {
  readonly type: string;
  readonly at: string;
  readonly by?: string;
  readonly [member: string]: unknown;
}

interface PackEntry extends Sealed {
  readonly pack: object;
  readonly published: readonly {
    readonly mandate_id: string;
    readonly version: number;
    readonly digest: string;
    readonly definition: { readonly name: string };
  }[];
}

const SCHEMA = { type: "object", properties: { amount: { type: "number" } } };

describe("what the log explains decisions with", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  /** Does something and gives the entries that it appended. */
  async function appendedBy(change: () => Promise<unknown>): Promise<readonly Sealed[]> {
    const before = (await readLog(test.url)).entries.length;
    await change();
    return (await readLog(test.url)).entries.slice(before).map(({ body }) => JSON.parse(body) as Sealed);
  }

  async function expectSealed(change: () => Promise<unknown>, ...wanted: readonly object[]): Promise<void> {
    const entries = await appendedBy(change);
    expect(entries.map(({ type }) => type)).to.deep.equal(wanted.map((want) => (want as Sealed).type));
    entries.forEach((entry, index) => {
      expect(entry).to.deep.include(wanted[index] as object);
      expect(entry.by).to.equal(test.adminCaller.keyId);
      expect(entry.at).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    });
  }

  it("begins with the workspace's settings and its first key.", async () => {
    const { entries } = await readLog(test.url);
    const [workspace, key] = entries.map(({ body }) => JSON.parse(body));
    expect(workspace.workspace).to.include({ workspace_id: "default", default_decision: "allow" });
    expect(key).to.include({ type: "key_created" });
  });

  it("has every change of settings.", () =>
    expectSealed(
      () =>
        test.admin.updateWorkspace({
          workspaceId: "default",
          defaultDecision: Decision.ALLOW,
          name: "x",
        }),
      { type: "workspace_updated" },
    ));

  it("has every key, when it was made and when it was revoked.", async () => {
    const { admin } = test;
    let keyId = "";
    await expectSealed(
      async () => {
        keyId = (await admin.createApiKey({ name: "ci", role: Role.AUDITOR })).key?.keyId ?? "";
      },
      { type: "key_created" },
    );
    await expectSealed(() => admin.revokeApiKey({ keyId }), { type: "key_revoked", key_id: keyId });
  });

  it("has every membership.", async () => {
    const { departments } = test;
    const agentId = await test.agent();
    let departmentId = "";
    await expectSealed(
      async () => {
        departmentId = await test.department();
      },
      { type: "department_created" },
    );
    const member = { departmentId, agentId };
    const sealed = { department_id: departmentId, agent_id: agentId };
    await expectSealed(() => departments.addDepartmentMember(member), { type: "department_member_added", ...sealed });
    await expectSealed(() => departments.removeDepartmentMember(member), {
      type: "department_member_removed",
      ...sealed,
    });
    await expectSealed(() => departments.deleteDepartment({ departmentId }), {
      type: "department_deleted",
      department_id: departmentId,
    });
  });

  it("has every version of a tool and of a mandate, whole.", async () => {
    const { tools, mandates } = test;
    const [entry] = await appendedBy(() => tools.registerTool({ name: "pay", inputSchema: SCHEMA }));
    expect(entry?.tool).to.deep.include({ name: "pay", version: 1, input_schema: SCHEMA });
    await expectSealed(() => tools.registerTool({ name: "pay", description: "pays", inputSchema: SCHEMA }), {
      type: "tool_described",
      tool: { name: "pay", version: 1, digest: digestOf(SCHEMA), description: "pays" },
    });
    const place = { name: "pay", version: 1, digest: digestOf(SCHEMA) };
    await expectSealed(() => tools.updateTool({ name: "pay", provenance: { trustedFields: ["to"] } }), {
      type: "tool_provenance_declared",
      tool: { ...place, provenance: { trusted_fields: ["to"] } },
    });
    await expectSealed(() => tools.updateTool({ name: "pay", provenance: {} }), {
      type: "tool_provenance_declared",
      tool: { ...place, provenance: null },
    });
    let mandateId = "";
    await expectSealed(
      async () => {
        mandateId = await test.mandate([actionRule(Decision.ESCALATE, "ask")]);
      },
      { type: "mandate_published" },
    );
    await expectSealed(() => mandates.archiveMandate({ mandateId }), {
      type: "mandate_archived",
      mandate_id: mandateId,
    });
  });

  it("has every change of a pack as one entry, with each version whole.", async () => {
    const { mandates } = test;
    const set = (...names: string[]) => names.map((name) => ({ name, rules: [actionRule(Decision.BLOCK, name)] }));
    const apply = (...names: string[]) => mandates.applyPack({ name: "vaulted", mandates: set(...names) });
    const [entry, ...others] = (await appendedBy(() => apply("one", "two"))) as readonly PackEntry[];
    expect(others).to.deep.equal([]);
    expect(entry?.published.map(({ version, definition }) => [version, definition.name])).to.deep.equal([
      [1, "one"],
      [1, "two"],
    ]);
    for (const { digest, definition } of entry?.published ?? []) expect(digestOf(definition)).to.equal(digest);
    const ids = entry?.published.map(({ mandate_id }) => mandate_id) ?? [];
    expect(entry?.pack).to.deep.include({ name: "vaulted", version: 1, mandate_ids: ids.toSorted() });
    await expectSealed(() => apply(), { type: "pack_applied", published: [], archived: ids.toSorted() });
  });

  it("has every resolution, with what the person noted.", async () => {
    const mandateId = await test.mandate([actionRule(Decision.ESCALATE, "ask")]);
    const { escalationId = "" } = await test.intercept({ agentId: await test.agent(), actionType: "ask" });
    await expectSealed(
      () => test.escalations.resolveEscalation({ escalationId, resolution: Resolution.APPROVED, note: "seen it" }),
      { type: "escalation_resolved", escalation_id: escalationId, resolution: "approved", note: "seen it" },
    );
    await test.mandates.archiveMandate({ mandateId });
  });

  it("has every authority, its end, every deactivation and every revocation.", async () => {
    const agentId = await test.agent();
    let sessionId = "";
    await expectSealed(
      async () => {
        sessionId = (await test.authority.createSession({ agentId })).session?.sessionId ?? "";
      },
      { type: "authority_created" },
    );
    await expectSealed(() => test.authority.endSession({ sessionId }), { type: "authority_ended", ids: [sessionId] });
    const { agents } = test;
    await expectSealed(() => agents.setAgentRequirements({ agentId, requires: [AgentRequirement.SESSION] }), {
      type: "agent_requirements_set",
      agent_id: agentId,
      requires: ["session"],
    });
    await expectSealed(() => agents.deactivateAgent({ agentId }), { type: "agent_deactivated", agent_id: agentId });
    await expectSealed(() => test.revocations.revokeAgent({ agentId, reason: "stolen" }), {
      type: "agent_revoked",
      agent_id: agentId,
      reason: "stolen",
    });
  });

  it("shows on the receipt under whose authority an action was allowed.", async () => {
    const [lender, borrower] = [await test.agent(), await test.agent()];
    const { grant } = await test.authority.createGrant({
      grantorAgentId: lender,
      granteeAgentId: borrower,
      actionTypes: ["pay"],
    });
    const action = { agentId: borrower, actionType: "pay", onBehalfOf: lender };
    const { decisionId } = await test.intercept(action);
    const { receipt } = await test.enforcement.getDecision({ decisionId });
    expect(receipt).to.deep.include({ delegationChain: [grant?.grantId], authority: [], onBehalfOf: lender });
    expect(JSON.parse(receipt?.canonicalBody ?? "{}")).to.deep.include({ authority: [grant?.grantId] });
  });
});
