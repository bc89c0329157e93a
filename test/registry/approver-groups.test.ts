import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { readLog } from "../log/stored-log.ts";
import { actionRule, openWorkspace, type Replica, reasonOf, type TestWorkspace } from "../support/harness.ts";

const P = "oidc:https://idp.example|p";

describe("approver groups", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace({ replicas: 2 });
  });
  after(() => test.close());

  const put = (name: string, members: readonly string[], more: object = {}) =>
    test.approverGroups.putApproverGroup({ name, members: [...members], ...more });
  const rule = (approvers: object) => ({ ...actionRule(Decision.ESCALATE, "pay"), approvers: approvers as never });
  const faultsOf = async (approvers: object, decision = Decision.ESCALATE) => {
    const drafts = [{ ...actionRule(decision, "pay"), approvers: approvers as never }];
    const { violations } = await test.mandates.compileMandate({ rules: drafts });
    return violations.map(({ path, reason }) => `${path} ${reason}`);
  };

  it("are what was put, on every replica, with spellings of one label as one member.", async () => {
    const oidcGroups = [{ issuer: "https://idp.example", group: "finance" }];
    const more = { oidcGroups, deputies: ["Zoe"], description: "who pays" };
    const { approverGroup } = await put("finance", ["Bob", " bob", P], more);
    expect(approverGroup).to.deep.include({ name: "finance", members: ["Bob", P], deputies: ["Zoe"], uses: 0 });
    const other = test.replicas[1] as Replica;
    expect((await other.approverGroups.getApproverGroup({ name: "finance" })).approverGroup).to.deep.equal(
      approverGroup,
    );
    const fresh = await test.replica();
    const { approverGroups } = await fresh.approverGroups.listApproverGroups({});
    expect(approverGroups).to.deep.equal([approverGroup]);
  });

  it("are sealed when they change, and only then.", async () => {
    const sealed = async () =>
      (await readLog(test.url)).entries.filter(({ body }) => body.includes('"type":"approver_group_')).length;
    const before = await sealed();
    await put("sealed", ["Bob"]);
    await put("sealed", ["Bob"]);
    await test.approverGroups.deleteApproverGroup({ name: "sealed" });
    expect((await sealed()) - before).to.equal(2);
    expect(await reasonOf(test.approverGroups.getApproverGroup({ name: "sealed" }))).to.equal(
      "APPROVER_GROUP_NOT_FOUND",
    );
    expect(await reasonOf(test.approverGroups.deleteApproverGroup({ name: "sealed" }))).to.equal(
      "APPROVER_GROUP_NOT_FOUND",
    );
  });

  it("take people and owners of keys alone.", async () => {
    for (const member of ["", "oidc:somebody", "a\u200bb", "x".repeat(201)])
      expect(await reasonOf(put("faulty", [member])), member).to.equal("INVALID_FIELD");
  });

  it("are named by rules that exist, and have the people that the rules ask for.", async () => {
    await put("three", ["A", "B", P]);
    await put("two", ["a", "C"]);
    expect(await faultsOf({ groups: ["three"], atLeast: 3 })).to.deep.equal([]);
    expect(await faultsOf({ groups: ["three"], atLeast: 4 })).to.deep.equal([
      "rules[0].approvers.at_least TOO_FEW_APPROVERS",
    ]);
    expect(await faultsOf({ groups: ["three", "two"], atLeast: 5 })).to.deep.equal([
      "rules[0].approvers.at_least TOO_FEW_APPROVERS",
    ]);
    expect(await faultsOf({ groups: ["finance"], atLeast: 20 }), "an identity provider's group").to.deep.equal([]);
    expect(await faultsOf({ groups: ["threee"] })).to.deep.equal([
      "rules[0].approvers.groups[0] APPROVER_GROUP_NOT_FOUND",
    ]);
    for (const atLeast of [0, -1, 21])
      expect(await faultsOf({ atLeast })).to.deep.equal(["rules[0].approvers.at_least LIMIT_OUT_OF_RANGE"]);
    expect(await faultsOf({ groups: ["three"] }, Decision.BLOCK)).to.deep.equal([
      "rules[0].approvers CONDITION_FIELD_NOT_APPLICABLE",
    ]);
  });

  it("stay while a mandate in force names them, with enough people for its rules.", async () => {
    await put("used", ["A", "B", "C"]);
    const mandateId = await test.mandate([rule({ groups: ["used"], atLeast: 2 })]);
    expect(await reasonOf(test.approverGroups.deleteApproverGroup({ name: "used" }))).to.equal("APPROVER_GROUP_IN_USE");
    expect(await reasonOf(put("used", ["A"]))).to.equal("APPROVER_GROUP_IN_USE");
    expect((await put("used", ["A", "D"])).approverGroup).to.deep.include({ uses: 1, members: ["A", "D"] });
    await put("used", [], { oidcGroups: [{ issuer: "https://idp.example", group: "x" }] });
    await test.mandates.archiveMandate({ mandateId });
    await test.approverGroups.deleteApproverGroup({ name: "used" });
  });

  it("belong to their workspace.", async () => {
    await put("ours", ["A"]);
    const caller = { ...test.adminCaller, workspaceId: "elsewhere", role: Role.ADMIN };
    await test.admin.createWorkspace({ workspaceId: "elsewhere", name: "elsewhere" });
    const { approverGroups } = await test.approverGroups.listApproverGroups({}, caller);
    expect(approverGroups).to.deep.equal([]);
    expect(await reasonOf(test.approverGroups.getApproverGroup({ name: "ours" }, caller))).to.equal(
      "APPROVER_GROUP_NOT_FOUND",
    );
  });
});
