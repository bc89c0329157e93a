import { expect } from "chai";
import { EscalationStatus, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { type ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { getEscalation } from "../../src/escalation/escalation.ts";
import { resolveEscalation } from "../../src/escalation/resolve.ts";
import { type Party, seededBelow, settled } from "../log/harness.ts";
import { assertIntact, readLog } from "../log/stored-log.ts";
import { reasonOf } from "../support/workspace.ts";
import { type EscalationStage, openEscalationStage } from "./harness.ts";

describe("resolving an escalation", () => {
  let stage: EscalationStage;
  before(async () => {
    stage = await openEscalationStage(2);
  });
  after(() => stage.close());

  it("succeeds for exactly one of 20 at once on two replicas.", async () => {
    const escalationId = await stage.escalate();
    const resolutions = Array.from({ length: 20 }, (_, index) =>
      stage.resolve(
        escalationId,
        index % 3 === 0 ? Resolution.REJECTED : Resolution.APPROVED,
        stage.parties[index % 2] as Party,
      ),
    );
    const { values, errors } = await settled(resolutions);
    expect(values).to.have.length(1);
    for (const error of errors) expect((error as ControlPlaneError).reason).to.equal(ErrorReason.ESCALATION_RESOLVED);
    const log = await readLog(stage.url);
    assertIntact(log);
    const bodies = log.entries.map(({ body }) => JSON.parse(body) as { type: string; escalation_id?: string });
    const sealed = bodies.filter((body) => body.type === "escalation_resolved" && body.escalation_id === escalationId);
    expect(sealed).to.have.length(1);
  });

  it("keeps who resolved it, when, and the note.", async () => {
    const escalationId = await stage.escalate();
    const { escalations } = stage.parties[1] as Party;
    const pending = await escalations.getEscalationStatus({ escalationId });
    expect(pending).to.include({ ok: true, status: EscalationStatus.PENDING });
    await escalations.resolveEscalation({ escalationId, resolution: Resolution.REJECTED, note: "no" });
    const { escalation } = await stage.party.escalations.getEscalation({ escalationId });
    expect(escalation).to.include({
      status: EscalationStatus.REJECTED,
      note: "no",
      resolvedBy: stage.workspace.adminCaller.keyId,
      agentId: stage.agentId,
      actionType: "ask",
    });
    expect(escalation?.resolvedAt).to.not.equal(undefined);
    const rejected = await stage.party.escalations.getEscalationStatus({ escalationId });
    expect(rejected).to.include({ ok: true, status: EscalationStatus.REJECTED });
  });

  it("gives what a read afterwards gives, with the note.", async () => {
    const escalationId = await stage.escalate();
    const { log, database } = stage.party;
    const command = { escalationId, resolution: "rejected", note: "not today", by: "key_test" } as const;
    const resolved = await resolveEscalation({ log, pool: database.pool }, command);
    expect(resolved).to.include({ status: "rejected", note: "not today", resolvedBy: "key_test", usedBy: null });
    expect(resolved).to.deep.equal(await getEscalation(database.pool, log.workspaceId, escalationId, null));
  });

  it("of many at once on two replicas, among actions, happens once for each escalation.", async () => {
    const below = seededBelow(5);
    const ids = await Promise.all(Array.from({ length: 40 }, () => stage.escalate()));
    const calls = Array.from({ length: 160 }, async () => {
      const party = stage.parties[below(2)] as Party;
      if (below(3) === 0) return stage.intercept({ agentId: stage.agentId, actionType: "look" }, party);
      const resolution = below(2) === 0 ? Resolution.APPROVED : Resolution.REJECTED;
      return stage.resolve(ids[below(ids.length)] as string, resolution, party);
    });
    const { errors } = await settled(calls);
    for (const error of errors) expect((error as ControlPlaneError).reason).to.equal(ErrorReason.ESCALATION_RESOLVED);
    const log = await readLog(stage.url);
    assertIntact(log);
    const bodies = log.entries.map(({ body }) => JSON.parse(body) as { type: string; escalation_id?: string });
    const sealed = bodies
      .filter(({ type }) => type === "escalation_resolved")
      .map((body) => body.escalation_id)
      .filter((id) => ids.includes(id ?? ""));
    expect(new Set(sealed).size).to.equal(sealed.length);
  });

  it("refuses one that does not exist.", async () => {
    expect(await reasonOf(stage.resolve("esc_none"))).to.equal("ESCALATION_NOT_FOUND");
  });
});
