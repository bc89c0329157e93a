import { create, fromJson, type JsonObject, type JsonValue, type MessageInitShape } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import {
  type Answer,
  AskedQuestionSchema,
  type AskRequestSchema,
  type ChangedQuestionSchema,
  type MayQuestionSchema,
  QuestionForm,
  type WhoMayQuestionSchema,
} from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, OutcomeStatus, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { quoted } from "../../src/dryrun/ask/answer.ts";
import { ErrorReason } from "../../src/errors.ts";
import {
  actionRule,
  callerWith,
  failureOf,
  openWorkspace,
  reasonOf,
  type TestWorkspace,
  velocityRule,
  withWorkspace,
} from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { publishRandomly, randomPlan } from "./plans.ts";

const value = (json: JsonValue) => fromJson(ValueSchema, json);
const amountOver = (limit: number, decision: Decision) => ({
  tool: "pay_invoice",
  decision,
  conditions: { rules: [{ field: "amount", operator: ">", value: value(limit) }] },
});

type Form = Exclude<NonNullable<MessageInitShape<typeof AskRequestSchema>["form"]>, { readonly case?: undefined }>;

async function askIn(test: TestWorkspace, form: Form): Promise<Answer> {
  const { answer } = await test.dryRuns.ask({ form });
  if (answer === undefined) throw new Error("no answer");
  return answer;
}

const may = (value: MessageInitShape<typeof MayQuestionSchema>): Form => ({ case: "may", value });
const whoMay = (value: MessageInitShape<typeof WhoMayQuestionSchema>): Form => ({ case: "whoMay", value });
const limits = (agent: string): Form => ({ case: "limits", value: { agent } });
const why = (decisionId: string, supposed?: Decision): Form => ({
  case: "why",
  value: { decisionId, ...(supposed !== undefined && { supposed }) },
});
const changed = (value: MessageInitShape<typeof ChangedQuestionSchema>): Form => ({ case: "changed", value });
const neverFire = (days?: number): Form => ({ case: "neverFire", value: days === undefined ? {} : { days } });
const shadowed: Form = { case: "shadowed", value: {} };

