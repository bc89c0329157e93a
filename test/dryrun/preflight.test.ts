import { type JsonObject, toJson } from "@bufbuild/protobuf";
import { timestampDate, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import {
  CollectiveLimitSchema,
  Decision,
  DecisionPath,
  ReasonSchema,
  Scope,
} from "../../gen/agentcontrol/v1/resources_pb.js";
import {
  actionRule,
  callerWith,
  fieldsOf,
  openWorkspace,
  reasonOf,
  type TestWorkspace,
  velocityRule,
  withWorkspace,
} from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { drawFrom, publishRandomly, randomPlan } from "./plans.ts";

/** Removes when limits have room again: the intercepts that a preflight foresees come later. */
function withoutTime<T extends object>(timed: T): object {
  const {
    resetsAt: _,
    resets_at: __,
    ...rest
  } = timed as T & { readonly resetsAt?: unknown; readonly resets_at?: unknown };
  return rest;
}

const plainNumber = (value: unknown): unknown => (typeof value === "bigint" ? Number(value) : value);

const SEEDS = Array.from({ length: 8 }, (_, index) => index + 1);

describe("a preflight", () => {
  for (const seed of SEEDS) {
    it(`of n steps is what the n intercepts after it come to, on three processes (${seed}).`, async () => {
      const below = seededBelow(seed);
      await withWorkspace({ replicas: 3 }, async (workspace) => {
        const agents = await workspace.newAgents(2);
        await publishRandomly(workspace, below);
        for (const { actionType, actionContent } of randomPlan(below, 6)) {
          await workspace.intercept(
            { agentId: drawFrom(below, agents), actionType, actionContent },
            drawFrom(below, workspace.replicas),
          );
        }
        const agentId = drawFrom(below, agents);
        const plan = randomPlan(below, 12);
        const { preflight } = await drawFrom(below, workspace.replicas).dryRuns.preflight({ agentId, steps: plan });
        for (const [index, step] of plan.entries()) {
          const reply = await workspace.intercept({ agentId, ...step }, drawFrom(below, workspace.replicas));
          const { body } = await workspace.receipt(reply.decisionId);
          const foreseen = preflight?.steps[index];
          expect({
            decision: foreseen?.decision,
            path: foreseen?.decisionPath,
            name: foreseen?.policyName,
            reasons: foreseen?.reasons.map((reason) => withoutTime(toJson(ReasonSchema, reason) as JsonObject)),
            trust: { before: foreseen?.trustBefore, after: foreseen?.trustAfter },
            limits: foreseen?.collectiveLimits.map(({ $typeName: _, kind: __, scope, mandateId, ...limit }) => ({
              ...Object.fromEntries(
                Object.entries(withoutTime(limit)).map(([name, value]) => [name, plainNumber(value)]),
              ),
              scope: Scope[scope].toLowerCase(),
              mandate_id: mandateId,
            })),
          }).to.deep.equal({
            decision: reply.decision,
            path: reply.decisionPath,
            name: reply.policyName,
            reasons: reply.reasons.map((reason) => withoutTime(toJson(ReasonSchema, reason) as JsonObject)),
            trust: body.trust,
            limits: body.authorisation.collective_limits.map(withoutTime),
          });
        }
      });
    });
  }

  describe("of one workspace", () => {
    let test: TestWorkspace;
    let agentId: string;
    before(async () => {
      test = await openWorkspace();
      agentId = await test.agent();
      await test.tools.registerTool({
        name: "pay_invoice",
        inputSchema: {
          type: "object",
          properties: {
            amount: { type: "number", minimum: 0, maximum: 5_000, description: "What is due" },
            lines: { type: "array", items: { type: "object", properties: { text: { type: "string" } } } },
          },
          required: ["amount"],
        },
      });
      await test.mandate([velocityRule(2)], { name: "few payments" });
    });
    after(() => test.close());

    const steps = (...types: readonly string[]) => types.map((actionType) => ({ actionType }));

    it("counts what it decides and shows what remains of limits.", async () => {
      const { preflight } = await test.dryRuns.preflight({ agentId, steps: steps("pay", "pay", "pay", "read") });
      expect([preflight?.allowed, preflight?.blocked, preflight?.escalated]).to.deep.equal([3, 1, 0]);
      const remaining = preflight?.steps.map(({ collectiveLimits }) =>
        collectiveLimits.map((limit) => Number(limit.remaining)),
      );
      expect(remaining).to.deep.equal([[1], [0], [0], []]);
      const fitsIn = preflight?.steps.map(({ collectiveLimits: [limit] }) =>
        limit?.resetsAt === undefined || preflight.at === undefined
          ? undefined
          : timestampMs(limit.resetsAt) - timestampMs(preflight.at),
      );
      // After the second and the third step, the second has to leave the window, and all three came at one time.
      expect(fitsIn).to.deep.equal([undefined, 3_600_000, 3_600_000, undefined]);
      expect(preflight?.steps[2]?.reasons[0]).to.deep.include({
        remaining: 0,
        resetsAt: preflight?.steps[2]?.collectiveLimits[0]?.resetsAt,
      });
      expect(preflight?.steps[2]).to.deep.include({
        index: 2,
        decision: Decision.BLOCK,
        decisionPath: DecisionPath.POLICY,
        policyName: "few payments",
      });
      expect(preflight?.seq).to.equal(BigInt((await test.log.caughtUp()).seq));
      const limit = preflight?.steps[0]?.collectiveLimits[0];
      expect(limit && toJson(CollectiveLimitSchema, limit)).to.deep.include({ limit: "2", count: "1", group: agentId });
    });

    it("names every argument that the tool declares, with its range, given or not.", async () => {
      const metadata: JsonObject = { arguments: { lines: [{}, { text: "a" }] } };
      const { preflight } = await test.dryRuns.preflight({
        agentId,
        steps: [{ actionType: "pay", tool: "PAY_INVOICE", metadata }],
      });
      const shown = preflight?.steps[0]?.arguments.map(
        ({ path, types, required, minimum, maximum, description, given }) => ({
          path,
          types,
          required,
          minimum,
          maximum,
          description,
          given,
        }),
      );
      const none = { minimum: undefined, maximum: undefined, description: undefined };
      expect(shown).to.deep.equal([
        {
          path: "amount",
          types: ["number"],
          required: true,
          minimum: 0,
          maximum: 5_000,
          description: "What is due",
          given: false,
        },
        { path: "lines", types: ["array"], required: false, ...none, given: true },
        { path: "lines[]", types: ["object"], required: false, ...none, given: true },
        { path: "lines[].text", types: ["string"], required: false, ...none, given: true },
      ]);
    });

    it("tries drafts, alone or in place of a mandate in force.", async () => {
      const draft = { name: "no payments", rules: [actionRule(Decision.BLOCK, "pay")] };
      const added = await test.dryRuns.preflight({ agentId, steps: steps("pay"), drafts: [draft] });
      expect(added.preflight?.steps[0]?.policyName).to.equal("no payments");
      expect(added.preflight?.steps[0]?.reasons[0]?.mandateId).to.equal("drafts[0]");
      const { mandates } = await test.mandates.listMandates({});
      const replacesMandateId = mandates.find(({ name }) => name === "few payments")?.mandateId ?? "";
      const replacing = { name: "few payments", replacesMandateId, rules: [velocityRule(0)] };
      const replaced = await test.dryRuns.preflight({ agentId, steps: steps("pay"), drafts: [replacing] });
      expect(replaced.preflight?.steps[0]?.reasons[0]?.mandateId).to.equal(replacesMandateId);
      expect(replaced.preflight?.blocked).to.equal(1);
    });

    it("decides as of a time to come, and of none that is past.", async () => {
      const inAWeek = Date.now() + 7 * 86_400_000;
      const { preflight } = await test.dryRuns.preflight({
        agentId,
        steps: steps("pay"),
        at: timestampFromMs(inAWeek),
      });
      expect(preflight?.at && timestampDate(preflight.at).getTime()).to.equal(inAWeek);
      const past = test.dryRuns.preflight({ agentId, steps: steps("pay"), at: timestampFromMs(1) });
      expect(await fieldsOf(past)).to.deep.equal(["at"]);
    });

    it("refuses drafts that could not be published, by their fields.", async () => {
      const ask = (draft: object) => test.dryRuns.preflight({ agentId, steps: steps("pay"), drafts: [draft] });
      const bad = {
        name: "x",
        rules: [{ type: RuleType.ACTION, decision: Decision.BLOCK, conditions: { matchActionTypes: ["a\u200bb"] } }],
      };
      expect(await fieldsOf(ask(bad))).to.deep.equal(["drafts[0].rules[0].conditions.match_action_types[0]"]);
      expect(await reasonOf(ask({ name: "few payments", rules: [actionRule(Decision.BLOCK, "x")] }))).to.equal(
        "MANDATE_EXISTS",
      );
      expect(
        await reasonOf(ask({ name: "y", replacesMandateId: "mnd_x", rules: [actionRule(Decision.BLOCK, "x")] })),
      ).to.equal("MANDATE_NOT_FOUND");
      expect(await fieldsOf(ask({ name: "y", rules: [] }))).to.deep.equal(["drafts[0].rules"]);
    });

    it("is for everyone; drafts are for those who may publish, and a bound key asks for its own agent.", async () => {
      const other = await test.agent();
      const drafts = [{ name: "d", rules: [actionRule(Decision.BLOCK, "x")] }];
      const as = (role: Role, bound: string | null = null) => callerWith(test.adminCaller, role, bound);
      const asked = (role: Role, bound: string | null, more = {}) =>
        test.dryRuns.preflight({ agentId, steps: steps("read"), ...more }, as(role, bound));
      expect((await asked(Role.AGENT, agentId)).preflight?.allowed).to.equal(1);
      expect((await asked(Role.AUDITOR, null)).preflight?.allowed).to.equal(1);
      expect(await reasonOf(asked(Role.AGENT, other))).to.equal("AGENT_NOT_ALLOWED");
      expect(await reasonOf(asked(Role.AGENT, agentId, { drafts }))).to.equal("ROLE_NOT_ALLOWED");
      expect(await reasonOf(asked(Role.AUDITOR, null, { drafts }))).to.equal("ROLE_NOT_ALLOWED");
      expect((await asked(Role.OPERATOR, null, { drafts })).preflight?.allowed).to.equal(1);
    });

    it("refuses unknown agents, and plans without steps or with too many.", async () => {
      expect(await reasonOf(test.dryRuns.preflight({ agentId: "agt_x", steps: steps("a") }))).to.equal(
        "AGENT_NOT_FOUND",
      );
      const drafts = [{ name: "d", rules: [actionRule(Decision.BLOCK, "x")] }];
      expect(await reasonOf(test.dryRuns.preflight({ agentId: "agt_x", steps: steps("a"), drafts }))).to.equal(
        "AGENT_NOT_FOUND",
      );
      expect(await fieldsOf(test.dryRuns.preflight({ agentId, steps: [] }))).to.deep.equal(["steps"]);
      const many = Array.from({ length: 51 }, () => ({ actionType: "a" }));
      expect(await fieldsOf(test.dryRuns.preflight({ agentId, steps: many }))).to.deep.equal(["steps"]);
      expect(await fieldsOf(test.dryRuns.preflight({ agentId, steps: [{ actionType: "" }] }))).to.deep.equal([
        "steps[0].action_type",
      ]);
    });
  });
});
