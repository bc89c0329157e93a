import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { ApprovalObstacle, EscalationStatus, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { Caller } from "../../src/api/context.ts";
import { sendReminders } from "../../src/escalation/reminders.ts";
import { assertIntact, readLog } from "../log/stored-log.ts";
import {
  actionRule,
  callerWith,
  openWorkspace,
  type Replica,
  reasonOf,
  settled,
  type TestWorkspace,
} from "../support/harness.ts";
import { withOwner } from "../support/owner.ts";

const ISSUER = "https://idp.example";
const person = (subject: string): string => `oidc:${ISSUER}|${subject}`;
const [ANN, BOB, CLEO, DAN, EVE] = ["ann", "bob", "cleo", "dan", "eve"].map(person) as [
  string,
  string,
  string,
  string,
  string,
];

describe("rules that name approvers", () => {
  let workspace: TestWorkspace;
  let agentId: string;
  let contents = 0;

  before(async () => {
    workspace = await openWorkspace({ replicas: 2 });
    agentId = await workspace.agent();
    await workspace.admin.updateWorkspace({
      workspaceId: workspace.workspaceId,
      maxPendingEscalationsPerAgent: 1_000,
      initialTrust: 100,
    });
    await group("finance", [ANN, BOB, CLEO, "Key Holder"], { deputies: [EVE] });
    await group("legal", [CLEO, DAN]);
    await workspace.mandate([rule("pay", { groups: ["finance"], atLeast: 2 })]);
    await workspace.mandate([rule("sign", { groups: ["finance"], atLeast: 2 })]);
    await workspace.mandate([rule("sign", { groups: ["legal"] })]);
    await workspace.mandate([rule("sign")]);
    await workspace.mandate([rule("remind", { groups: ["finance"], remindAfterSeconds: 60 })]);
    await workspace.mandate([rule("any", { groups: [], atLeast: 2 })]);
  });
  after(() => workspace.close());

  const caller = (keyId: string, role = Role.OPERATOR): Caller => ({
    ...callerWith(workspace.adminCaller, role),
    keyId,
  });
  const group = (name: string, members: readonly string[], more: object = {}) =>
    workspace.approverGroups.putApproverGroup({ name, members: [...members], ...more });
  const rule = (type: string, approvers?: object) => ({
    ...actionRule(Decision.ESCALATE, type),
    ...(approvers === undefined ? {} : { approvers: approvers as never }),
  });
  const intercept = (actionType: string, more: object = {}, by = "key_agent", replica: Replica = workspace) =>
    replica.enforcement.intercept({ agentId, actionType, actionContent: `${contents++}`, ...more }, caller(by));
  const ask = async (actionType: string, more: object = {}, by?: string): Promise<string> =>
    (await intercept(actionType, more, by)).escalationId ?? "";
  const answer = (escalationId: string, by: string, resolution = Resolution.APPROVED, replica: Replica = workspace) =>
    replica.escalations.resolveEscalation({ escalationId, resolution }, caller(by));
  const approve = async (escalationId: string, by: string, replica?: Replica) =>
    (await answer(escalationId, by, Resolution.APPROVED, replica)).escalation;
  const get = async (escalationId: string, by = ANN) =>
    (await workspace.escalations.getEscalation({ escalationId }, caller(by))).escalation;
  const given = async (escalationId: string) => (await get(escalationId))?.approvalsNeeded.map((need) => need.given);
  const keyOf = async (owner?: string): Promise<string> => {
    const draft = { name: "key", role: Role.OPERATOR, ...(owner === undefined ? {} : { owner }) };
    return (await workspace.admin.createApiKey(draft)).key?.keyId ?? "";
  };

  it("wait until as many members as they say have approved.", async () => {
    const escalationId = await ask("pay");
    const first = await approve(escalationId, ANN);
    expect(first?.status).to.equal(EscalationStatus.PENDING);
    expect(first?.approvals.map(({ by, groups }) => [by, ...groups])).to.deep.equal([[ANN, "finance"]]);
    const [need] = first?.approvalsNeeded ?? [];
    expect(need).to.include({ rule: "rules[0]", atLeast: 2, given: 1, reminded: false });
    expect(need?.groups).to.deep.equal(["finance"]);
    expect((await approve(escalationId, ANN))?.approvals, "the same person again").to.have.length(1);
    const last = await approve(escalationId, BOB);
    expect(last).to.include({ status: EscalationStatus.APPROVED, resolvedBy: BOB });
    expect(last?.approvals.map(({ by }) => by)).to.deep.equal([ANN, BOB]);
    expect(await get(escalationId)).to.deep.equal({ ...last });
  });

  it("let the action pass once it is approved, and not before.", async () => {
    const content = { actionContent: "one payment" };
    const escalationId = await ask("pay", content);
    await approve(escalationId, ANN);
    expect((await intercept("pay", { ...content, escalationId })).decision).to.equal(Decision.ESCALATE);
    await approve(escalationId, CLEO);
    expect((await intercept("pay", { ...content, escalationId })).decision).to.equal(Decision.ALLOW);
    expect((await intercept("pay", { ...content, escalationId })).decision).to.equal(Decision.ESCALATE);
  });

  it("each make a demand, and one person counts for every one whose group they are in.", async () => {
    const escalationId = await ask("sign");
    await approve(escalationId, BOB);
    expect(await given(escalationId)).to.have.members([1, 0, 1]);
    expect((await approve(escalationId, CLEO))?.status).to.equal(EscalationStatus.APPROVED);
    const other = await ask("sign");
    await approve(other, DAN);
    await approve(other, ANN);
    expect((await get(other))?.status).to.equal(EscalationStatus.PENDING);
    expect((await approve(other, BOB))?.status).to.equal(EscalationStatus.APPROVED);
  });

  it("refuse who is in none of their groups, and name these.", async () => {
    const escalationId = await ask("pay");
    const refused = answer(escalationId, DAN);
    expect(await reasonOf(refused)).to.equal("NOT_AN_APPROVER");
    await refused.catch((error: Error) => expect(error.message).to.contain("`rules[0]` wants 2 of `finance`"));
    expect(await given(escalationId)).to.deep.equal([0]);
  });

  it("never count whoever asked, in any workspace.", async () => {
    const escalationId = await ask("pay", {}, ANN);
    expect(await reasonOf(answer(escalationId, ANN))).to.equal("FOUR_EYES");
    expect(await reasonOf(answer(escalationId, await keyOf(ANN)))).to.equal("FOUR_EYES");
  });

  it("count a key as its owner, and one without an owner only where one is enough.", async () => {
    const escalationId = await ask("pay");
    await approve(escalationId, await keyOf(ANN));
    expect((await approve(escalationId, ANN))?.approvals, "one person").to.have.length(1);
    expect((await approve(escalationId, await keyOf("key HOLDER ")))?.status).to.equal(EscalationStatus.APPROVED);
    const any = await ask("any");
    expect(await reasonOf(answer(any, await keyOf()))).to.equal("NOT_AN_APPROVER");
    await approve(any, DAN);
    expect((await approve(any, EVE))?.status).to.equal(EscalationStatus.APPROVED);
  });

  it("count who hands out a key of another person's as one with it.", async () => {
    const draft = { name: "key", role: Role.OPERATOR, owner: BOB };
    const made = (await workspace.admin.createApiKey(draft, caller(ANN, Role.ADMIN))).key?.keyId ?? "";
    const escalationId = await ask("pay");
    await approve(escalationId, ANN);
    expect(await reasonOf(answer(escalationId, made))).to.equal("FOUR_EYES");
    const other = await ask("pay");
    await approve(other, made);
    expect(await reasonOf(answer(other, ANN))).to.equal("FOUR_EYES");
    expect((await approve(other, CLEO))?.status).to.equal(EscalationStatus.APPROVED);
  });

  it("end with one rejection.", async () => {
    const escalationId = await ask("pay");
    await approve(escalationId, ANN);
    const { escalation } = await answer(escalationId, DAN, Resolution.REJECTED);
    expect(escalation).to.include({ status: EscalationStatus.REJECTED, resolvedBy: DAN });
    expect(await reasonOf(answer(escalationId, BOB))).to.equal("ESCALATION_RESOLVED");
  });

  it("let an approval be taken back until the last is given.", async () => {
    const escalationId = await ask("pay");
    await approve(escalationId, ANN);
    const withdraw = (by: string) => workspace.escalations.withdrawApproval({ escalationId }, caller(by));
    expect((await withdraw(await keyOf(ANN))).escalation?.approvals).to.deep.equal([]);
    expect((await withdraw(ANN)).escalation?.status).to.equal(EscalationStatus.PENDING);
    expect((await approve(escalationId, BOB))?.status).to.equal(EscalationStatus.PENDING);
    expect((await approve(escalationId, ANN))?.status).to.equal(EscalationStatus.APPROVED);
    expect(await reasonOf(withdraw(ANN))).to.equal("ESCALATION_RESOLVED");
  });

  it("take back the approval of someone who asks for the action themselves.", async () => {
    const content = { actionContent: "joined" };
    const escalationId = await ask("pay", content);
    await approve(escalationId, ANN);
    expect(await ask("pay", content, await keyOf(ANN))).to.equal(escalationId);
    expect(await given(escalationId)).to.deep.equal([0]);
    expect((await approve(escalationId, BOB))?.status).to.equal(EscalationStatus.PENDING);
    expect((await approve(escalationId, CLEO))?.status).to.equal(EscalationStatus.APPROVED);
  });

  it("start anew when the action is edited, where the editor never counts.", async () => {
    const escalationId = await ask("pay", { metadata: { arguments: { amount: 5 } } });
    await approve(escalationId, ANN);
    const edit = { escalationId, arguments: { amount: 4 } };
    const { escalation, replacement } = await workspace.escalations.editEscalation(edit, caller(BOB));
    expect([escalation?.status, replacement?.status]).to.deep.equal([
      EscalationStatus.REJECTED,
      EscalationStatus.PENDING,
    ]);
    const edited = replacement?.escalationId ?? "";
    expect(await given(edited)).to.deep.equal([0]);
    expect(await reasonOf(answer(edited, BOB))).to.equal("FOUR_EYES");
    await approve(edited, ANN);
    expect((await approve(edited, CLEO))?.status).to.equal(EscalationStatus.APPROVED);
  });

  it("count members of an identity provider's group while the provider's word is fresh.", async () => {
    await group("treasury", [], { oidcGroups: [{ issuer: ISSUER, group: "treasurers" }] });
    await workspace.mandate([rule("treasure", { groups: ["treasury"] })]);
    const put = (subject: string, groups: string, minutesAgo: number) =>
      withOwner(workspace.ownerUrl, (client) =>
        client.query(
          `insert into person (workspace_id, issuer, subject, signed_in_at_ms, groups, checked_at_ms)
            values ($1, $2, $3, 1, $4, $5)`,
          [workspace.workspaceId, ISSUER, subject, groups, Date.now() - minutesAgo * 60_000],
        ),
      );
    await put("fay", "{treasurers,other}", 1);
    await put("gil", "{treasurers}", 20);
    await put("hal", "{other}", 1);
    const escalationId = await ask("treasure");
    for (const subject of ["gil", "hal", "ida"])
      expect(await reasonOf(answer(escalationId, person(subject))), subject).to.equal("NOT_AN_APPROVER");
    expect((await approve(escalationId, await keyOf(person("fay"))))?.status).to.equal(EscalationStatus.APPROVED);
  });

  it("are reminded of once, on whichever replica; deputies count from then on.", async () => {
    const escalationId = await ask("remind");
    expect(await reasonOf(answer(escalationId, EVE))).to.equal("NOT_AN_APPROVER");
    const replicas = workspace.replicas.map(({ log }) => log);
    for (const log of replicas) expect(await sendReminders(log)).to.be.greaterThan(Date.now());
    for (const { clock } of workspace.replicas) await clock.advance?.(61_000);
    await Promise.all(replicas.map(sendReminders));
    const reminded = await get(escalationId);
    expect(reminded?.approvalsNeeded[0]).to.include({ reminded: true, given: 0 });
    const log = await readLog(workspace.url);
    assertIntact(log);
    const bodies = log.entries.map(({ body }) => JSON.parse(body) as { type: string; escalation_id?: string });
    expect(
      bodies.filter((body) => body.type === "escalation_reminded" && body.escalation_id === escalationId),
    ).to.have.length(1);
    expect((await approve(escalationId, EVE))?.status).to.equal(EscalationStatus.APPROVED);
  });

  it("are met by exactly one last approval of many at once on two replicas.", async () => {
    const ids = await Promise.all(Array.from({ length: 10 }, () => ask("pay")));
    for (const escalationId of ids) {
      const people = [ANN, BOB, CLEO, ANN, BOB, CLEO];
      const { values } = await settled(
        people.map((by, index) => approve(escalationId, by, workspace.replicas[index % 2] as Replica)),
      );
      expect(values.filter((each) => each?.status === EscalationStatus.APPROVED)).to.have.length(1);
      const { approvals = [] } = (await get(escalationId)) ?? {};
      expect(new Set(approvals.map(({ by }) => by)).size).to.equal(2);
    }
    assertIntact(await readLog(workspace.url));
  });

  it("hold an approval that was given before they asked for more.", async () => {
    const content = { actionContent: "grows" };
    await workspace.mandate([rule("grow")]);
    const first = await ask("grow", content);
    const pending = await ask("grow", { actionContent: "joins" });
    await approve(first, DAN);
    await workspace.mandate([rule("grow", { groups: ["finance"], atLeast: 2 })]);
    const again = await intercept("grow", { ...content, escalationId: first });
    expect(again.decision).to.equal(Decision.ESCALATE);
    expect(again.reasons.map(({ code }) => code)).to.contain("APPROVAL_NOT_USABLE");
    expect(await given(again.escalationId ?? "")).to.deep.equal([0, 0]);
    expect(await ask("grow", { actionContent: "joins" })).to.equal(pending);
    expect((await approve(pending, ANN))?.status, "the joined one needs more too").to.equal(EscalationStatus.PENDING);
    const fresh = await workspace.replica();
    expect((await approve(pending, BOB, fresh))?.status).to.equal(EscalationStatus.APPROVED);
    expect(
      (await intercept("grow", { actionContent: "joins", escalationId: pending }, "key_agent", fresh)).decision,
    ).to.equal(Decision.ALLOW);
  });

  it("say whom they wait for.", async () => {
    const escalationId = await ask("sign");
    const mine = async (by: string) => {
      const { escalations } = await workspace.escalations.listEscalations({ mine: true, pageSize: 500 }, caller(by));
      return escalations.map((each) => each.escalationId).includes(escalationId);
    };
    expect(await Promise.all([ANN, DAN, "key_agent"].map(mine))).to.deep.equal([true, true, false]);
    await approve(escalationId, ANN);
    expect(await Promise.all([ANN, BOB, DAN].map(mine))).to.deep.equal([false, true, true]);
    expect((await get(escalationId, BOB))?.awaitsCaller).to.equal(true);
    const agent = { ...caller("key_agent", Role.AGENT), agentId };
    const { escalation } = await workspace.escalations.getEscalation({ escalationId }, agent);
    expect(escalation?.approvals).to.deep.equal([]);
    expect(escalation?.awaitsCaller).to.equal(undefined);
  });

  it("say why an approval by the caller would not count.", async () => {
    const obstacle = async (escalationId: string, by: string, role = Role.OPERATOR) => {
      const { escalation } = await workspace.escalations.getEscalation({ escalationId }, caller(by, role));
      const { awaitsCaller, approvalObstacle } = escalation ?? {};
      const isOpen = escalation?.status === EscalationStatus.PENDING && role === Role.OPERATOR;
      expect(awaitsCaller).to.equal(isOpen ? approvalObstacle === undefined : undefined);
      return approvalObstacle;
    };
    const escalationId = await ask("pay", {}, BOB);
    expect(await obstacle(escalationId, ANN)).to.equal(undefined);
    expect(await obstacle(escalationId, BOB)).to.equal(ApprovalObstacle.ASKED);
    expect(await obstacle(escalationId, await keyOf(BOB)), "a key of the asker").to.equal(ApprovalObstacle.ASKED);
    expect(await obstacle(escalationId, DAN)).to.equal(ApprovalObstacle.NOT_A_MEMBER);
    expect(await obstacle(escalationId, await keyOf())).to.equal(ApprovalObstacle.NO_OWNER);
    expect(await obstacle(escalationId, DAN, Role.AUDITOR)).to.equal(undefined);
    const annsKey = await keyOf(ANN);
    await approve(escalationId, annsKey);
    expect(await obstacle(escalationId, ANN), "by another key").to.equal(ApprovalObstacle.GIVEN);
    const draft = { name: "key", role: Role.OPERATOR, owner: CLEO };
    const made = (await workspace.admin.createApiKey(draft, caller(annsKey, Role.ADMIN))).key?.keyId ?? "";
    expect(await obstacle(escalationId, made)).to.equal(ApprovalObstacle.MAKER);
    expect(await reasonOf(answer(escalationId, made))).to.equal("FOUR_EYES");
    expect(await obstacle(escalationId, CLEO)).to.equal(undefined);
    const legal = await ask("sign");
    await approve(legal, ANN);
    await approve(legal, BOB);
    expect(await obstacle(legal, await keyOf("Key Holder"))).to.equal(ApprovalObstacle.MET);
    expect(await obstacle(legal, DAN)).to.equal(undefined);
    await workspace.admin.updateWorkspace({ workspaceId: workspace.workspaceId, fourEyes: true });
    expect(await obstacle(escalationId, BOB)).to.equal(ApprovalObstacle.FOUR_EYES);
    await workspace.admin.updateWorkspace({ workspaceId: workspace.workspaceId, fourEyes: false });
    await answer(legal, DAN, Resolution.REJECTED);
    expect(await obstacle(legal, DAN), "resolved").to.equal(undefined);
  });
});