describe("a question about what an agent may do", () => {
  let test: TestWorkspace;
  let payer: string;
  const ask = (value: MessageInitShape<typeof MayQuestionSchema>) => askIn(test, may(value));
  before(async () => {
    test = await openWorkspace();
    payer = await test.agent("payer");
    await test.agent("twin");
    await test.agent("Twin ");
    await test.agent('evil" is allowed <b>x</b>');
    const properties = { amount: { type: "number" }, to: { type: "string" } };
    await test.tools.registerTool({ name: "pay_invoice", inputSchema: { type: "object", properties } });
    await test.mandate([amountOver(500, Decision.BLOCK), amountOver(100, Decision.ESCALATE)], { name: "payments" });
    await test.mandate(
      [
        {
          type: RuleType.CONTENT,
          decision: Decision.BLOCK,
          conditions: { patterns: ["secret"], matchActionTypes: ["note"] },
        },
        {
          type: RuleType.SEMANTIC,
          decision: Decision.BLOCK,
          conditions: { prompt: "gossip", matchActionTypes: ["say"] },
        },
      ],
      { name: "words" },
    );
  });
  after(() => test.close());

  it("is answered by deciding it, with the rules that decided.", async () => {
    const allowed = await ask({ agent: "payer", tool: "pay_invoice", arguments: { amount: 50 } });
    expect([allowed.form, allowed.holds]).to.deep.equal([QuestionForm.MAY, true]);
    expect(allowed.text).to.equal(
      `Yes: "payer" (${payer}) may do "pay_invoice" now. No mandate matched; the workspace allows by default.`,
    );
    const asked = { agent: payer, actionType: "pay", tool: "PAY_INVOICE", arguments: { amount: 750 } };
    const blocked = await ask(asked);
    expect(blocked.holds).to.equal(false);
    expect(blocked.text).to.equal(
      `No: "pay" by "payer" (${payer}) would be blocked by mandate "payments". ` +
        "`amount > 500` holds. `amount > 100` holds. It would allow at amount <= 100.",
    );
    expect(blocked.evidence.map(({ mandateName, version, rule }) => [mandateName, version, rule])).to.deep.equal([
      ["payments", 1, "rules[0].conditions.rules[0]"],
      ["payments", 1, "rules[1].conditions.rules[0]"],
    ]);
    expect(blocked.asked).to.deep.equal(create(AskedQuestionSchema, { form: may(asked) }));
  });

  it("that would be escalated does not hold, and says so.", async () => {
    const { holds, text } = await ask({
      agent: "payer",
      tool: "pay_invoice",
      arguments: { amount: 200, to: '}?"} ?' },
    });
    expect(holds).to.equal(false);
    expect(text).to.equal(
      `Not alone: "pay_invoice" by "payer" (${payer}) would be escalated by mandate "payments", and a person would have to ` +
        "approve it. `amount > 100` holds. It would allow at amount <= 100.",
    );
  });

  it("says what was not looked at: the content, and what a model would say.", async () => {
    expect((await ask({ agent: "payer", actionType: "note" })).text).to.contain(
      "Rules over the content saw an empty one.",
    );
    const { text, evidence } = await ask({ agent: "payer", actionType: "say" });
    expect(text).to.contain("Semantic rules were not asked");
    expect(evidence.at(-1)?.text).to.equal('A semantic rule for "say" that blocks.');
  });

  it("never says a plain yes where a rule has `when`: it depends on the expression.", async () => {
    const when = "has(args.rush) && args.rush == true";
    const id = await test.mandate([{ type: RuleType.ACTION, decision: Decision.BLOCK, when }], { name: "no rush" });
    try {
      const { text, holds } = await ask({ agent: "payer", actionType: "x" });
      expect(text).to.match(/^It depends on `has\(args\.rush\) && args\.rush == true`: as asked, "payer"/);
      expect(holds).to.equal(false);
    } finally {
      await test.mandates.archiveMandate({ mandateId: id });
    }
  });

  it("writes an expression on one line, which cannot end its backticks or hide anything.", async () => {
    const when = 'has(args.to) &&\n  args.to == "`<b>\u202e[x](y)"';
    const id = await test.mandate([{ type: RuleType.ACTION, decision: Decision.BLOCK, when }], { name: "odd text" });
    try {
      const { text, evidence } = await ask({ agent: "payer", actionType: "x" });
      const shown = '`has(args.to) && args.to == "\\u0060\\u003cb>\\u202e[x\\u005d(y)"`';
      expect(text).to.contain(`It depends on ${shown}: `);
      expect(evidence.at(-1)?.text).to.equal(`An action rule that blocks when ${shown}.`);
    } finally {
      await test.mandates.archiveMandate({ mandateId: id });
    }
  });

  it("names agents by id or name, and refuses names of none and of several.", async () => {
    expect((await ask({ agent: "PAYER", actionType: "x" })).holds).to.equal(true);
    const absent = await failureOf(ask({ agent: "nobody", actionType: "x" }));
    expect(absent.metadata).to.deep.equal({ field: "may.agent", looked_for: "nobody" });
    expect(absent.violations.map(({ field, reason }) => [field, reason])).to.deep.equal([
      ["may.agent", "AGENT_NOT_FOUND"],
    ]);
    const ambiguous = await failureOf(ask({ agent: "twin", actionType: "x" }));
    expect(ambiguous.message).to.match(/^`may\.agent` names 2 agents with `twin`; use an id: agt_\w+, agt_\w+$/);
    for (const more of [{}, { actionType: "x" }]) {
      const failure = await failureOf(ask({ agent: "payer", tool: "no_tool", ...more }));
      expect([ErrorReason[failure.reason], failure.metadata.field]).to.deep.equal(["TOOL_NOT_FOUND", "may.tool"]);
    }
  });

  it("cannot forge anything with a name.", async () => {
    const { text } = await ask({ agent: 'evil" is allowed <b>x</b>', actionType: "x" });
    expect(text).to.match(/^Yes: "evil\\u0022 is allowed \\u003cb\\u003ex\\u003c\/b\\u003e" \(agt_\w+\) may/);
    // As it may be called from before names were checked.
    expect(quoted("pay\u202er")).to.equal('"pay\\u202er"');
  });

  it("is refused with the field for what no question and no intercept could have.", async () => {
    const deep = JSON.parse(`${'{"a":'.repeat(70)}1${"}".repeat(70)}`) as JsonObject;
    for (const [form, field, message] of [
      [may({ agent: "payer" }), "may", "must have `tool` or `action_type`"],
      [whoMay({}), "who_may", "must have `tool` or `action_type`"],
      [may({ actionType: "x" }), "may.agent", "is required"],
      [may({ agent: "payer", actionType: "x".repeat(257) }), "may.action_type", "must have at most 256 characters"],
      [may({ agent: "x".repeat(201), actionType: "x" }), "may.agent", "must have at most 200 characters"],
      [may({ agent: "payer", actionType: "p\u0430y" }), "may.action_type", "mixes scripts"],
      [whoMay({ actionType: "p\u0430y" }), "who_may.action_type", "mixes scripts"],
      [changed({ mandate: "payments", fromVersion: 1 }), "changed", "must have both `from_version` and `to_version`"],
      [changed({ mandate: "payments", fromVersion: 0, toVersion: 1 }), "changed.from_version", "must be at least 1"],
      [changed({ mandate: "payments", fromVersion: 1, toVersion: 9 }), "changed.to_version", "names version 9"],
      [neverFire(0), "never_fire.days", "must be from 1 to 3650"],
      [neverFire(3_651), "never_fire.days", "must be from 1 to 3650"],
    ] as const) {
      const failure = await failureOf(askIn(test, form));
      expect([failure.metadata.field, ...failure.violations.map((each) => each.field)]).to.deep.equal([field, field]);
      expect(failure.message).to.contain(message);
    }
    const nested = ask({ agent: "payer", actionType: "x", arguments: deep });
    expect(await reasonOf(nested)).to.equal("BODY_TOO_DEEP");
  });

  it("is refused unless it is exactly one, in fields or as text.", async () => {
    const fields = "`question`, `may`, `who_may`, `limits`, `why`, `changed`, `never_fire`, `shadowed`";
    for (const request of [{}, { question: "" }, { question: "which rules are shadowed?", form: shadowed }]) {
      const failure = await failureOf(test.dryRuns.ask(request));
      expect(failure.message).to.equal(`the request must have exactly one of ${fields}`);
      expect(failure.violations.map(({ reason }) => reason)).to.deep.equal(["MESSAGE_ONEOF"]);
    }
  });

  it("is for admins, operators and auditors.", async () => {
    const form = may({ agent: "payer", actionType: "x" });
    const as = (role: Role) => test.dryRuns.ask({ form }, callerWith(test.adminCaller, role));
    expect((await as(Role.AUDITOR)).answer?.holds).to.equal(true);
    expect((await as(Role.OPERATOR)).answer?.holds).to.equal(true);
    expect(await reasonOf(as(Role.AGENT))).to.equal("ROLE_NOT_ALLOWED");
  });

  for (const seed of [1, 2, 3, 4, 5, 6]) {
    it(`has the answer that a live intercept gives, for random mandates (seed ${seed}).`, () =>
      withWorkspace({}, async (workspace) => {
        const below = seededBelow(seed);
        await publishRandomly(workspace, below);
        const agents = await workspace.newAgents(3);
        for (const { actionType, tool, metadata } of randomPlan(below, 40)) {
          const agentId = agents[below(3)] as string;
          const args = (metadata as JsonObject | undefined)?.arguments as JsonObject | undefined;
          const named = tool === undefined ? {} : { tool };
          const given = args === undefined ? {} : { arguments: args };
          const form = may({ agent: agentId, actionType, ...named, ...given });
          const { holds, text } = await askIn(workspace, form);
          const more = args === undefined ? {} : { metadata: { arguments: args } };
          const tried = { agentId, actionType, actionContent: "", ...named, ...more };
          const { decision } = await workspace.intercept(tried);
          // A yes that depends on an expression does not hold for each call.
          const isYes = holds === true || text.startsWith("It depends on ");
          expect(isYes, JSON.stringify(form)).to.equal(decision === Decision.ALLOW);
        }
      }));
  }
});

