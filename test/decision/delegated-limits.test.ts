import { expect } from "chai";
import { RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, DecisionPath, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { SealedLimit } from "../../src/log/receipts.ts";
import { openWorkspace, type Replica, type TestWorkspace, velocityRule } from "../support/harness.ts";

/** What a receipt shows of a limit, in short: group, count and remainder. */
type Seen = readonly [group: string, count: number, remaining: number];

describe("limits on what agents do for others", () => {
  let test: TestWorkspace;
  let [principal, one, two, other] = ["", "", "", ""];
  beforeEach(async () => {
    test = await openWorkspace();
    [principal = "", one = "", two = "", other = ""] = await test.newAgents(4);
    for (const delegate of [one, two]) await lend(principal, delegate);
  });
  afterEach(() => test.close());

  async function lend(from: string, to: string, parentGrantId?: string): Promise<string> {
    const init = { grantorAgentId: from, granteeAgentId: to, actionTypes: ["pay*"] };
    const parent = parentGrantId === undefined ? {} : { parentGrantId };
    return (await test.authority.createGrant({ ...init, ...parent })).grant?.grantId ?? "";
  }

  async function pay(agentId: string, under: object = {}, replica: Replica = test) {
    const { decision, decisionPath, decisionId, reasons } = await test.intercept(
      { agentId, actionType: "pay", ...under },
      replica,
    );
    const { body } = await test.receipt(decisionId);
    const limits = body.authorisation.collective_limits as readonly SealedLimit[];
    const seen = limits.map(({ group, count, remaining }): Seen => [group, count, remaining]);
    return { decision, decisionPath, seen, message: reasons[0]?.message };
  }
  const forPrincipal = (agentId: string, replica?: Replica) => pay(agentId, { onBehalfOf: principal }, replica);

  it("count for the agent and for the principal, and the receipt shows both.", async () => {
    await test.mandate([velocityRule(3)]);
    expect((await forPrincipal(one)).seen).to.deep.equal([
      [one, 1, 2],
      [principal, 1, 2],
    ]);
    expect((await forPrincipal(two)).seen).to.deep.equal([
      [two, 1, 2],
      [principal, 2, 1],
    ]);
    expect((await pay(principal)).seen).to.deep.equal([[principal, 3, 0]]);
    const fourth = await forPrincipal(one);
    expect(fourth.seen).to.deep.equal([
      [one, 2, 1],
      [principal, 4, 0],
    ]);
    expect(fourth.decision).to.equal(Decision.BLOCK);
    expect(fourth.message).to.equal(`4 matching actions for principal \`${principal}\` in 3600 s are more than 3`);
    expect((await pay(principal)).decision).to.equal(Decision.BLOCK);
    expect((await pay(one)).decision).to.equal(Decision.ALLOW);
  });

  it("of a mandate for the principal count what it does and what delegates do for it, and nothing else.", async () => {
    await test.mandate([velocityRule(2)], { scope: Scope.AGENT, agentId: principal });
    for (let count = 0; count < 3; count++) expect((await pay(one)).seen).to.deep.equal([]);
    expect((await forPrincipal(one)).seen).to.deep.equal([[principal, 1, 1]]);
    expect((await forPrincipal(two)).decision).to.equal(Decision.ALLOW);
    expect((await forPrincipal(two)).decision).to.equal(Decision.BLOCK);
    expect(await pay(principal)).to.deep.include({ decision: Decision.BLOCK, seen: [[principal, 4, 0]] });
  });

  it("of a mandate for the agent count all that it does, for whomever.", async () => {
    await lend(other, one);
    await test.mandate([velocityRule(3)], { scope: Scope.AGENT, agentId: one });
    await pay(one);
    await pay(one, { onBehalfOf: other });
    expect((await forPrincipal(one)).seen).to.deep.equal([[one, 3, 0]]);
    expect((await forPrincipal(one)).decision).to.equal(Decision.BLOCK);
    expect((await pay(principal)).seen).to.deep.equal([]);
  });

  it("count an action once in a group that has agent and principal.", async () => {
    const departmentId = await test.department(principal, one);
    await test.mandate([velocityRule(9, { scope: Scope.WORKSPACE })], { name: "a" });
    await test.mandate([velocityRule(9, { scope: Scope.DEPARTMENT })], { name: "b" });
    await test.mandate([velocityRule(9, { scope: Scope.DEPARTMENT, departmentId })], { name: "c" });
    const together = (count: number): Seen[] => [
      ["default", count, 9 - count],
      [departmentId, count, 9 - count],
      [departmentId, count, 9 - count],
    ];
    expect((await forPrincipal(one)).seen).to.have.deep.members(together(1));
    expect((await pay(principal)).seen).to.have.deep.members(together(2));
    expect((await forPrincipal(one)).seen).to.have.deep.members(together(3));
    const fromOutside = await forPrincipal(two);
    expect(fromOutside.seen).to.have.deep.members([...together(4), [two, 1, 8]]);
  });

  it("of departments count for those of the agent and for those of the principal.", async () => {
    const [left, right] = [await test.department(one), await test.department(principal, other)];
    await test.mandate([velocityRule(2, { scope: Scope.DEPARTMENT })]);
    expect((await forPrincipal(one)).seen).to.deep.equal([
      [left, 1, 1],
      [right, 1, 1],
    ]);
    expect((await pay(other)).seen).to.deep.equal([[right, 2, 0]]);
    expect((await forPrincipal(one)).decision).to.equal(Decision.BLOCK);
  });

  it("of a named department cover an action whose principal alone is a member.", async () => {
    const departmentId = await test.department(principal);
    await test.mandate([velocityRule(1, { scope: Scope.DEPARTMENT, departmentId })]);
    expect((await pay(one)).seen).to.deep.equal([]);
    expect((await forPrincipal(one)).seen).to.deep.equal([[departmentId, 1, 0]]);
    expect((await forPrincipal(two)).decision).to.equal(Decision.BLOCK);
  });

  it("count a principal that only the named grant tells.", async () => {
    await test.mandate([velocityRule(9)]);
    const grantId = await lend(principal, other);
    expect((await pay(other, { grantId })).seen).to.deep.equal([
      [other, 1, 8],
      [principal, 1, 8],
    ]);
  });

  it("of a lender between the two count for the agent.", async () => {
    const first = await lend(principal, other);
    const last = await test.agent();
    await lend(other, last, first);
    await test.mandate([velocityRule(1)], { scope: Scope.AGENT, agentId: other });
    expect((await pay(last, { onBehalfOf: principal })).seen).to.deep.equal([[last, 1, 0]]);
    expect((await pay(last, { onBehalfOf: principal })).decision).to.equal(Decision.BLOCK);
  });

  it("are not used up by agents that claim to act for a principal.", async () => {
    await test.mandate([velocityRule(1)]);
    for (let count = 0; count < 3; count++) {
      expect((await forPrincipal(other)).decisionPath).to.equal(DecisionPath.DELEGATION);
      expect((await pay(one, { onBehalfOf: principal, sessionId: "ses_none" })).decisionPath).to.equal(
        DecisionPath.SESSION,
      );
    }
    expect((await pay(principal)).decision).to.equal(Decision.ALLOW);
    expect((await pay(other)).decision).to.equal(Decision.BLOCK);
  });

  it("count what is refused after the grants held, also under a grant that is named alone.", async () => {
    const closed = await test.agent({ permissions: { allowedActionTypes: ["pay.small"] } });
    const grantId = await lend(closed, one);
    await test.mandate([velocityRule(9)]);
    for (const under of [{ onBehalfOf: closed }, { grantId }]) {
      expect((await pay(one, under)).decisionPath).to.equal(DecisionPath.PERMISSIONS);
    }
    const { seen } = await pay(one, { onBehalfOf: closed, actionType: "pay.small" });
    expect(seen).to.deep.equal([
      [one, 3, 6],
      [closed, 3, 6],
    ]);
  });

  it("leave ordered sequences to the agent that acts.", async () => {
    const conditions = { mode: SequenceMode.ORDERED, steps: ["pay.first", "pay.last"], windowSeconds: 60n };
    await test.mandate([{ type: RuleType.SEQUENCE, decision: Decision.BLOCK, conditions }]);
    const first = { actionType: "pay.first", onBehalfOf: principal };
    const last = { actionType: "pay.last", onBehalfOf: principal };
    await pay(one, first);
    expect((await pay(two, last)).decision).to.equal(Decision.ALLOW);
    expect((await pay(principal, { actionType: "pay.last" })).decision).to.equal(Decision.ALLOW);
    expect((await pay(one, last)).decision).to.equal(Decision.BLOCK);
  });

  it("count alike on every replica, also on one that reads the log back.", async () => {
    await test.mandate([velocityRule(99), velocityRule(99, { scope: Scope.DEPARTMENT })]);
    const departmentId = await test.department(principal, two);
    await pay(principal);
    const replicas = [test, await test.replica()];
    for (let count = 1; count <= 8; count++) {
      if (count === 5) replicas.push(await test.replica());
      const { seen } = await forPrincipal(count % 2 === 0 ? one : two, replicas[count % replicas.length]);
      const own = Math.ceil(count / 2);
      expect(seen).to.deep.equal(
        count % 2 === 0
          ? [
              [one, own, 99 - own],
              [principal, count + 1, 98 - count],
              [one, own, 99 - own],
              [departmentId, count + 1, 98 - count],
            ]
          : [
              [two, own, 99 - own],
              [principal, count + 1, 98 - count],
              [departmentId, count + 1, 98 - count],
            ],
      );
    }
  });

  it("are seen by dry runs as the actions would see them.", async () => {
    await test.mandate([velocityRule(2)]);
    await forPrincipal(two);
    const step = { actionType: "pay", onBehalfOf: principal };
    const { preflight } = await test.dryRuns.preflight({ agentId: one, steps: [step, step] });
    expect(
      preflight?.steps.map(({ decision, collectiveLimits }) => [
        decision,
        collectiveLimits.map(({ group, count }) => [group, Number(count)]),
      ]),
    ).to.deep.equal([
      [
        Decision.ALLOW,
        [
          [one, 1],
          [principal, 2],
        ],
      ],
      [
        Decision.BLOCK,
        [
          [one, 2],
          [principal, 3],
        ],
      ],
    ]);
    await forPrincipal(two);
    const { probe } = await test.dryRuns.probe({ agentId: one, ...step });
    expect(probe?.decision).to.equal(Decision.BLOCK);
    const conditions = probe?.trace[0]?.conditions.map(({ path, value, holds }) => [path, value?.kind.value, holds]);
    expect(conditions).to.deep.equal([
      ["count", 1, false],
      ["principal_count", 3, true],
    ]);
  });

  it("are listed with what others did on behalf of an agent.", async () => {
    await test.mandate([velocityRule(5)]);
    await forPrincipal(one);
    await forPrincipal(two);
    const groupsFor = async (agentId: string) => {
      const { limits } = await test.mandates.listLimits({ agentId });
      return limits[0]?.groups.map(({ group, count, remaining }) => [group, Number(count), Number(remaining)]);
    };
    expect(await groupsFor(principal)).to.deep.equal([[principal, 2, 3]]);
    expect(await groupsFor(one)).to.deep.equal([[one, 1, 4]]);
    expect((await groupsFor(""))?.map(([group, count]) => [group, count])).to.have.deep.members([
      [principal, 2],
      [one, 1],
      [two, 1],
    ]);
  });
});
