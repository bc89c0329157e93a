import { expect } from "chai";
import { EscalationStatus, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { type ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { getEscalation, resolveEscalation } from "../../src/escalation/escalation.ts";
import { assertIntact, readLog } from "../log/stored-log.ts";
import { type Replica, reasonOf, settled } from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { type EscalationWorkspace, openEscalationWorkspace } from "./harness.ts";

describe("resolving an escalation", () => {
  let workspace: EscalationWorkspace;
  before(async () => {
    workspace = await openEscalationWorkspace(2, { deadlineMs: 120_000 });
  });
  after(() => workspace.close());

  it("succeeds for exactly one of 20 at once on two replicas.", async () => {
    const escalationId = await workspace.escalate();
    const resolutions = Array.from({ length: 20 }, (_, index) =>
      workspace.resolve(
        escalationId,
        index % 3 === 0 ? Resolution.REJECTED : Resolution.APPROVED,
        workspace.replicas[index % 2] as Replica,
      ),
    );
    const { values, errors } = await settled(resolutions);
    expect(values).to.have.length(1);
    for (const error of errors) expect((error as ControlPlaneError).reason).to.equal(ErrorReason.ESCALATION_RESOLVED);
    const log = await readLog(workspace.url);
    assertIntact(log);
    const bodies = log.entries.map(({ body }) => JSON.parse(body) as { type: string; escalation_id?: string });
    const sealed = bodies.filter((body) => body.type === "escalation_resolved" && body.escalation_id === escalationId);
    expect(sealed).to.have.length(1);
  });

  it("keeps who resolved it, when, and the note.", async () => {
    const escalationId = await workspace.escalate();
    const { escalations } = workspace.replicas[1] as Replica;
    const pending = await escalations.getEscalationStatus({ escalationId });
    expect(pending).to.include({ ok: true, status: EscalationStatus.PENDING });
    await escalations.resolveEscalation({ escalationId, resolution: Resolution.REJECTED, note: "no" });
    const { escalation } = await workspace.escalations.getEscalation({ escalationId });
    expect(escalation).to.include({
      status: EscalationStatus.REJECTED,
      note: "no",
      resolvedBy: workspace.adminCaller.keyId,
      agentId: workspace.agentId,
      actionType: "ask",
    });
    expect(escalation?.resolvedAt).to.not.equal(undefined);
    const rejected = await workspace.escalations.getEscalationStatus({ escalationId });
    expect(rejected).to.include({ ok: true, status: EscalationStatus.REJECTED });
  });

  it("gives what a read afterwards gives, with the note.", async () => {
    const escalationId = await workspace.escalate();
    const { log, database } = workspace;
    const command = { escalationId, resolution: "rejected", note: "not today", by: "key_test" } as const;
    const resolved = await resolveEscalation({ log, pool: database.pool }, command);
    expect(resolved).to.include({ status: "rejected", note: "not today", resolvedBy: "key_test", usedBy: null });
    expect(resolved).to.deep.equal(await getEscalation({ log, pool: database.pool }, escalationId, null));
  });

  it("of many at once on two replicas, among actions, happens once for each escalation.", async () => {
    const below = seededBelow(5);
    const ids = await Promise.all(Array.from({ length: 40 }, () => workspace.escalate()));
    const calls = Array.from({ length: 160 }, async () => {
      const replica = workspace.replicas[below(2)] as Replica;
      if (below(3) === 0) return workspace.intercept({ agentId: workspace.agentId, actionType: "look" }, replica);
      const resolution = below(2) === 0 ? Resolution.APPROVED : Resolution.REJECTED;
      return workspace.resolve(ids[below(ids.length)] as string, resolution, replica);
    });
    const { errors } = await settled(calls);
    for (const error of errors) expect((error as ControlPlaneError).reason).to.equal(ErrorReason.ESCALATION_RESOLVED);
    const log = await readLog(workspace.url);
    assertIntact(log);
    const bodies = log.entries.map(({ body }) => JSON.parse(body) as { type: string; escalation_id?: string });
    const sealed = bodies
      .filter(({ type }) => type === "escalation_resolved")
      .map((body) => body.escalation_id)
      .filter((id) => ids.includes(id ?? ""));
    expect(new Set(sealed).size).to.equal(sealed.length);
  });

  it("refuses one that does not exist.", async () => {
    expect(await reasonOf(workspace.resolve("esc_none"))).to.equal("ESCALATION_NOT_FOUND");
  });
});
