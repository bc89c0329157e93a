import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { OutcomeTracking } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, OutcomeStatus } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { Caller } from "../../src/api/context.ts";
import { type OutcomeReport, reportOutcome } from "../../src/decision/report-outcome.ts";
import { sealUnknown } from "../../src/log/unknown-outcomes.ts";
import type { SealedOutcome } from "../../src/state/outcomes.ts";
import {
  actionRule,
  callerWith,
  failureOf,
  fieldsOf,
  keyOfAgent,
  openWorkspace,
  type Replica,
  reasonOf,
  settled,
  type TestWorkspace,
} from "../support/harness.ts";
import { assertIntact, readLog } from "./stored-log.ts";

const { SUCCEEDED, FAILED, CANCELLED, PENDING, UNKNOWN } = OutcomeStatus;
const DIGEST = "ab".repeat(32);

describe("outcomes of allowed actions", () => {
  let workspace: TestWorkspace;
  let agentId: string;
  before(async () => {
    workspace = await openWorkspace({ replicas: 3 });
    agentId = await workspace.agent();
    await workspace.mandate([actionRule(Decision.BLOCK, "delete*"), actionRule(Decision.ESCALATE, "ask*")]);
  });
  after(() => workspace.close());

  const replicaAt = (index: number): Replica => workspace.replicas[index % workspace.replicas.length] as Replica;
  const allow = async (init: object = {}): Promise<string> =>
    (await workspace.intercept({ agentId, actionType: "pay", ...init })).decisionId;
  const agentKey = (id: string): Caller => keyOfAgent(workspace.adminCaller, id);
  /** The outcome of a decision, without the name of who reported it, which answers to reports leave out. */
  const outcomeOf = async (decisionId: string, replica: Replica = workspace) => {
    const outcome = (await replica.enforcement.getDecision({ decisionId })).decision?.outcome;
    delete outcome?.reportedByName;
    return outcome;
  };
  const pass = (seconds: number): void => {
    for (const { clock } of workspace.replicas) clock.advance(seconds * 1_000);
  };

  it("are sealed once: the same report again gives the first back, on every replica.", async () => {
    const decisionId = await allow();
    const report = { decisionId, status: SUCCEEDED, amount: 12.5, resultDigest: DIGEST };
    const { outcome: first } = await workspace.enforcement.reportOutcome(report);
    expect(first).to.include({ status: SUCCEEDED, amount: 12.5, resultDigest: DIGEST });
    expect(first?.reportedBy).to.equal(workspace.adminCaller.keyId);
    for (const replica of workspace.replicas) {
      const { outcome } = await replica.enforcement.reportOutcome(report);
      expect(outcome).to.deep.equal(first);
      expect(await outcomeOf(decisionId, replica)).to.deep.equal(first);
    }
    const { entries } = await readLog(workspace.url);
    const sealed = entries.map(({ body }) => JSON.parse(body)).filter(({ type }) => type === "outcome");
    expect(sealed.filter(({ decision_id }) => decision_id === decisionId)).to.have.length(1);
    expect(sealed.at(-1)).to.include({ status: "succeeded", agent_id: agentId, action_type: "pay", settles: false });
  });

  it("refuse another report, in whatever it differs, and keep the first.", async () => {
    const decisionId = await allow();
    const report = { decisionId, status: SUCCEEDED, amount: 5, resultDigest: DIGEST };
    await workspace.enforcement.reportOutcome(report);
    for (const change of [
      { amount: 6 },
      { amount: undefined },
      { resultDigest: undefined },
      { status: FAILED, amount: undefined },
      { status: CANCELLED, amount: undefined, error: "stopped" },
    ]) {
      const failure = await failureOf(workspace.enforcement.reportOutcome({ ...report, ...change }));
      expect(failure.metadata).to.deep.equal({ decision_id: decisionId, status: "succeeded" });
      expect(await reasonOf(workspace.enforcement.reportOutcome({ ...report, ...change }))).to.equal("OUTCOME_EXISTS");
    }
    expect(await outcomeOf(decisionId)).to.include({ status: SUCCEEDED, amount: 5 });
  });

  it("belong to allowed actions only.", async () => {
    for (const actionType of ["delete.all", "ask.first"]) {
      const { decisionId } = await workspace.intercept({ agentId, actionType });
      const report = { decisionId, status: SUCCEEDED };
      expect(await reasonOf(workspace.enforcement.reportOutcome(report))).to.equal("NOT_ALLOWED");
      const claim = { decisionId, claimId: randomUUID() };
      expect(await reasonOf(workspace.enforcement.claimDecision(claim))).to.equal("NOT_ALLOWED");
      expect(await outcomeOf(decisionId)).to.equal(undefined);
    }
  });

  it("are unknown to agents that did not ask, as is the decision.", async () => {
    const decisionId = await allow();
    const other = await workspace.agent();
    const strangers = [
      agentKey(other),
      { ...agentKey(other), agentId: null },
      callerWith(workspace.adminCaller, Role.ADMIN, other),
    ];
    for (const stranger of strangers) {
      const report = workspace.enforcement.reportOutcome({ decisionId, status: SUCCEEDED }, stranger);
      expect(await reasonOf(report)).to.equal("DECISION_NOT_FOUND");
      const claim = workspace.enforcement.claimDecision({ decisionId, claimId: randomUUID() }, stranger);
      const failure = await failureOf(claim);
      const unknown = await failureOf(
        workspace.enforcement.claimDecision({ decisionId: "dec_none", claimId: randomUUID() }, stranger),
      );
      expect(failure.message).to.equal(unknown.message.replace("dec_none", decisionId));
    }
    await workspace.enforcement.reportOutcome({ decisionId, status: SUCCEEDED }, agentKey(agentId));
  });

  it("are unknown under ids of other entries.", async () => {
    const decisionId = await allow();
    await workspace.enforcement.reportOutcome({ decisionId, status: SUCCEEDED });
    for (const id of [decisionId.replace("dec", "out"), "x", agentId]) {
      const report = workspace.enforcement.reportOutcome({ decisionId: id, status: SUCCEEDED });
      expect(await reasonOf(report)).to.equal("DECISION_NOT_FOUND");
    }
  });

  const WRONG: readonly (readonly [string, object, string])[] = [
    ["no status", { status: OutcomeStatus.UNSPECIFIED }, "status"],
    ["a status that only the service gives", { status: UNKNOWN }, "status"],
    ["a pending status", { status: PENDING }, "status"],
    ["a negative amount", { amount: -1 }, "amount"],
    ["an amount with seven places", { amount: 0.0000001 }, "amount"],
    ["an amount above 999,999,999", { amount: 1_000_000_000 }, "amount"],
    ["an amount that is no number", { amount: Number.NaN }, "amount"],
    ["an amount of what failed", { status: FAILED, amount: 1 }, "amount"],
    ["an error of what succeeded", { error: "none" }, "error"],
    ["an error that cannot be stored", { status: FAILED, error: "a\u0000b" }, "error"],
    ["a digest that is none", { resultDigest: "AB".repeat(32) }, "result_digest"],
  ];
  for (const [what, change, field] of WRONG) {
    it(`are refused with ${what}, and nothing is sealed.`, async () => {
      const decisionId = await allow();
      const report = workspace.enforcement.reportOutcome({ decisionId, status: SUCCEEDED, ...change });
      expect(await fieldsOf(report)).to.deep.equal([field]);
      expect(await outcomeOf(decisionId)).to.equal(undefined);
    });
  }

  it("count as no decisions in summaries.", async () => {
    const count = async () =>
      (await workspace.enforcement.summarizeDecisions({ countsOnly: true })).totals?.allow ?? 0n;
    const before = await count();
    const decisionId = await allow();
    await workspace.enforcement.claimDecision({ decisionId, claimId: randomUUID() });
    for (const status of [FAILED, FAILED]) await workspace.enforcement.reportOutcome({ decisionId, status });
    pass(1);
    expect((await count()) - before).to.equal(1n);
    const { decisions } = await workspace.enforcement.listDecisions({ pageSize: 2 });
    expect(decisions.filter((each) => each.decisionId === decisionId)).to.have.length(1);
  });

  it("are tracked where a budget is reserved, and seal what was reserved with them.", async () => {
    const properties = { amount: { type: "number" }, currency: { type: "string" } };
    await workspace.tools.registerTool({ name: "send_payment", inputSchema: { type: "object", properties } });
    const sums = [{ tool: "send_payment", field: "amount" }];
    const budget = { mode: SequenceMode.BUDGET, sums, currency: "EUR", maxTotal: 100, windowSeconds: 3_600n };
    await workspace.mandate([{ type: RuleType.SEQUENCE, decision: Decision.BLOCK, conditions: budget }]);
    const metadata = { arguments: { amount: 12.5, currency: "EUR" } };
    const request = { agentId, actionType: "pay", tool: "send_payment", metadata, report: false };
    const { decisionId, reportOutcome } = await workspace.intercept(request);
    expect(reportOutcome).to.equal(true);
    await replicaAt(1).enforcement.reportOutcome({ decisionId, status: SUCCEEDED, amount: 10 });
    const sealed = (await readLog(workspace.url)).entries.map(({ body }) => JSON.parse(body));
    const [decision, outcome] = sealed.filter(({ decision_id }) => decision_id === decisionId);
    expect(decision.reserved.map(({ millionths }: { millionths: number }) => millionths)).to.deep.equal([12_500_000]);
    expect(outcome.reserved).to.deep.equal(decision.reserved);
  });

  it("name the statuses that may be reported.", async () => {
    const report = { decisionId: await allow(), status: UNKNOWN };
    const { message } = await failureOf(workspace.enforcement.reportOutcome(report));
    expect(message).to.equal("`status` must be one of `succeeded`, `failed`, `cancelled`");
  });

  it("are tracked only when claimed, unless the workspace tracks all.", async () => {
    const plain = await workspace.intercept({ agentId, actionType: "pay" });
    expect([plain.reportOutcome, plain.claimed]).to.deep.equal([false, undefined]);
    expect(await outcomeOf(plain.decisionId)).to.equal(undefined);
    const claimed = await workspace.intercept({ agentId, actionType: "pay", claimId: randomUUID() });
    expect([claimed.reportOutcome, claimed.claimed]).to.deep.equal([true, true]);
    const pending = await outcomeOf(claimed.decisionId);
    expect([pending?.status, pending?.reportedAt, pending?.seq]).to.deep.equal([PENDING, undefined, undefined]);
    const silent = await workspace.intercept({ agentId, actionType: "pay", claimId: randomUUID(), report: false });
    expect([silent.reportOutcome, silent.claimed]).to.deep.equal([false, true]);
    const { workspaceId } = workspace;
    await workspace.admin.updateWorkspace({ workspaceId, outcomes: OutcomeTracking.ALL });
    try {
      for (const replica of workspace.replicas) {
        const all = await workspace.intercept({ agentId, actionType: "pay", report: false }, replica);
        expect(all.reportOutcome).to.equal(true);
      }
      const blocked = await workspace.intercept({ agentId, actionType: "delete.all", claimId: randomUUID() });
      expect([blocked.reportOutcome, blocked.claimed]).to.deep.equal([false, undefined]);
    } finally {
      await workspace.admin.updateWorkspace({ workspaceId, outcomes: OutcomeTracking.TRACKED });
    }
  });

  it("become unknown once their time is over, which only an operator settles, and once.", async () => {
    const { decisionId } = await workspace.intercept({ agentId, actionType: "pay", claimId: randomUUID() });
    await sealUnknown(workspace.log, decisionId);
    expect(await outcomeOf(decisionId)).to.include({ status: PENDING });
    pass(3_601);
    for (const { log } of workspace.replicas) await sealUnknown(log, decisionId);
    const unknown = await outcomeOf(decisionId);
    expect(unknown).to.include({ status: UNKNOWN, reportedBy: "timeout" });
    const late = { decisionId, status: SUCCEEDED };
    const refused = workspace.enforcement.reportOutcome(late, agentKey(agentId));
    expect((await failureOf(refused)).message).to.match(/an operator settles it$/);
    const settledBy = await workspace.enforcement.reportOutcome(late, callerWith(workspace.adminCaller, Role.OPERATOR));
    expect(settledBy.outcome?.status).to.equal(SUCCEEDED);
    expect(settledBy.outcome?.unknownAt).to.deep.equal(unknown?.reportedAt);
    expect(await workspace.enforcement.reportOutcome(late)).to.deep.equal(settledBy);
    const another = { decisionId, status: FAILED };
    expect(await reasonOf(workspace.enforcement.reportOutcome(another))).to.equal("OUTCOME_EXISTS");
    await sealUnknown(workspace.log, decisionId);
    expect(await outcomeOf(decisionId)).to.deep.equal(settledBy.outcome);
  });

  it("name the gateway where it reports, apart from the agent's key and from operators.", async () => {
    const gateway = (id: string) => {
      const { keyId } = agentKey(id);
      return { keyId, agentId: id, source: "gateway" as const, isOver: () => false };
    };
    const reportFor = (decisionId: string, id: string) => {
      const report = { decisionId, status: "failed", amount: undefined, error: undefined, resultDigest: undefined };
      return reportOutcome(workspace.log, report as OutcomeReport, gateway(id));
    };
    const sealed: unknown[] = [];
    const byGateway = await allow({ claimId: randomUUID() });
    expect(await reasonOf(reportFor(byGateway, await workspace.agent()))).to.equal("DECISION_NOT_FOUND");
    sealed.push((await reportFor(byGateway, agentId)).outcome);
    expect((await outcomeOf(byGateway))?.reportedBy).to.equal("gateway");
    for (const caller of [agentKey(agentId), callerWith(workspace.adminCaller, Role.OPERATOR)]) {
      const decisionId = await allow({ claimId: randomUUID() });
      await workspace.enforcement.reportOutcome({ decisionId, status: FAILED }, caller);
      sealed.push((await workspace.log.followed(decisionId)).outcome);
    }
    expect(sealed.map((outcome) => (outcome as SealedOutcome).source)).to.deep.equal(["gateway", "agent", "operator"]);
    const late = await allow({ claimId: randomUUID() });
    pass(3_601);
    await sealUnknown(workspace.log, late);
    expect(await reasonOf(reportFor(late, agentId))).to.equal("OUTCOME_EXISTS");
  });

  it("are one of a hundred reports that three replicas get at once.", async () => {
    const decisionId = await allow();
    const calls = Array.from({ length: 100 }, (_, index) =>
      replicaAt(index).enforcement.reportOutcome({ decisionId, status: SUCCEEDED, amount: index }),
    );
    const { values, errors } = await settled(calls);
    expect([values.length, errors.length]).to.deep.equal([1, 99]);
    for (const error of errors) expect(await reasonOf(Promise.reject(error))).to.equal("OUTCOME_EXISTS");
    expect((await outcomeOf(decisionId))?.amount).to.equal(values[0]?.outcome?.amount);
  });

  it("fail alone where a hundred come at once, some for unknown or blocked actions.", async () => {
    const allowed = await Promise.all(Array.from({ length: 70 }, () => allow()));
    const blocked = await Promise.all(Array.from({ length: 10 }, () => allow({ actionType: "delete" })));
    const unknown = Array.from({ length: 20 }, () => `dec_${randomUUID()}`);
    const ids = [...unknown.slice(0, 10), ...allowed, ...blocked, ...unknown.slice(10)];
    const report = (decisionId: string) => workspace.enforcement.reportOutcome({ decisionId, status: SUCCEEDED });
    const calls = ids.map(async (id) =>
      allowed.includes(id) ? (await report(id)).outcome?.status : reasonOf(report(id)),
    );
    const wanted = ids.map((id) => {
      if (unknown.includes(id)) return "DECISION_NOT_FOUND";
      return blocked.includes(id) ? "NOT_ALLOWED" : SUCCEEDED;
    });
    expect(await Promise.all(calls)).to.deep.equal(wanted);
  });

  it("are either reported or unknown where the report races the end of the time.", async () => {
    for (let round = 0; round < 10; round++) {
      const { decisionId } = await workspace.intercept({ agentId, actionType: "pay", claimId: randomUUID() });
      pass(3_601);
      const report = replicaAt(round).enforcement.reportOutcome({ decisionId, status: FAILED }, agentKey(agentId));
      const [reported] = await Promise.allSettled([report, sealUnknown(replicaAt(round + 1).log, decisionId)]);
      const status = (await outcomeOf(decisionId, replicaAt(round + 2)))?.status;
      expect(status).to.equal(reported.status === "fulfilled" ? FAILED : UNKNOWN);
    }
  });

  it("leave nothing in memory once they are answered, and a log that verifies.", async () => {
    for (const { log } of workspace.replicas) expect((await log.caughtUp()).outcomes.size).to.equal(0);
    assertIntact(await readLog(workspace.url));
  });
});
