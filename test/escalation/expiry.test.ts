import { expect } from "chai";
import { type Escalation, EscalationStatus, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { createEscalationExpiry, rejectExpired } from "../../src/escalation/expiry.ts";
import { watchEscalations } from "../../src/escalation/watch.ts";
import { assertIntact, readLog } from "../log/stored-log.ts";
import { SILENT_LOG } from "../support/database.ts";
import { actionRule, type Replica, reasonOf, settled, until } from "../support/harness.ts";
import { type EscalationWorkspace, openEscalationWorkspace } from "./harness.ts";

const DAY_MS = 86_400_000;

describe("the time of an escalation", () => {
  let workspace: EscalationWorkspace;
  beforeEach(async () => {
    workspace = await openEscalationWorkspace(2);
  });
  afterEach(() => workspace.close());

  const read = async (escalationId: string, { escalations }: Replica = workspace): Promise<Escalation> =>
    (await escalations.getEscalation({ escalationId })).escalation as Escalation;
  const msOf = (time: { readonly seconds: bigint; readonly nanos: number } | undefined): number =>
    Number(time?.seconds) * 1000 + Number(time?.nanos) / 1e6;
  const advance = (ms: number) => {
    for (const { clock } of workspace.replicas) clock.advance(ms);
  };
  const resolutionsIn = async (escalationId: string) => {
    const log = await readLog(workspace.url);
    assertIntact(log);
    const bodies = log.entries.map(({ body }) => JSON.parse(body));
    return bodies.filter((body) => body.type === "escalation_resolved" && body.escalation_id === escalationId);
  };

  it("is a day, or what the workspace or the rule that decides says.", async () => {
    const { workspaceId, agentId } = workspace;
    const ttlOf = async (actionType: string): Promise<number> => {
      const { escalationId = "" } = await workspace.intercept({
        agentId,
        actionType,
        actionContent: `${Math.random()}`,
      });
      const { createdAt, expiresAt } = await read(escalationId);
      return (msOf(expiresAt) - msOf(createdAt)) / 1000;
    };
    expect(await ttlOf("ask")).to.equal(86_400);
    await workspace.admin.updateWorkspace({ workspaceId, escalationTtlSeconds: 60 });
    expect(await ttlOf("ask")).to.equal(60);
    await workspace.mandate([{ ...actionRule(Decision.ESCALATE, "ask.soon"), escalationTtlSeconds: 5 }]);
    expect(await ttlOf("ask.soon")).to.equal(5);
    const blocking = { ...actionRule(Decision.BLOCK, "x"), escalationTtlSeconds: 5 };
    expect(await reasonOf(workspace.mandate([blocking]))).to.equal("MANDATE_INVALID");
  });

  it("lets it be approved until its last millisecond and no longer, on every replica.", async () => {
    const [first, second] = [await workspace.escalate(), await workspace.escalate()];
    const left = msOf((await read(first)).expiresAt) - workspace.log.nowMs;
    advance(left - 2_000);
    await workspace.resolve(first);
    advance(2_000 + 50);
    expect(await reasonOf(workspace.resolve(second, Resolution.APPROVED, workspace.replicas[1]))).to.equal(
      "ESCALATION_RESOLVED",
    );
    expect(await read(second)).to.include({ status: EscalationStatus.REJECTED, resolvedBy: "expiry" });
    expect(await read(second, workspace.replicas[1])).to.deep.equal(await read(second));
  });

  it("decides against an approval that takes its turn after it.", async () => {
    const escalationId = await workspace.escalate();
    const { expiresAt } = await read(escalationId);
    // Whatever the call saw before: the time of the entry decides.
    const { log, clock } = workspace;
    let isOver = false;
    const blocked = log.change("key_test", async () => until(() => isOver));
    const approved = reasonOf(workspace.resolve(escalationId));
    await until(() => log.waiting > 0);
    clock.advance(msOf(expiresAt) - clock.now());
    isOver = true;
    await blocked;
    expect(await approved).to.equal("ESCALATION_RESOLVED");
    expect(await read(escalationId)).to.include({ resolvedBy: "expiry" });
  });

  it("shows in every read, and is sealed once however many ask.", async () => {
    const escalationId = await workspace.escalate();
    advance(DAY_MS + 1);
    const reads = Array.from({ length: 20 }, async (_, index) => {
      const { escalations } = workspace.replicas[index % 2] as Replica;
      const { escalations: pending } = await escalations.listEscalations({ status: EscalationStatus.PENDING });
      expect(pending).to.deep.equal([]);
      const { escalations: rejected } = await escalations.listEscalations({ status: EscalationStatus.REJECTED });
      expect(rejected.map((each) => each.escalationId)).to.deep.equal([escalationId]);
      return (await escalations.getEscalationStatus({ escalationId })).status;
    });
    expect(new Set(await Promise.all(reads))).to.deep.equal(new Set([EscalationStatus.REJECTED]));
    const sealed = await resolutionsIn(escalationId);
    expect(sealed).to.have.length(1);
    expect(sealed[0]).to.include({ by: "system", cause: "expiry", resolution: "rejected" });
  });

  it("tells watchers and waiters at its end without anyone reading.", async () => {
    const { log, database, logs, workspaceId, replicas } = workspace;
    await workspace.admin.updateWorkspace({ workspaceId, escalationTtlSeconds: 1 });
    const expiries = replicas.map((replica) => createEscalationExpiry(replica.database.pool, SILENT_LOG));
    try {
      const escalationId = await workspace.escalate();
      const caller = new AbortController();
      const stream = watchEscalations(workspace.watchOn(replicas[1] as Replica, caller.signal, 60_000), "");
      expect((await stream.next()).value?.[0]).to.include({ kind: "created" });
      expect((await stream.next()).value).to.equal(undefined);
      const ended = stream.next();
      expiries.forEach((expiry, index) => void expiry.start((replicas[index] as Replica).logs));
      const change = (await ended).value?.[0];
      expect(change).to.include({ kind: "resolved" });
      expect(change?.escalation).to.include({ escalationId, status: "rejected", resolvedBy: "expiry" });
      expect(change?.escalation.resolvedAtMs).to.be.at.least(change?.escalation.expiresAtMs ?? 0);
      caller.abort();
      await stream.return(undefined);
      expect(await resolutionsIn(escalationId)).to.have.length(1);
    } finally {
      for (const expiry of expiries) await expiry.close();
    }
    expect([log.listeners, database.pool.waitingCount, logs.clock.now() > 0]).to.deep.equal([0, 0, true]);
  });

  it("is kept for escalations that a process made before it was stopped, and for those that come.", async () => {
    const { workspaceId, database, logs } = workspace;
    await workspace.admin.updateWorkspace({ workspaceId, escalationTtlSeconds: 1 });
    const before = await workspace.escalate();
    const expiry = createEscalationExpiry(database.pool, SILENT_LOG);
    const surroundings = { onEscalated: expiry.note };
    const isEnded = async (escalationId: string): Promise<boolean> => {
      const sql = "select 1 from escalation where escalation_id = $1 and resolved_by = 'expiry'";
      return (await database.pool.query(sql, [escalationId])).rows.length === 1;
    };
    const other = await workspace.replica({ surroundings });
    expiry.start(logs);
    try {
      await until(() => isEnded(before));
      const later = await workspace.escalate(other);
      await until(() => isEnded(later));
      for (const escalationId of [before, later]) expect(await resolutionsIn(escalationId)).to.have.length(1);
    } finally {
      await expiry.close();
    }
  });

  it("ends after a restart as it would have without.", async () => {
    const escalationId = await workspace.escalate();
    const late = await workspace.replica();
    late.clock.advance(DAY_MS + 1);
    expect(await rejectExpired(late.log)).to.equal(undefined);
    expect(await read(escalationId)).to.include({ status: EscalationStatus.REJECTED, resolvedBy: "expiry" });
  });

  it("once over makes room for a new ask of the same action.", async () => {
    const escalationId = await workspace.escalate(workspace, "again");
    advance(DAY_MS + 1);
    const next = await workspace.escalate(workspace.replicas[1], "again");
    expect(next).to.not.equal(escalationId);
    expect(await read(escalationId)).to.include({ asked: 1, resolvedBy: "expiry" });
    expect(await read(next)).to.include({ asked: 1, status: EscalationStatus.PENDING });
  });

  it("is told of as expiry when the agent is revoked after it.", async () => {
    const early = await workspace.escalate();
    advance(DAY_MS + 1);
    const late = await workspace.escalate();
    await workspace.revoke(workspace.agentId);
    expect(await read(early)).to.include({ resolvedBy: "expiry" });
    expect(await read(late)).to.include({ resolvedBy: workspace.adminCaller.keyId, note: "the agent was revoked" });
  });

  it("of an approval is an hour, or what the workspace says when it is given.", async () => {
    const { workspaceId, agentId } = workspace;
    const present = (escalationId: string, replica: Replica, actionContent: string) =>
      workspace.intercept({ agentId, actionType: "ask", actionContent, escalationId }, replica);
    const [one, two] = [await workspace.escalate(workspace, "one"), await workspace.escalate(workspace, "two")];
    await workspace.resolve(one);
    const { resolvedAt, expiresAt } = await read(one);
    expect(msOf(expiresAt) - msOf(resolvedAt)).to.equal(3_600_000);
    await workspace.admin.updateWorkspace({ workspaceId, approvalTtlSeconds: 7_200 });
    await workspace.resolve(two);
    advance(3_600_000 + 1);
    const refused = await present(one, workspace.replicas[1] as Replica, "one");
    expect(refused.decision).to.equal(Decision.ESCALATE);
    expect(refused.reasons.at(-1)?.code).to.equal("APPROVAL_EXPIRED");
    expect(await read(one)).to.include({ status: EscalationStatus.APPROVED, replacedBy: refused.escalationId });
    expect((await present(two, workspace.replicas[1] as Replica, "two")).decision).to.equal(Decision.ALLOW);
  });

  it("is exact for many that end at once.", async () => {
    const ids = await Promise.all(Array.from({ length: 600 }, () => workspace.escalate()));
    advance(DAY_MS + 1);
    const { values } = await settled(workspace.replicas.map(({ log }) => rejectExpired(log)));
    expect(values).to.deep.equal([undefined, undefined]);
    const { rows } = await workspace.database.pool.query(
      "select count(distinct resolved_seq)::int as count from escalation where resolved_by = 'expiry'",
    );
    expect(rows).to.deep.equal([{ count: ids.length }]);
  });
});
