import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import {
  type Limit,
  LimitOrder,
  MandateMode,
  RuleType,
  SequenceMode,
} from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { failureOf, openWorkspace, reasonOf, type TestWorkspace, velocityRule } from "../support/harness.ts";

const HOUR_MS = 3_600_000;

const orderedRule = (steps: readonly string[], conditions: object = {}) => ({
  type: RuleType.SEQUENCE,
  decision: Decision.ESCALATE,
  conditions: {
    mode: SequenceMode.ORDERED,
    steps: [...steps],
    windowSeconds: 3600n,
    scope: Scope.AGENT,
    ...conditions,
  },
});

/** Groups as a test names them: group, count, remaining, members. */
const groupsOf = (limit: Limit | undefined) =>
  limit?.groups.map(({ group, count, remaining, members }) => [group, ...[count, remaining, members].map(Number)]);

describe("the list of limits", () => {
  let test: TestWorkspace;
  let [ann, ben, cid, dan]: readonly string[] = [];
  let [ops, dev]: readonly string[] = [];
  /** Rules by the name of their mandate. */
  let limits: Map<string, Limit>;

  const listed = async (request: object = {}): Promise<Limit[]> => {
    const all: Limit[] = [];
    let pageToken = "";
    do {
      const page = await test.mandates.listLimits({ ...request, pageToken });
      all.push(...page.limits);
      pageToken = page.nextPageToken ?? "";
    } while (pageToken !== "");
    return all;
  };

  before(async () => {
    test = await openWorkspace();
    [ann, ben, cid, dan] = [
      await test.agent("ann"),
      await test.agent("ben"),
      await test.agent("cid"),
      await test.agent("dan"),
    ];
    ops = await test.department(ann as string, ben as string);
    dev = await test.department(ben as string, cid as string);
    const department = { scope: Scope.DEPARTMENT, departmentId: ops };
    const publish = (name: string, rules: Parameters<typeof test.mandate>[0], init: object = {}) =>
      test.mandate(rules, { name, ...init });
    await publish("each", [velocityRule(100)]);
    await publish("all", [velocityRule(3, { scope: Scope.WORKSPACE, matchActionTypes: ["Pay*", "send"] })]);
    await publish("departments", [velocityRule(100, { scope: Scope.DEPARTMENT })]);
    await publish("ops only", [velocityRule(100, department)]);
    await publish("allowed only", [velocityRule(100, { countDecisions: [Decision.ALLOW] })]);
    await publish("watching", [velocityRule(1, { scope: Scope.WORKSPACE })], { mode: MandateMode.OBSERVE });
    await publish("for ben", [velocityRule(100), velocityRule(100, { scope: Scope.DEPARTMENT })], {
      scope: Scope.AGENT,
      agentId: ben,
    });
    await publish("for dev", [velocityRule(100), velocityRule(100, { scope: Scope.DEPARTMENT })], {
      scope: Scope.DEPARTMENT,
      departmentId: dev,
    });
    const steps = ["read", "pack", "send*"];
    await publish("steps", [orderedRule(steps)]);
    await publish("steps of all", [orderedRule(steps, { scope: Scope.WORKSPACE })]);
    await publish("steps of departments", [orderedRule(steps, { scope: Scope.DEPARTMENT })]);
    await publish("no limit", [
      { type: RuleType.ACTION, decision: Decision.BLOCK, conditions: { matchActionTypes: ["x"] } },
    ]);
    const acts: [string | undefined, string][] = [
      [ann, "pay"],
      [ann, "pay.more"],
      [ben, "pay"],
      [cid, "read"],
      [ben, "pack"],
      [ann, "read"],
      [ben, "pay"],
      [ann, "pack"],
      [dan, "pay"],
      [dan, "send"],
    ] as [string | undefined, string][];
    for (const [agentId = "", actionType] of acts) await test.intercept({ agentId, actionType });
    limits = new Map((await listed()).map((limit) => [`${limit.mandateName} ${limit.rule}`, limit]));
  });
  after(() => test.close());

  const limit = (name: string, rule = 0): Limit | undefined => limits.get(`${name} rules[${rule}]`);

  it("lists every rule that counts, observing ones too, newest mandate first, and no other.", async () => {
    const all = await listed();
    expect(all).to.have.length(13);
    expect(all.map(({ mandateName }) => mandateName).slice(0, 3)).to.deep.equal([
      "steps of departments",
      "steps of all",
      "steps",
    ]);
    expect(limit("watching")).to.include({ mode: MandateMode.OBSERVE, decision: Decision.BLOCK, version: 1 });
    for (const pageSize of [1, 2, 5]) expect(await listed({ pageSize })).to.deep.equal(all);
  });

  it("says what each rule counts and when it fires.", () => {
    expect(limit("all")).to.include({ maxCount: 3n, windowSeconds: 3600n, scope: Scope.WORKSPACE });
    expect(limit("all")?.actionTypes).to.deep.equal(["pay*", "send"]);
    expect(limit("all")?.sequenceMode).to.equal(SequenceMode.VELOCITY);
    expect(limit("ops only")).to.include({ departmentId: ops, scope: Scope.DEPARTMENT });
    expect(limit("allowed only")?.countDecisions).to.deep.equal([Decision.ALLOW]);
    expect(limit("steps")).to.include({ sequenceMode: SequenceMode.ORDERED, windowSeconds: 3600n });
    expect([limit("all")?.departmentId, limit("steps")?.maxCount]).to.deep.equal([undefined, undefined]);
    expect(limit("steps")?.steps).to.deep.equal(["read", "pack", "send*"]);
  });

  it("counts each agent, the workspace, and each department, whatever the scope of the mandate.", () => {
    expect(groupsOf(limit("each"))).to.deep.equal([...[ann, ben].sort().map((id) => [id, 2, 98, 1]), [dan, 1, 99, 1]]);
    expect(groupsOf(limit("all"))).to.deep.equal([["default", 6, 0, 4]]);
    expect(groupsOf(limit("departments"))).to.deep.equal([
      [ops, 4, 96, 2],
      [dev, 2, 98, 2],
    ]);
    expect(groupsOf(limit("ops only"))).to.deep.equal([[ops, 4, 96, 2]]);
    // "all" blocked the fourth action and the later ones.
    const allowed = limit("allowed only")?.groups.reduce((sum, { count }) => sum + Number(count), 0);
    expect(allowed).to.equal(3);
    expect(
      limit("each")
        ?.groups.map(({ name }) => name)
        .sort(),
    ).to.deep.equal(["ann", "ben", "dan"]);
  });

  it("shows of a mandate for one agent or department the groups that it covers alone.", () => {
    expect(groupsOf(limit("for ben"))).to.deep.equal([[ben, 2, 98, 1]]);
    expect(groupsOf(limit("for ben", 1))).to.deep.equal([[[ops, dev].sort().join("+"), 4, 96, 3]]);
    expect(groupsOf(limit("for dev"))).to.deep.equal([[ben, 2, 98, 1]]);
    expect(groupsOf(limit("for dev", 1))).to.deep.equal([[dev, 2, 98, 2]]);
  });

  it("counts the steps of an ordered sequence that happened in order.", () => {
    expect(groupsOf(limit("steps"))).to.deep.equal([
      [ann, 2, 0, 1],
      [cid, 1, 1, 1],
    ]);
    expect(groupsOf(limit("steps of all"))).to.deep.equal([["default", 2, 0, 4]]);
    const ofDepartments = [ops, dev].sort().map((id) => [id, 2, 0, 2]);
    expect(groupsOf(limit("steps of departments"))).to.deep.equal(ofDepartments);
  });

  it("shows for an agent the very groups that its next action is decided with.", async () => {
    for (const agentId of [ann, ben, cid, dan] as string[]) {
      const own = await listed({ agentId });
      expect(own.every(({ groups, moreGroups }) => groups.length === 1 && moreGroups === 0)).to.equal(true);
      const { probe } = await test.dryRuns.probe({ agentId, actionType: "pay" });
      const shown = new Map(own.map((each) => [`${each.mandateId} ${each.rule}`, groupsOf(each)?.[0]]));
      for (const { mandateId, rule, group, count, members, limit: max } of probe?.collectiveLimits ?? []) {
        const past = Number(count) - 1;
        const wanted = [group, past, Math.max(0, Number(max) - past), Number(members)];
        expect(shown.get(`${mandateId} ${rule}`), `${mandateId} ${rule}`).to.deep.equal(wanted);
      }
      const velocities = own.filter(({ sequenceMode }) => sequenceMode === SequenceMode.VELOCITY);
      expect(velocities).to.have.length(probe?.collectiveLimits.length ?? -1);
      const { probe: last } = await test.dryRuns.probe({ agentId, actionType: "send.it" });
      const fired = new Set(last?.trace.filter(({ fires }) => fires).map((each) => `${each.mandateId} ${each.rule}`));
      for (const each of own.filter(({ sequenceMode }) => sequenceMode === SequenceMode.ORDERED)) {
        expect(fired.has(`${each.mandateId} ${each.rule}`), each.mandateName).to.equal(
          each.groups[0]?.remaining === 0n,
        );
      }
    }
  });

  it("lists by fill the fullest group's share first, each rule once whatever the size of a page, also for one agent.", async () => {
    for (const agentId of ["", ann, dan] as string[]) {
      const byRule = await listed({ agentId });
      const wanted = byRule.toSorted((a, b) => b.fill - a.fill);
      const byFill = await listed({ agentId, orderBy: LimitOrder.FILL });
      expect(byFill).to.deep.equal(wanted);
      for (const pageSize of [1, 2, 5]) {
        expect(await listed({ agentId, pageSize, orderBy: LimitOrder.FILL })).to.deep.equal(wanted);
      }
    }
    const fills = ["each", "all", "ops only", "steps", "watching"].map((name) => limit(name)?.fill);
    expect(fills).to.deep.equal([0.02, 1, 0.04, 2 / 3, 1]);
  });

  it("names the agent of a group that is one agent.", async () => {
    const agentIds = (found: Limit | undefined) => found?.groups.map(({ agentId }) => agentId);
    expect(agentIds(limit("each"))).to.deep.equal([...[ann, ben].sort(), dan]);
    expect(agentIds(limit("departments"))).to.deep.equal([undefined, undefined]);
    expect(agentIds(limit("all"))).to.deep.equal([undefined]);
    const alone = (await listed({ agentId: dan })).find(({ mandateName }) => mandateName === "departments");
    expect(agentIds(alone)).to.deep.equal([dan]);
  });

  it("shows the history of a window on request: counts by its parts, of its first group.", async () => {
    for (const request of [{}, { orderBy: LimitOrder.FILL }, { agentId: ben as string }]) {
      for (const each of await listed({ ...request, withHistory: true })) {
        const { history, groups, sequenceMode } = each;
        const isShown = sequenceMode === SequenceMode.VELOCITY && groups.length > 0;
        expect(history, each.mandateName).to.have.length(isShown ? 24 : 0);
        const sum = history.reduce((all, count) => all + count, 0n);
        if (isShown) expect(sum, each.mandateName).to.equal(groups[0]?.count);
      }
    }
    expect((await listed()).every(({ history }) => history.length === 0)).to.equal(true);
    await test.clock.ahead(HOUR_MS / 2, async () => {
      const all = (await listed({ withHistory: true })).find(({ mandateName }) => mandateName === "all");
      expect(all?.history[11]).to.equal(all?.groups[0]?.count);
      expect(all?.groups[0]?.count).to.equal(6n);
    });
  });

  it("forgets what has left the window.", async () => {
    await test.clock.ahead(HOUR_MS, async () => {
      const all = await listed();
      expect(all.flatMap(({ groups }) => groups).every(({ count }) => count === 0n)).to.equal(true);
    });
  });

  it("lists the 20 agents that counted most, and says how many more counted.", async () => {
    const other = await openWorkspace();
    try {
      await other.mandate([velocityRule(2), orderedRule(["pay", "x"])]);
      const agentIds = await other.newAgents(25);
      for (const [index, agentId] of agentIds.entries())
        for (let times = 0; times <= index % 3; times++) await other.intercept({ agentId, actionType: "pay" });
      for (const each of (await other.mandates.listLimits({})).limits) {
        expect(each.groups).to.have.length(20);
        expect(each.moreGroups).to.equal(5);
        const counts = each.groups.map(({ count }) => Number(count));
        expect(counts).to.deep.equal(counts.toSorted((a, b) => b - a));
      }
      const [velocity] = (await other.mandates.listLimits({})).limits;
      expect(velocity?.groups.filter(({ count }) => count === 3n).map(({ group }) => group)).to.deep.equal(
        agentIds.filter((_, index) => index % 3 === 2).sort(),
      );
      expect(velocity?.groups[0]).to.include({ remaining: 0n });
    } finally {
      await other.close();
    }
  });

  it("tells of a group that has reached its limit when one more action fits.", async () => {
    const other = await openWorkspace();
    try {
      const [one = "", two = ""] = await other.newAgents(2);
      const departmentId = await other.department(one, two);
      await other.mandate([
        velocityRule(2, { windowSeconds: 60n }),
        velocityRule(3, { scope: Scope.DEPARTMENT }),
        velocityRule(3, { scope: Scope.WORKSPACE }),
        velocityRule(4, { scope: Scope.WORKSPACE }),
        velocityRule(0),
        orderedRule(["pay", "x"]),
      ]);
      const times: number[] = [];
      for (const agentId of [two, one, one]) {
        const { decisionId } = await other.intercept({ agentId, actionType: "pay" });
        times.push(Date.parse((await other.receipt(decisionId)).body.at));
      }
      const [first = 0, second = 0] = times;
      const shown = (await other.mandates.listLimits({})).limits.map(({ groups }) =>
        groups.map(({ group, resetsAt }) => [group, resetsAt && timestampMs(resetsAt)]),
      );
      const each = [one, two].sort();
      expect(shown).to.deep.equal([
        [
          [one, second + 60_000],
          [two, undefined],
        ],
        [[departmentId, first + HOUR_MS]],
        [["default", first + HOUR_MS]],
        [["default", undefined]],
        [
          [one, undefined],
          [two, undefined],
        ],
        each.map((group) => [group, undefined]),
      ]);
      const own = (await other.mandates.listLimits({ agentId: one })).limits.map(({ groups: [group] }) => group);
      expect(own[1]?.resetsAt && timestampMs(own[1].resetsAt)).to.equal(first + HOUR_MS);
    } finally {
      await other.close();
    }
  });

  it("refuses an agent that is none, and a token of another list.", async () => {
    expect(await reasonOf(test.mandates.listLimits({ agentId: "agt_no" }))).to.equal("AGENT_NOT_FOUND");
    const { nextPageToken = "" } = await test.mandates.listLimits({ pageSize: 1 });
    const foreign = test.mandates.listLimits({ pageSize: 1, pageToken: nextPageToken, agentId: ann as string });
    expect(await reasonOf(foreign)).to.equal("INVALID_PAGE_TOKEN");
    const [digest] = JSON.parse(Buffer.from(nextPageToken, "base64url").toString()) as string[];
    const pageToken = Buffer.from(JSON.stringify([digest, "no place"])).toString("base64url");
    expect((await failureOf(test.mandates.listLimits({ pageToken }))).violations[0]?.field).to.equal("page_token");
    const byFill = test.mandates.listLimits({ pageToken: nextPageToken, orderBy: LimitOrder.FILL });
    expect(await reasonOf(byFill)).to.equal("INVALID_PAGE_TOKEN");
    const first = await test.mandates.listLimits({ pageSize: 1, orderBy: LimitOrder.FILL });
    const [filled] = JSON.parse(Buffer.from(first.nextPageToken ?? "", "base64url").toString()) as string[];
    for (const position of ["2 1 mnd 0", "1 no place", "1 1 mnd"]) {
      const wrong = Buffer.from(JSON.stringify([filled, position])).toString("base64url");
      const failure = await failureOf(test.mandates.listLimits({ pageToken: wrong, orderBy: LimitOrder.FILL }));
      expect(failure.violations[0]?.field, position).to.equal("page_token");
    }
  });
});
