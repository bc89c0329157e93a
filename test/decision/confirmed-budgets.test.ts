import { randomUUID } from "node:crypto";
import { expect } from "chai";
import fc from "fast-check";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { BudgetRelease, MandateMode, RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, OutcomeStatus, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { Caller } from "../../src/api/context.ts";
import { type OutcomeReport, reportOutcome } from "../../src/decision/report-outcome.ts";
import { type NaiveReport, naiveHolding } from "../../src/dryrun/naive/naive-budgets.ts";
import { sealUnknown } from "../../src/log/unknown-outcomes.ts";
import type { SealedOutcome } from "../../src/state/outcomes.ts";
import { assertIntact, readLog } from "../log/stored-log.ts";
import {
  callerWith,
  failureOf,
  keyOfAgent,
  openWorkspace,
  type Replica,
  reasonOf,
  settled,
  type TestWorkspace,
} from "../support/harness.ts";

const { SUCCEEDED, FAILED, CANCELLED, UNKNOWN } = OutcomeStatus;
const { CONFIRMED, REPORTED } = BudgetRelease;

const WORDS = { succeeded: SUCCEEDED, failed: FAILED, cancelled: CANCELLED } as const;
type Word = keyof typeof WORDS;

/** A report, by whom, and the amount that it names; `unknown` once nobody reported in time. */
type Said = "unknown" | readonly [by: "agent" | "gateway" | "operator", status: Word, amount?: number];

describe("budgets that take confirmed releases alone", () => {
  let test: TestWorkspace;
  let agentId = "";
  let agent: Caller;
  let operator: Caller;
  beforeEach(async () => {
    test = await openWorkspace();
    agentId = await test.agent();
    agent = keyOfAgent(test.adminCaller, agentId);
    operator = callerWith(test.adminCaller, Role.OPERATOR);
    const properties = { amount: { type: "number" }, currency: { type: "string" }, fee: { type: "number" } };
    await test.tools.registerTool({ name: "transfer", inputSchema: { type: "object", properties } });
  });
  afterEach(() => test.close());

  const budget = (release: BudgetRelease, maxTotal = 10, change: object = {}) => ({
    type: RuleType.SEQUENCE,
    decision: Decision.BLOCK,
    conditions: {
      mode: SequenceMode.BUDGET,
      sums: [{ tool: "transfer", field: "amount" }],
      currency: "EUR",
      maxTotal,
      windowSeconds: 604_800n,
      scope: Scope.WORKSPACE,
      release,
      ...change,
    },
  });

  const paymentOf = (amount: number) => {
    const metadata = { arguments: { amount, currency: "EUR" } };
    return { agentId, actionType: "money.send", tool: "transfer", metadata };
  };
  const pay = (amount: number, replica: Replica = test) =>
    test.intercept({ ...paymentOf(amount), claimId: randomUUID() }, replica);

  /** Reserves and captures nothing more, and shows what the budgets hold. */
  async function held(replica: Replica = test) {
    const { decisionId } = await pay(0, replica);
    const { receipt } = await replica.enforcement.getDecision({ decisionId });
    return (receipt?.authorisation?.collectiveLimits ?? []).map(({ budget: state }) => [
      state?.reserved,
      state?.captured,
    ]);
  }

  function byGateway(decisionId: string, status: Word, amount: number | undefined, { log }: Replica) {
    const report: OutcomeReport = { decisionId, status, amount, error: undefined, resultDigest: undefined };
    const { keyId } = agent;
    return reportOutcome(log, report, { keyId, agentId, source: "gateway", isOver: () => false });
  }

  async function say(decisionId: string, said: Said, replica: Replica = test): Promise<unknown> {
    if (said === "unknown") {
      test.clock.advance(3_601_000);
      return sealUnknown(test.log, decisionId);
    }
    const [by, status, amount] = said;
    if (by === "gateway") return byGateway(decisionId, status, amount, replica);
    const report = { decisionId, status: WORDS[status], ...(amount !== undefined && { amount }) };
    return replica.enforcement.reportOutcome(report, by === "agent" ? agent : operator);
  }

  const outcomeOf = async (decisionId: string, replica: Replica = test) =>
    (await replica.enforcement.getDecision({ decisionId })).decision?.outcome;

  it("give an agent that reports a failure after each payment no more than the pot.", async () => {
    await test.mandate([budget(CONFIRMED)]);
    let spent = 0;
    for (let count = 0; count < 12; count++) {
      const { decision, decisionId } = await pay(3);
      if (decision !== Decision.ALLOW) continue;
      spent += 3;
      const lies: readonly Said[] = [
        ["agent", "failed"],
        ["agent", "cancelled"],
        ["agent", "succeeded", 0],
      ];
      await say(decisionId, lies[count % lies.length] as Said);
    }
    expect(spent).to.equal(9);
  });

  it("are no default: by any other, such an agent gets as much as it likes.", async () => {
    const mandateId = await test.mandate([budget(BudgetRelease.UNSPECIFIED)]);
    for (let count = 0; count < 5; count++) await say((await pay(9)).decisionId, ["agent", "failed"]);
    expect(await held()).to.deep.equal([[0, 0]]);
    const release = async () => (await test.mandates.listLimits({})).limits[0]?.release;
    expect(await release()).to.equal(REPORTED);
    await test.mandates.updateMandate({ mandateId, name: "limit", rules: [budget(CONFIRMED)] });
    expect(await release()).to.equal(CONFIRMED);
  });

  const CASES: readonly (readonly [string, readonly Said[], reserved: number, captured: number])[] = [
    ["an agent's failure keeps it", [["agent", "failed"]], 4, 0],
    ["an agent's cancellation keeps it", [["agent", "cancelled"]], 4, 0],
    ["an agent's smaller amount keeps it", [["agent", "succeeded", 3.999999]], 4, 0],
    ["an agent's amount of 0 keeps it", [["agent", "succeeded", 0]], 4, 0],
    ["an agent's success captures it", [["agent", "succeeded"]], 0, 4],
    ["an agent's same amount captures it", [["agent", "succeeded", 4]], 0, 4],
    ["an agent's larger amount counts at once", [["agent", "succeeded", 6]], 0, 6],
    ["an operator's failure gives it back", [["operator", "failed"]], 0, 0],
    ["the gateway's failure gives it back", [["gateway", "failed"]], 0, 0],
    ["the gateway's smaller amount counts", [["gateway", "succeeded", 1]], 0, 1],
    [
      "an operator confirms a failure",
      [
        ["agent", "failed"],
        ["operator", "failed"],
      ],
      0,
      0,
    ],
    [
      "the gateway confirms a failure",
      [
        ["agent", "failed"],
        ["gateway", "failed"],
      ],
      0,
      0,
    ],
    [
      "the gateway confirms a smaller amount",
      [
        ["agent", "succeeded", 1],
        ["gateway", "succeeded", 1],
      ],
      0,
      1,
    ],
    [
      "an operator corrects a failure",
      [
        ["agent", "failed"],
        ["operator", "succeeded"],
      ],
      0,
      4,
    ],
    [
      "an operator corrects a failure with more",
      [
        ["agent", "failed"],
        ["operator", "succeeded", 9],
      ],
      0,
      9,
    ],
    ["an operator settles an unknown one", ["unknown", ["operator", "failed"]], 0, 0],
    ["an agent's failure becomes unknown no more", [["agent", "failed"], "unknown"], 4, 0],
  ];
  for (const [what, reports, reserved, captured] of CASES) {
    it(`hold ${reserved} and ${captured} of 4 where ${what}, on every replica.`, async () => {
      await test.mandate([budget(CONFIRMED)]);
      const second = await test.replica();
      await pay(0, second);
      const { decisionId } = await pay(4);
      for (const [index, said] of reports.entries()) await say(decisionId, said, index % 2 === 0 ? second : test);
      for (const replica of [test, second, await test.replica()]) {
        expect(await held(replica)).to.deep.equal([[reserved, captured]]);
      }
      const sums =
        "select state, sum(millionths)::float8 as sum from budget_amount group by state having sum(millionths) <> 0";
      const { rows } = await test.database.pool.query(`${sums} order by state`);
      const wanted = [
        { state: 1, sum: reserved * 1e6 },
        { state: 2, sum: captured * 1e6 },
      ];
      expect(rows).to.deep.equal(wanted.filter(({ sum }) => sum !== 0));
      assertIntact(await readLog(test.url));
    });
  }

  it("seal the report as it was said, with what waits, and the confirmation beside it.", async () => {
    await test.mandate([budget(CONFIRMED)]);
    const { decisionId } = await pay(4);
    const { body } = await test.receipt(decisionId);
    const [reservation] = body.reserved ?? [];
    expect(reservation).to.include({ millionths: 4_000_000, release: "confirmed" });
    await say(decisionId, ["agent", "failed"]);
    const said = await outcomeOf(decisionId);
    expect(said).to.include({ status: FAILED, awaitsConfirmation: true, reportedBy: agent.keyId });
    await say(decisionId, ["operator", "succeeded", 5]);
    const confirmed = await outcomeOf(decisionId);
    expect(confirmed).to.include({
      status: SUCCEEDED,
      amount: 5,
      awaitsConfirmation: false,
      reportedBy: operator.keyId,
    });
    expect(confirmed?.unknownAt).to.equal(undefined);
    const { outcome, settlement } = await test.log.followed(decisionId);
    expect(outcome).to.deep.include({ status: "failed", source: "agent", settles: false });
    expect(outcome?.reserved).to.deep.equal([{ ...reservation, held: true }]);
    expect(settlement).to.deep.include({ status: "succeeded", source: "operator", settles: true });
    expect(settlement?.reserved).to.deep.equal([reservation]);
    expect(settlement?.overdrawn?.[0]).to.deep.include({ reserved: 4, captured: 5 });
  });

  it("take each report once: a repeat gives back what stands, another is refused.", async () => {
    await test.mandate([budget(CONFIRMED)]);
    const { decisionId } = await pay(4);
    await say(decisionId, ["agent", "failed"]);
    const first = await outcomeOf(decisionId);
    await say(decisionId, ["agent", "failed"]);
    expect(await outcomeOf(decisionId)).to.deep.equal(first);
    const refused = await failureOf(say(decisionId, ["agent", "succeeded", 1]));
    expect([refused.metadata, refused.message]).to.deep.equal([
      { decision_id: decisionId, status: "failed" },
      `the outcome of decision \`${decisionId}\` was reported before as \`failed\`; the gateway or an operator confirms or corrects it`,
    ]);
    await say(decisionId, ["operator", "succeeded", 2]);
    const settledAs = await outcomeOf(decisionId);
    for (const same of [
      ["operator", "succeeded", 2],
      ["gateway", "succeeded", 2],
      ["agent", "failed"],
    ] as const) {
      await say(decisionId, same);
      expect(await outcomeOf(decisionId)).to.deep.equal(settledAs);
    }
    for (const other of [
      ["operator", "failed"],
      ["gateway", "failed"],
      ["agent", "cancelled"],
    ] as const) {
      expect(await reasonOf(say(decisionId, other))).to.equal("OUTCOME_EXISTS");
    }
    expect(await held()).to.deep.equal([[0, 2]]);
    const { entries } = await readLog(test.url);
    const outcomes = entries.map(({ body }) => JSON.parse(body)).filter(({ type }) => type === "outcome");
    expect(outcomes.map(({ settles }) => settles)).to.deep.equal([false, true]);
  });

  it("take no second report where the first took effect, whoever comes.", async () => {
    await test.mandate([budget(CONFIRMED)]);
    for (const first of [
      ["agent", "succeeded", 5],
      ["agent", "succeeded"],
      ["operator", "failed"],
      ["gateway", "failed"],
    ] as const) {
      const { decisionId } = await pay(1);
      await say(decisionId, first);
      expect((await outcomeOf(decisionId))?.awaitsConfirmation).to.equal(false);
      for (const other of [
        ["operator", "succeeded", 0.5],
        ["gateway", "cancelled"],
      ] as const) {
        expect(await reasonOf(say(decisionId, other))).to.equal("OUTCOME_EXISTS");
      }
    }
  });

  it("leave an outcome that was reported known, its action unclaimable, and an unknown one to operators.", async () => {
    await test.mandate([budget(CONFIRMED)]);
    const { decisionId } = await pay(4);
    await say(decisionId, ["agent", "failed"]);
    test.clock.advance(3_601_000);
    await sealUnknown(test.log, decisionId);
    expect((await outcomeOf(decisionId))?.status).to.equal(FAILED);
    const open = await test.intercept(paymentOf(1));
    await say(open.decisionId, ["agent", "failed"]);
    const claim = test.enforcement.claimDecision({ decisionId: open.decisionId, claimId: randomUUID() }, agent);
    expect((await failureOf(claim)).metadata).to.deep.include({ code: "OUTCOME_SETTLED" });
    const late = (await pay(1)).decisionId;
    await say(late, "unknown");
    expect((await outcomeOf(late))?.status).to.equal(UNKNOWN);
    expect(await reasonOf(say(late, ["gateway", "failed"]))).to.equal("OUTCOME_EXISTS");
  });

  it("hold their own pot alone where another budget trusts reports, and a correction changes both.", async () => {
    await test.mandate([budget(CONFIRMED), budget(REPORTED, 20, { scope: Scope.AGENT })]);
    const { decisionId } = await pay(4);
    await say(decisionId, ["agent", "succeeded", 1]);
    expect(await held()).to.deep.equal([
      [4, 0],
      [0, 1],
    ]);
    await say(decisionId, ["operator", "succeeded", 3]);
    expect(await held()).to.deep.equal([
      [0, 3],
      [0, 3],
    ]);
    const other = (await pay(4)).decisionId;
    await say(other, ["agent", "succeeded", 2]);
    await say(other, ["operator", "failed"]);
    for (const replica of [test, await test.replica()])
      expect(await held(replica)).to.deep.equal([
        [0, 3],
        [0, 3],
      ]);
    const { settlement } = await test.log.followed(other);
    expect(settlement?.reserved?.map(({ captured }) => captured)).to.have.members([undefined, 2_000_000]);
  });

  it("hold for all budgets of one pot, but an observing one changes nothing where one is enforced.", async () => {
    const observing = await test.mandate([budget(CONFIRMED, 5)], { mode: MandateMode.OBSERVE });
    await say((await pay(1)).decisionId, ["agent", "failed"]);
    expect(await held()).to.deep.equal([[1, 0]]);
    const trusting = await test.mandate([budget(REPORTED)]);
    await say((await pay(2)).decisionId, ["agent", "failed"]);
    expect(await held()).to.deep.equal([
      [1, 0],
      [1, 0],
    ]);
    await test.mandates.archiveMandate({ mandateId: observing });
    await test.mandate([budget(CONFIRMED, 8)]);
    await say((await pay(2)).decisionId, ["agent", "failed"]);
    expect(await held()).to.deep.equal([
      [3, 0],
      [3, 0],
    ]);
    await test.mandates.archiveMandate({ mandateId: trusting });
  });

  it("follow the rule of the action's time and that of the report's time, whichever is stricter.", async () => {
    const mandateId = await test.mandate([budget(REPORTED)]);
    const put = (release: BudgetRelease) =>
      test.mandates.updateMandate({ mandateId, name: "limit", rules: [budget(release)] });
    const before = (await pay(1)).decisionId;
    await put(CONFIRMED);
    const within = (await pay(2)).decisionId;
    await say(before, ["agent", "failed"]);
    expect(await held()).to.deep.equal([[3, 0]]);
    await put(REPORTED);
    await say(within, ["agent", "failed"]);
    expect(await held()).to.deep.equal([[3, 0]]);
    await say((await pay(4)).decisionId, ["agent", "failed"]);
    for (const decisionId of [before, within]) await say(decisionId, ["operator", "failed"]);
    expect(await held()).to.deep.equal([[0, 0]]);
  });

  it("are confirmed once of many reports that two replicas get at once.", async () => {
    await test.mandate([budget(CONFIRMED, 1_000)]);
    const second = await test.replica();
    const { decisionId } = await pay(100);
    await say(decisionId, ["agent", "failed"]);
    const calls = Array.from({ length: 30 }, (_, index) =>
      say(decisionId, [index % 3 === 0 ? "gateway" : "operator", "succeeded", index], index % 2 === 0 ? test : second),
    );
    const { values, errors } = await settled(calls);
    expect([values.length, errors.length]).to.deep.equal([1, 29]);
    for (const error of errors) expect(await reasonOf(Promise.reject(error))).to.equal("OUTCOME_EXISTS");
    const amount = (await outcomeOf(decisionId))?.amount;
    for (const replica of [test, second]) expect(await held(replica)).to.deep.equal([[0, amount]]);
  });

  it("hold what the second model says after any reports, in whatever order they come.", async () => {
    const rules = [budget(CONFIRMED, 1e6), budget(REPORTED, 1e6, { scope: Scope.AGENT })];
    await test.mandate(rules);
    const second = await test.replica();
    const reported = fc.record({
      by: fc.constantFrom("agent" as const, "gateway" as const, "operator" as const),
      status: fc.constantFrom("succeeded" as const, "failed" as const, "cancelled" as const),
      amount: fc.option(fc.constantFrom(0, 1, 1.5, 2, 7), { nil: undefined }),
    });
    const reports = fc.array(fc.oneof({ weight: 5, arbitrary: reported }, fc.constant("unknown" as const)), {
      maxLength: 4,
    });
    const total = [
      [0n, 0n],
      [0n, 0n],
    ].map(([reserved = 0n, captured = 0n]) => ({ reserved, captured }));
    await fc.assert(
      fc.asyncProperty(reports, async (given) => {
        const { decisionId } = await pay(2);
        const naive: NaiveReport[] = [];
        for (const [index, each] of given.entries()) {
          if (each === "unknown") {
            naive.push({ by: "timeout", status: "unknown" });
            await say(decisionId, "unknown");
            continue;
          }
          const { by, status } = each;
          const amount = status === "succeeded" ? each.amount : undefined;
          naive.push({ by, status, ...(amount !== undefined && { amount: BigInt(amount * 1e6) }) });
          await say(
            decisionId,
            amount === undefined ? [by, status] : [by, status, amount],
            index % 2 === 0 ? test : second,
          ).catch(async (error) => expect(await reasonOf(Promise.reject(error))).to.equal("OUTCOME_EXISTS"));
        }
        // A budget that trusts reports follows what stands beside it: while one awaits confirmation, a second report changes it too.
        const [confirmed, trusting] = total as [(typeof total)[0], (typeof total)[0]];
        const added = naiveHolding(2_000_000n, true, naive);
        confirmed.reserved += added.reserved;
        confirmed.captured += added.captured;
        const { outcome, settlement } = await test.log.followed(decisionId);
        const standing: SealedOutcome | undefined = settlement ?? outcome;
        const isOpen = standing === undefined || standing.status === "unknown";
        const paid = standing?.status === "succeeded" ? (standing.amount ?? 2) : 0;
        trusting.reserved += isOpen ? 2_000_000n : 0n;
        trusting.captured += isOpen ? 0n : BigInt(paid * 1e6);
        const wanted = total.map(({ reserved, captured }) => [Number(reserved) / 1e6, Number(captured) / 1e6]);
        expect(await held(second)).to.deep.equal(wanted);
        expect(await held()).to.deep.equal(wanted);
      }),
      { numRuns: 40 },
    );
    expect(await held(await test.replica())).to.deep.equal(await held());
  });
});
