import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { OutcomeTracking } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { OutcomeStatus } from "../../gen/agentcontrol/v1/resources_pb.js";
import { createUnknownOutcomes, sealOverdue } from "../../src/log/unknown-outcomes.ts";
import { SILENT_LOG } from "../support/database.ts";
import { openWorkspace, type TestWorkspace, until } from "../support/harness.ts";
import { withOwner } from "../support/owner.ts";
import { readLog } from "./stored-log.ts";

const { FAILED, PENDING, SUCCEEDED, UNKNOWN } = OutcomeStatus;

describe("outcomes that nobody reports", () => {
  let workspace: TestWorkspace;
  let agentId: string;
  beforeEach(async () => {
    workspace = await openWorkspace({ replicas: 3 });
    agentId = await workspace.agent();
  });
  afterEach(() => workspace.close());

  const claimed = async (replica = workspace.replicas[0]): Promise<string> =>
    (await workspace.intercept({ agentId, actionType: "pay", claimId: randomUUID() }, replica)).decisionId;
  const statusOf = async (decisionId: string) =>
    (await workspace.enforcement.getDecision({ decisionId })).decision?.outcome?.status;
  const pass = (seconds: number): void => {
    for (const { clock } of workspace.replicas) clock.advance(seconds * 1_000);
  };
  const sealedIn = async () =>
    (await readLog(workspace.url)).entries.map(({ body }) => JSON.parse(body)).filter(({ type }) => type === "outcome");

  it("become unknown together, each once, whichever replicas look for them.", async () => {
    const ids = await Promise.all(Array.from({ length: 300 }, (_, index) => claimed(workspace.replicas[index % 3])));
    const [reported] = ids;
    await workspace.enforcement.reportOutcome({ decisionId: reported ?? "", status: FAILED });
    const { pool } = workspace.database;
    const next = await sealOverdue(pool, workspace.log, SILENT_LOG);
    expect(next).to.be.greaterThan(workspace.log.nowMs);
    expect(await sealedIn()).to.have.length(1);
    pass(3_601);
    const looks = workspace.replicas.map(({ database, log }) => sealOverdue(database.pool, log, SILENT_LOG));
    expect(await Promise.all(looks)).to.deep.equal([undefined, undefined, undefined]);
    const sealed = await sealedIn();
    expect(sealed.map(({ decision_id }) => decision_id)).to.have.members(ids);
    expect(
      new Set(ids.slice(1).map((id) => sealed.find(({ decision_id }) => decision_id === id)?.status)),
    ).to.deep.equal(new Set(["unknown"]));
  });

  it("become unknown by themselves at their time, also those of a process that has ended.", async () => {
    const { workspaceId, database } = workspace;
    await workspace.admin.updateWorkspace({ workspaceId, outcomeTimeoutSeconds: 1, outcomes: OutcomeTracking.ALL });
    const left = await claimed();
    const work = createUnknownOutcomes(database.pool, SILENT_LOG);
    const other = await workspace.replica({ surroundings: { onTracked: work.note } });
    work.start(workspace.logs);
    try {
      await until(async () => (await statusOf(left)) === UNKNOWN);
      const later = await claimed(other);
      await until(async () => (await statusOf(later)) === UNKNOWN);
    } finally {
      await work.close();
    }
  });

  it("are found in lists by their status, with what followed them.", async () => {
    const [pending, unknown, done] = [await claimed(), await claimed(), await claimed()];
    await workspace.intercept({ agentId, actionType: "pay" });
    await workspace.enforcement.reportOutcome({ decisionId: done, status: SUCCEEDED, amount: 3 });
    pass(3_000);
    await workspace.enforcement.claimDecision({
      decisionId: (await workspace.intercept({ agentId, actionType: "pay" })).decisionId,
      claimId: randomUUID(),
    });
    const idsOf = async (outcome: OutcomeStatus, more = {}) =>
      (await workspace.enforcement.listDecisions({ outcome, ...more })).decisions.map(({ decisionId }) => decisionId);
    expect((await idsOf(PENDING)).slice(1)).to.deep.equal([unknown, pending]);
    expect(await idsOf(PENDING, { agentId: "agt_other" })).to.deep.equal([]);
    expect(await idsOf(PENDING, { actionType: "other" })).to.deep.equal([]);
    expect(await idsOf(SUCCEEDED)).to.deep.equal([done]);
    pass(700);
    await sealOverdue(workspace.database.pool, workspace.log, SILENT_LOG);
    expect(await idsOf(UNKNOWN)).to.deep.equal([unknown, pending]);
    const first = await workspace.enforcement.listDecisions({ outcome: UNKNOWN, pageSize: 1 });
    const rest = await workspace.enforcement.listDecisions({
      outcome: UNKNOWN,
      pageSize: 1,
      pageToken: first.nextPageToken ?? "",
    });
    expect([...first.decisions, ...rest.decisions].map(({ decisionId }) => decisionId)).to.deep.equal([
      unknown,
      pending,
    ]);
    expect(first.decisions[0]?.outcome).to.include({ status: UNKNOWN, reportedBy: "timeout" });
    const { recentDecisions } = await workspace.agents.getAgent({ agentId });
    expect(recentDecisions.find(({ decisionId }) => decisionId === done)?.outcome?.amount).to.equal(3);
  });

  it("hold up no other when somebody changed a decision in the database.", async () => {
    const [damaged, intact] = [await claimed(), await claimed()];
    await withOwner(workspace.ownerUrl, async (client) => {
      await client.query("alter table ledger_entry disable trigger all");
      await client.query("update ledger_entry set body = replace(body, 'pay', 'buy') where entry_id = $1", [damaged]);
      await client.query("alter table ledger_entry enable trigger all");
    });
    pass(3_601);
    await sealOverdue(workspace.database.pool, workspace.log, SILENT_LOG);
    expect(await statusOf(intact)).to.equal(UNKNOWN);
    expect((await sealedIn()).map(({ decision_id }) => decision_id)).to.deep.equal([intact]);
  });
});