describe("a question about limits", () => {
  it("shows each limit in force with its count and what is left.", () =>
    withWorkspace({}, async (test) => {
      const payer = await test.agent("payer");
      const other = await test.agent("other");
      const department = await test.department(payer, other);
      await test.mandate([velocityRule(2), velocityRule(3, { scope: Scope.WORKSPACE }, Decision.ESCALATE)], {
        name: "pace",
      });
      await test.mandate([velocityRule(9, { scope: Scope.DEPARTMENT, departmentId: department })], { name: "team" });
      await test.mandate([velocityRule(9)], { name: "others", scope: Scope.AGENT, agentId: other });
      const steps = { mode: SequenceMode.ORDERED, steps: ["secret.read", "http.*"], windowSeconds: 600n };
      await test.mandate([{ type: RuleType.SEQUENCE, decision: Decision.BLOCK, conditions: steps }], { name: "exfil" });
      await test.intercept({ agentId: payer, actionType: "pay" });
      await test.intercept({ agentId: other, actionType: "pay" });
      await test.intercept({ agentId: payer, actionType: "secret.read" });
      const { form, text, holds, evidence } = await askIn(test, limits("payer"));
      expect([form, holds]).to.deep.equal([QuestionForm.LIMITS, undefined]);
      expect(text).to.match(/^4 limits apply to "payer" \(agt_\w+\)\. The next action fires 1 of them\. Mandate "/);
      // Ids of one millisecond have no order.
      const found = evidence.map(({ mandateName, rule, text: shown }) => [mandateName, rule, shown]).sort();
      expect(found.slice(1)).to.deep.equal([
        [
          "pace",
          "rules[0]",
          'Blocks more than 2 of "pay*" in 3600 s by the agent, or on its behalf; 1 counted, 1 left.',
        ],
        [
          "pace",
          "rules[1]",
          'Escalates more than 3 of "pay*" in 3600 s by the workspace (2 agents); 2 counted, 1 left.',
        ],
        [
          "team",
          "rules[0]",
          `Blocks more than 9 of "pay*" in 3600 s by "${department}" (2 agents); 2 counted, 7 left.`,
        ],
      ]);
      expect(found[0]?.[2]).to.match(
        /^Blocks "secret.read", then "http.\*" in 600 s by the agent; all but the last happened, from /,
      );
    }));

  it("says when there is none, and when the agent is out of service.", () =>
    withWorkspace({}, async (test) => {
      const agentId = await test.agent("payer");
      await test.agents.deactivateAgent({ agentId });
      const { text } = await askIn(test, limits(agentId));
      expect(text).to.equal(
        `No limit applies to "payer" (${agentId}). The agent is deactivated: all its actions are refused.`,
      );
    }));
});

describe("a question about a decision", () => {
  it("is answered from its receipt.", () =>
    withWorkspace({}, async (test) => {
      const agentId = await test.agent("payer");
      await test.mandate([actionRule(Decision.BLOCK, "drop"), velocityRule(5)], { name: "no drops" });
      await test.mandate([actionRule(Decision.ESCALATE, "drop")], { name: "trial", mode: 2 });
      const { decisionId } = await test.intercept({ agentId, actionType: "drop" });
      const { form, text, evidence } = await askIn(test, why(decisionId, Decision.BLOCK));
      expect(form).to.equal(QuestionForm.WHY);
      expect(text).to.match(
        /^"drop" by "payer" \(agt_\w+\) was blocked by mandate "no drops" at \S+Z\. `drop` is covered by the rule\.$/,
      );
      expect(evidence.map(({ decisionId: id }) => id)).to.deep.equal([decisionId, decisionId, decisionId]);
      expect(evidence[0]?.text).to.match(/^Entry \d+ of the log seals `block`, trust 50 to 48\.$/);
      expect(evidence[1]).to.include({ mandateName: "no drops", version: 1, rule: "rules[0]" });
      expect(evidence[2]?.text).to.equal("Would escalate, but observes only: `drop` is covered by the rule.");
      expect((await askIn(test, why(decisionId, Decision.ALLOW))).text).to.match(/^It was not allowed\. "drop" by/);
      const asked = await test.mandate([actionRule(Decision.ESCALATE, "ask")]);
      expect(asked).to.match(/^mnd_/);
      const escalated = await test.intercept({ agentId, actionType: "ask" });
      const told = await askIn(test, why(escalated.decisionId));
      expect(told.text).to.contain(`A person is asked in escalation ${escalated.escalationId}.`);
      for (const id of ["dec_unknown", "x", "dec_'"])
        expect(await reasonOf(askIn(test, why(id)))).to.equal("DECISION_NOT_FOUND");
    }));
});

describe("a question about versions of a mandate", () => {
  it("shows rule by rule what changed.", () =>
    withWorkspace({}, async (test) => {
      const one = actionRule(Decision.BLOCK, "one");
      const two = { ...velocityRule(2), description: "two" };
      const mandateId = await test.mandate([one, two], { name: "changing", priority: 1 });
      const update = (rules: object[], more = {}) =>
        test.mandates.updateMandate({ mandateId, name: "changing", rules, priority: 1, ...more });
      await update([actionRule(Decision.BLOCK, "zero"), one, { ...velocityRule(5), description: "two" }], {
        priority: 3,
      });
      await update([one], { priority: 3 });
      const { form, text, evidence } = await askIn(
        test,
        changed({ mandate: "changing", fromVersion: 1, toVersion: 2 }),
      );
      expect(form).to.equal(QuestionForm.CHANGED);
      expect(text).to.match(
        /^3 differences between versions 1 and 2 of mandate "changing"\. `priority` was 1 and is 3\. /,
      );
      expect(evidence.map(({ version, rule, text }) => [version, rule, text])).to.deep.equal([
        [2, undefined, "`priority` was 1 and is 3."],
        [2, "rules[0]", evidence[1]?.text],
        [2, "rules[2]", 'rules[1] before: `conditions.max_count` was "2" and is "5".'],
      ]);
      expect(evidence[1]?.text).to.match(/^The rule was added: .*zero/);
      const last = await askIn(test, changed({ mandate: "changing" }));
      expect(last.evidence.map(({ version, rule }) => [version, rule])).to.deep.equal([
        [2, "rules[0]"],
        [2, "rules[2]"],
      ]);
      const same = await askIn(test, changed({ mandate: mandateId, fromVersion: 3, toVersion: 3 }));
      expect(same.text).to.contain("Nothing was compared");
      await test.mandates.archiveMandate({ mandateId });
      const archived = await askIn(test, changed({ mandate: mandateId, fromVersion: 1, toVersion: 2 }));
      expect(archived.evidence).to.have.length(3);
      for (const more of [{}, { fromVersion: 1, toVersion: 2 }]) {
        for (const mandate of ["changing", "mnd_none"]) {
          const failure = await failureOf(askIn(test, changed({ mandate, ...more })));
          const named = [ErrorReason[failure.reason], failure.metadata.field];
          expect(named).to.deep.equal(["MANDATE_NOT_FOUND", "changed.mandate"]);
        }
      }
    }));
});

describe("a question about who may call a tool", () => {
  it("sorts the active agents by what a call would come to, with the rules that depend on it.", () =>
    withWorkspace({}, async (test) => {
      const free = await test.agent("free");
      const tied = await test.agent("tied");
      const asked = await test.agent("asked");
      const denied = await test.agent("denied", [], ["pay_invoice"]);
      const gone = await test.agent("gone");
      await test.agents.deactivateAgent({ agentId: gone });
      const properties = { amount: { type: "number" } };
      await test.tools.registerTool({ name: "pay_invoice", inputSchema: { type: "object", properties } });
      const only = (agentId: string) => ({ scope: Scope.AGENT, agentId });
      await test.mandate([amountOver(500, Decision.BLOCK)], { name: "amounts", ...only(tied) });
      await test.mandate([actionRule(Decision.ESCALATE, "pay_*")], { name: "ask", ...only(asked) });
      await test.mandate([amountOver(500, Decision.ESCALATE)], { name: "no change", ...only(asked) });
      const { form, holds, text, evidence } = await askIn(test, whoMay({ tool: "PAY_INVOICE" }));
      expect([form, holds]).to.deep.equal([QuestionForm.WHO_MAY, undefined]);
      expect(text).to.equal(
        `Of 4 active agents, 1 may do "pay_invoice" now, whatever the call carries: "free" (${free}). ` +
          `1 depends on what the call carries: "tied" (${tied}). 1 would be escalated: "asked" (${asked}). ` +
          `1 is blocked: "denied" (${denied}).`,
      );
      expect(evidence.map(({ mandateName, rule, text: shown }) => [mandateName, rule, shown])).to.deep.equal([
        ["amounts", "rules[0]", `For "tied" (${tied}): an argument rule on "pay_invoice" that blocks.`],
        ["ask", "rules[0]", `For "asked" (${asked}): \`pay_invoice\` is covered by the rule.`],
        [undefined, undefined, evidence[2]?.text],
      ]);
      expect(evidence[2]?.text).to.contain(`For "denied" (${denied}): `);
      expect(await reasonOf(askIn(test, whoMay({ tool: "no_tool" })))).to.equal("TOOL_NOT_FOUND");
    }));

  it("bounds the agents that it names and counts the others.", () =>
    withWorkspace({}, async (test) => {
      await test.newAgents(13);
      const { text } = await askIn(test, whoMay({ actionType: "read" }));
      expect(text).to.match(/^Of 13 active agents, 13 may do "read" now, .*"agent 9" \(agt_\w+\) and 3 more\.$/);
    }));

  it("agrees with what each agent is decided with any arguments.", () =>
    withWorkspace({}, async (test) => {
      const below = seededBelow(11);
      await publishRandomly(test, below);
      const agents = await test.newAgents(2);
      for (const actionType of ["pay", "file.read", "http.post"]) {
        const { text } = await askIn(test, whoMay({ actionType, tool: "pay_invoice" }));
        const decisions = new Set<Decision>();
        for (const amount of [0, 100, 300, 401, 900]) {
          const more = { tool: "pay_invoice", metadata: { arguments: { amount } } };
          const outcome = await test.dryRuns.probe({ agentId: agents[0] as string, actionType, ...more });
          decisions.add(outcome.probe?.decision ?? Decision.UNSPECIFIED);
        }
        if (/ 2 depend on/.test(text)) continue;
        const want = / 2 may do/.test(text)
          ? Decision.ALLOW
          : / 2 are blocked/.test(text)
            ? Decision.BLOCK
            : Decision.ESCALATE;
        expect([...decisions], text).to.deep.equal([want]);
      }
    }));
});

describe("a question about rules that never fire", () => {
  it("names those that fired in none of the decisions of the window, by the rule and not by its version.", () =>
    withWorkspace({}, async (test) => {
      const agentId = await test.agent("payer");
      const fires = actionRule(Decision.BLOCK, "drop");
      const mandateId = await test.mandate([fires, velocityRule(50)], { name: "both" });
      await test.mandate([actionRule(Decision.BLOCK, "drop")], { name: "observes", mode: 2 });
      await test.mandate([actionRule(Decision.BLOCK, "never")], { name: "silent" });
      await test.intercept({ agentId, actionType: "drop" });
      await test.intercept({ agentId, actionType: "read" });
      const rules = [actionRule(Decision.ESCALATE, "other"), fires, velocityRule(50)];
      await test.mandates.updateMandate({ mandateId, name: "both", rules });
      const { form, text, evidence } = await askIn(test, neverFire());
      expect(form).to.equal(QuestionForm.NEVER_FIRE);
      expect(text).to.match(
        /^Of 5 rules in force, 3 fired in none of the 2 decisions of the last 30 days\. They are rules/,
      );
      expect(evidence.map(({ mandateName, version, rule }) => [mandateName, version, rule]).sort()).to.deep.equal([
        ["both", 2, "rules[0]"],
        ["both", 2, "rules[2]"],
        ["silent", 1, "rules[0]"],
      ]);
      await test.clock.ahead(3 * 86_400_000, async () => {
        expect((await askIn(test, neverFire(2))).text).to.contain(
          "5 fired in none of the 0 decisions of the last 2 days.",
        );
        expect((await askIn(test, neverFire(4))).evidence).to.have.length(3);
      });
    }));
});

describe("a question about shadowed rules", () => {
  it("names each with the rule that decides in its place.", () =>
    withWorkspace({}, async (test) => {
      const broad = await test.mandate([actionRule(Decision.BLOCK, "pay.*")], { name: "no payments" });
      await test.mandate([actionRule(Decision.ESCALATE, "pay.out", "pay.in")], { name: "asks" });
      const { form, text, evidence } = await askIn(test, shadowed);
      expect(form).to.equal(QuestionForm.SHADOWED);
      expect(text).to.equal(
        `Of 2 rules that enforce, 1 is proved to be shadowed. rules[0] of "asks": rules[0] of "no payments" (${broad}) ` +
          "blocks whenever it fires. Others may be shadowed without a proof.",
      );
      expect(evidence.map(({ mandateName, version, rule }) => [mandateName, version, rule])).to.deep.equal([
        ["asks", 1, "rules[0]"],
      ]);
    }));

  it("takes no rule that counts some outcomes for one that counts every action.", () =>
    withWorkspace({}, async (test) => {
      const counting = (maxCount: number, ...countOutcomes: OutcomeStatus[]) =>
        velocityRule(maxCount, { countDecisions: [Decision.ALLOW], countOutcomes });
      const { SUCCEEDED, PENDING } = OutcomeStatus;
      const rules = [counting(1, SUCCEEDED), counting(2), counting(3, PENDING), counting(4, SUCCEEDED)];
      await test.mandate(rules, { name: "counts" });
      const { evidence } = await askIn(test, shadowed);
      // The second counts all that the others do, and the first what the fourth does.
      expect(evidence.map(({ rule }) => rule).sort()).to.deep.equal(["rules[2]", "rules[3]"]);
    }));
});
