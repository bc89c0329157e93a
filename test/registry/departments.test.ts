import { expect } from "chai";
import { MandateMode, RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { failureOf, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

describe("departments", () => {
  let test: TestWorkspace;
  let agentId: string;
  before(async () => {
    test = await openWorkspace();
    agentId = (await test.agents.registerAgent({ name: "one" })).agent?.agentId ?? "";
  });
  after(() => test.close());

  async function created(name: string): Promise<string> {
    return (await test.departments.createDepartment({ name })).department?.departmentId ?? "";
  }

  const seqNow = async (): Promise<number> => (await test.log.caughtUp()).seq;

  it("keeps names unique, trimmed and in whatever case.", async () => {
    const { departments } = test;
    const { department } = await departments.createDepartment({ name: " Finance ", description: "money" });
    expect(department).to.include({ name: "Finance", description: "money", memberCount: 0 });
    expect(await reasonOf(departments.createDepartment({ name: "finance  " }))).to.equal("DEPARTMENT_EXISTS");
    expect(await reasonOf(departments.createDepartment({ name: "  " }))).to.equal("INVALID_FIELD");
  });

  it("counts members, and adding or removing one again changes and seals nothing.", async () => {
    const { departments, agents } = test;
    const departmentId = await created("counted");
    const added = await departments.addDepartmentMember({ departmentId, agentId });
    expect(added.department?.memberCount).to.equal(1);
    const seq = await seqNow();
    await departments.addDepartmentMember({ departmentId, agentId });
    expect(await seqNow()).to.equal(seq);
    expect((await departments.getDepartment({ departmentId })).agentIds).to.deep.equal([agentId]);
    expect((await agents.getAgent({ agentId })).agent?.departmentIds).to.include(departmentId);
    const removed = await departments.removeDepartmentMember({ departmentId, agentId });
    expect(removed.department?.memberCount).to.equal(0);
    await departments.removeDepartmentMember({ departmentId, agentId });
    expect(await seqNow()).to.equal(seq + 1);
  });

  it("names what is not found.", async () => {
    const { departments } = test;
    const departmentId = await created("lonely");
    for (const method of ["addDepartmentMember", "removeDepartmentMember"] as const) {
      expect(await reasonOf(departments[method]({ departmentId, agentId: "agt_no" }))).to.equal("AGENT_NOT_FOUND");
      const missing = departments[method]({ departmentId: "dep_no", agentId });
      expect(await reasonOf(missing)).to.equal("DEPARTMENT_NOT_FOUND");
    }
    const missing = { departmentId: "dep_no" };
    expect(await reasonOf(departments.getDepartment(missing))).to.equal("DEPARTMENT_NOT_FOUND");
    expect(await reasonOf(departments.deleteDepartment(missing))).to.equal("DEPARTMENT_NOT_FOUND");
  });

  it("deletes a department with its memberships, gives it as it was, and frees its name.", async () => {
    const { departments, agents } = test;
    const departmentId = await created("short-lived");
    await departments.addDepartmentMember({ departmentId, agentId });
    const { department } = await departments.deleteDepartment({ departmentId });
    expect(department).to.include({ departmentId, memberCount: 1 });
    expect((await agents.getAgent({ agentId })).agent?.departmentIds).to.not.include(departmentId);
    expect(await reasonOf(departments.getDepartment({ departmentId }))).to.equal("DEPARTMENT_NOT_FOUND");
    const again = await created("short-lived");
    const other = await test.replica();
    expect((await other.departments.getDepartment({ departmentId: again })).agentIds).to.deep.equal([]);
  });

  const velocity = (departmentId: string) => ({
    type: RuleType.SEQUENCE,
    decision: Decision.BLOCK,
    conditions: {
      mode: SequenceMode.VELOCITY,
      matchActionTypes: ["pay"],
      maxCount: 5n,
      windowSeconds: 60n,
      scope: Scope.DEPARTMENT,
      departmentId,
    },
  });
  const plain = { type: RuleType.ACTION, decision: Decision.BLOCK, conditions: { matchActionTypes: ["pay"] } };
  const users = [
    {
      by: "the scope of a mandate",
      of: (departmentId: string) => ({ scope: Scope.DEPARTMENT, departmentId, rules: [plain] }),
    },
    { by: "a velocity rule", of: (departmentId: string) => ({ rules: [plain, velocity(departmentId)] }) },
    {
      by: "an observing mandate",
      of: (departmentId: string) => ({ mode: MandateMode.OBSERVE, rules: [velocity(departmentId)] }),
    },
  ];
  for (const { by, of } of users) {
    it(`does not delete a department that is named by ${by} until that is archived.`, async () => {
      const { departments, mandates } = test;
      const departmentId = await created(`named by ${by}`);
      const { mandate } = await mandates.createMandate({ name: `names it by ${by}`, ...of(departmentId) });
      const failure = await failureOf(departments.deleteDepartment({ departmentId }));
      expect(failure.metadata).to.include({ department_id: departmentId, mandate_id: mandate?.mandateId });
      expect(await reasonOf(departments.deleteDepartment({ departmentId }))).to.equal("DEPARTMENT_IN_USE");
      await mandates.archiveMandate({ mandateId: mandate?.mandateId ?? "" });
      await departments.deleteDepartment({ departmentId });
    });
  }

  it("lists departments newest first, a page at a time.", async () => {
    const { departments } = test;
    const all = (await departments.listDepartments({ pageSize: 500 })).departments.map(({ name }) => name);
    const first = await departments.listDepartments({ pageSize: 2 });
    const rest = await departments.listDepartments({ pageSize: 500, pageToken: first.nextPageToken ?? "" });
    expect([...first.departments, ...rest.departments].map(({ name }) => name)).to.deep.equal(all);
    expect(rest.nextPageToken).to.equal(undefined);
    expect(all.at(-1)).to.equal("Finance");
  });

  it("shows the same on another replica, and its changes here.", async () => {
    const other = await test.replica();
    const departmentId = await created("shared");
    await other.departments.addDepartmentMember({ departmentId, agentId });
    expect((await test.departments.getDepartment({ departmentId })).agentIds).to.deep.equal([agentId]);
    const [here, there] = await Promise.all([test.log.caughtUp(), other.log.caughtUp()]);
    expect(there.frontier).to.deep.equal(here.frontier);
    expect([...there.departments.all.keys()]).to.deep.equal([...here.departments.all.keys()]);
  });

  it("lets one of many replicas create a name at the same time.", async () => {
    const other = await test.replica();
    const calls = [test, other, test, other].map(({ departments }) =>
      departments.createDepartment({ name: "Contested" }).then(
        () => "created",
        (error) => error.reason,
      ),
    );
    expect((await Promise.all(calls)).filter((outcome) => outcome === "created")).to.have.length(1);
  });
});
