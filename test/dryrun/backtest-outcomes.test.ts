import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { BudgetRelease, RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, OutcomeStatus, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { sealUnknown } from "../../src/log/unknown-outcomes.ts";
import { loadAmounts } from "../../src/state/counters/budget-history.ts";
import { callerWith, keyOfAgent, openWorkspace, type TestWorkspace, withWorkspace } from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { backtest, draftOf } from "./run-backtest.ts";

const { SUCCEEDED, FAILED } = OutcomeStatus;
const { CONFIRMED, REPORTED } = BudgetRelease;
const PAYMENT = {
  type: "object",
  properties: { amount: { type: "number" }, fee: { type: "number" }, currency: { type: "string" } },
};

/** A report by the agent or an operator, or the end of the time for one. */
type Said = readonly ["agent" | "operator", OutcomeStatus, number?] | "unknown";

function budget(maxTotal: number, release = REPORTED, change: object = {}) {
  const sums = [{ tool: "transfer", field: "amount" }];
  const window = { windowSeconds: 86_400n, scope: Scope.WORKSPACE };
  return {
    type: RuleType.SEQUENCE,
    decision: Decision.BLOCK,
    conditions: { mode: SequenceMode.BUDGET, sums, currency: "EUR", maxTotal, release, ...window, ...change },
  };
}

/** The payments of one agent in a workspace, with its reports. */
class Payer {
  readonly workspace: TestWorkspace;
  readonly agentId: string;

  constructor(workspace: TestWorkspace, agentId: string) {
    this.workspace = workspace;
    this.agentId = agentId;
  }

  static async create(workspace: TestWorkspace): Promise<Payer> {
    await workspace.tools.registerTool({ name: "transfer", inputSchema: PAYMENT });
    return new Payer(workspace, await workspace.agent());
  }

  async pay(amount: number, said?: Said, args: object = {}) {
    const metadata = { arguments: { amount, fee: 0, currency: "EUR", ...args } };
    const { agentId } = this;
    const action = { agentId, actionType: "money.send", tool: "transfer", metadata, claimId: randomUUID() };
    const sealed = await this.workspace.intercept(action);
    if (said !== undefined && sealed.decision === Decision.ALLOW) await this.say(sealed.decisionId, said);
    return sealed;
  }

  async say(decisionId: string, said: Said): Promise<void> {
    const { adminCaller, clock, enforcement, log } = this.workspace;
    if (said === "unknown") {
      clock.advance(3_601_000);
      await sealUnknown(log, decisionId);
      return;
    }
    const [by, status, amount] = said;
    const caller = by === "agent" ? keyOfAgent(adminCaller, this.agentId) : callerWith(adminCaller, Role.OPERATOR);
    const report = { decisionId, status, ...(amount !== undefined && { amount }) };
    await enforcement.reportOutcome(report, caller).catch(() => undefined);
  }
}

describe("a backtest over recorded outcomes", () => {
  let workspace: TestWorkspace;
  let payer: Payer;
  beforeEach(async () => {
    workspace = await openWorkspace();
    payer = await Payer.create(workspace);
  });
  afterEach(() => workspace.close());

  const blockedBy = async (rules: ReturnType<typeof budget>[], query: object = {}) => {
    const { changes } = await backtest(workspace, { drafts: [draftOf("limit", rules)], ...query });
    return changes.filter(({ now }) => now === "block").map(({ decisionId }) => decisionId);
  };

  it("gives back what failed, and counts what was paid in place of what was reserved.", async () => {
    await payer.pay(6, ["agent", FAILED]);
    await payer.pay(6, ["agent", SUCCEEDED, 1]);
    await payer.pay(6, ["agent", SUCCEEDED, 7.5]);
    const over = await payer.pay(2);
    await payer.pay(1.5);
    expect(await blockedBy([budget(10)])).to.deep.equal([over.decisionId]);
  });

  it("keeps what is open or unknown, until an operator settles it.", async () => {
    const open = await payer.pay(4);
    const unknown = await payer.pay(5, "unknown");
    const first = await payer.pay(2);
    await payer.say(unknown.decisionId, ["operator", FAILED]);
    await payer.pay(6);
    const second = await payer.pay(1);
    await payer.say(open.decisionId, ["agent", SUCCEEDED, 0]);
    await payer.pay(4);
    expect(await blockedBy([budget(10)])).to.deep.equal([first.decisionId, second.decisionId]);
  });

  it("has no outcome for an action that the draft would have blocked, and none for one that ran only here.", async () => {
    const live = await workspace.mandate([budget(5)]);
    const refused = await payer.pay(6);
    expect(refused.decision).to.equal(Decision.BLOCK);
    await payer.pay(5, ["agent", FAILED]);
    const { changes } = await backtest(workspace, { drafts: [draftOf("wide", [budget(10)])], archives: [live] });
    expect(changes.map(({ decisionId, now }) => [decisionId, now])).to.deep.equal([
      [refused.decisionId, "allow"],
      [changes[1]?.decisionId, "block"],
    ]);
  });

  it("holds what an agent alone gave back where the draft takes confirmed reports.", async () => {
    const paid: string[] = [];
    for (let count = 0; count < 4; count++) paid.push((await payer.pay(4, ["agent", FAILED])).decisionId);
    expect(await blockedBy([budget(10)])).to.deep.equal([]);
    expect(await blockedBy([budget(10, CONFIRMED)])).to.deep.equal(paid.slice(2));
    await payer.pay(2, ["operator", FAILED]);
    await payer.pay(2);
    expect(await blockedBy([budget(10, CONFIRMED)])).to.deep.equal(paid.slice(2));
  });

  it("takes one amount for no several ones: each then counts as it was reserved.", async () => {
    const fees = budget(10, REPORTED, { sums: [{ tool: "transfer", field: "fee" }] });
    await payer.pay(6, ["agent", SUCCEEDED, 0], { fee: 3 });
    const over = await payer.pay(6, undefined, { fee: 3 });
    expect(await blockedBy([budget(10), fees])).to.deep.equal([over.decisionId]);
  });

  it("takes the outcomes of the window for what was reserved before it.", async () => {
    await workspace.mandate([budget(10)]);
    const before = await payer.pay(6);
    const open = await payer.pay(4);
    workspace.clock.advance(1_000);
    const sinceMs = workspace.clock.now();
    const refused = await payer.pay(6);
    expect(refused.decision).to.equal(Decision.BLOCK);
    await payer.say(before.decisionId, ["agent", FAILED]);
    expect((await payer.pay(6)).decision).to.equal(Decision.ALLOW);
    await payer.say(open.decisionId, ["agent", SUCCEEDED, 3]);
    expect((await payer.pay(1)).decision).to.equal(Decision.ALLOW);
    expect((await payer.pay(0.5)).decision).to.equal(Decision.BLOCK);
    const { report, changes } = await backtest(workspace, { sinceMs });
    expect([report.replayed, changes]).to.deep.equal([4, []]);
  });

  it("reads amounts of decisions before a place as outcomes up to another leave them.", async () => {
    await workspace.mandate([budget(10)]);
    const first = await payer.pay(6);
    const { seq } = await workspace.log.caughtUp();
    await payer.say(first.decisionId, ["agent", SUCCEEDED, 2]);
    const later = (await workspace.log.caughtUp()).seq;
    await payer.pay(1);
    const [reservation] = (await workspace.receipt(first.decisionId)).body.reserved ?? [];
    const missing = { pot: reservation?.pot ?? "", windowMs: 86_400_000, from: 0, before: undefined };
    const place = { workspaceId: "default", seq, lastAtMs: workspace.clock.now() };
    const sumOf = async (options: object) => {
      const { oldest } = await loadAmounts(workspace.database.pool, place, missing, options);
      const sum = (member: "reserved" | "captured") => oldest.reduce((total, each) => total + each[member], 0);
      return [sum("reserved"), sum("captured")];
    };
    expect(await sumOf({})).to.deep.equal([6_000_000, 0]);
    expect(await sumOf({ outcomesBefore: later })).to.deep.equal([0, 2_000_000]);
  });
});

describe("a backtest over random payments and reports", () => {
  for (const seed of [1, 2, 3, 4]) {
    it(`changes nothing without drafts, and decides as its drafts do live (${seed}).`, async () => {
      const below = seededBelow(seed);
      const release = seed % 2 === 0 ? CONFIRMED : REPORTED;
      const said = (): Said | undefined => {
        const by = below(3) === 0 ? "operator" : "agent";
        const kind = below(6);
        if (kind === 0) return undefined;
        if (kind === 1) return "unknown";
        if (kind < 4) return [by, FAILED];
        return below(2) === 0 ? [by, SUCCEEDED] : [by, SUCCEEDED, below(5)];
      };
      const plan = Array.from({ length: 50 }, () => ({
        amount: 1 + below(4),
        first: said(),
        // Without a budget that holds it, the first report of an agent ends the matter.
        second: release === CONFIRMED ? undefined : said(),
        pauseMs: below(4) * 1_800_000,
      }));
      await withWorkspace({}, async (free) => {
        await withWorkspace({}, async (limited) => {
          const payers = [await Payer.create(free), await Payer.create(limited)];
          await limited.mandate([budget(12, release)]);
          const freely: string[] = [];
          const times: number[] = [];
          const wanted: string[] = [];
          for (const { amount, first, second, pauseMs } of plan) {
            for (const payer of payers) {
              const { clock, log } = payer.workspace;
              clock.advance(pauseMs);
              const { decision, decisionId } = await payer.pay(amount);
              if (payer.workspace === free) freely.push(decisionId);
              else if (decision === Decision.BLOCK) wanted.push(freely.at(-1) ?? "");
              for (const report of [first, second]) {
                if (report === "unknown") clock.advance(3_601_000);
                if (report === undefined || decision !== Decision.ALLOW) continue;
                if (report === "unknown") await sealUnknown(log, decisionId);
                else await payer.say(decisionId, report);
              }
            }
            times.push(limited.clock.now());
          }
          expect(wanted.length).to.be.within(1, plan.length - 1);
          for (const sinceMs of [undefined, times[15], times[30]]) {
            expect((await backtest(limited, { sinceMs })).changes).to.deep.equal([]);
          }
          const { changes } = await backtest(free, { drafts: [draftOf("limit", [budget(12, release)])] });
          expect(changes.map(({ decisionId }) => decisionId)).to.deep.equal(wanted);
        });
      });
    });
  }
});
