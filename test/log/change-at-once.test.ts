import { expect } from "chai";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { type ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { getEscalation } from "../../src/escalation/escalation.ts";
import { resolveEscalation } from "../../src/escalation/resolve.ts";
import type { ControlChange } from "../../src/state/control-changes.ts";
import { resolveAndAppend } from "../../src/store/resolve-escalation.ts";
import { readEntriesFrom } from "../../src/store/sql/read-entries.ts";
import { type EscalationStage, openEscalationStage } from "../escalation/harness.ts";
import { comparable, foldedState } from "./comparable.ts";
import { type Party, seededBelow, settled } from "./harness.ts";
import { assertIntact, readLog } from "./stored-log.ts";

const BY = "key_test";
const APPROVED = 2;

describe("a change at once", () => {
  let stage: EscalationStage;
  let other: Party;
  beforeEach(async () => {
    stage = await openEscalationStage(2);
    other = stage.parties[1] as Party;
  });
  afterEach(() => stage.close());

  const changeOf = (escalationId: string): ControlChange => ({
    type: "escalation_resolved",
    escalation_id: escalationId,
    agent_id: stage.agentId,
    resolution: "approved",
    note: null,
  });

  const approve = (escalationId: string, { log }: Party) =>
    log.changeAtOnce(BY, changeOf(escalationId), (pool, changes) =>
      resolveAndAppend(pool, changes, { escalationId, status: APPROVED, resolvedBy: BY, note: null }),
    );

  /** Has a replica know where the log ends: a change under the lock has it look. */
  const look = ({ log }: Party) => log.change(BY, async () => undefined);

  /** Both replicas have the state that the log's entries give. */
  const agree = async (): Promise<void> => {
    const { pool } = stage.party.database;
    const folded = await foldedState(pool, stage.party.log.workspaceId);
    const nowMs = folded.lastAtMs;
    const expected = await comparable(pool, folded, nowMs);
    for (const { log, database } of stage.parties)
      expect(await comparable(database.pool, await log.caughtUp(), nowMs)).to.deep.equal(expected);
  };

  it("is in the log, in the table and in the state, and the other replica hears of it.", async () => {
    const escalationId = await stage.escalate();
    await look(stage.party);
    const before = await readLog(stage.url);
    const event = await approve(escalationId, stage.party);
    expect(event).to.deep.include({ kind: "change", seq: before.head.seq, by: BY, change: changeOf(escalationId) });
    const after = await readLog(stage.url);
    assertIntact(after);
    expect(after.head.seq).to.equal(before.head.seq + 1);
    const read = await getEscalation(stage.party.database.pool, stage.party.log.workspaceId, escalationId, null);
    expect(read).to.include({ status: "approved", resolvedSeq: event?.seq, resolvedAtMs: event?.atMs, resolvedBy: BY });
    await agree();
  });

  it("is not tried by a replica that never looked where the log ends.", async () => {
    const escalationId = await stage.escalate();
    let tries = 0;
    const event = await other.log.changeAtOnce(BY, changeOf(escalationId), async () => {
      tries += 1;
      return true;
    });
    expect(event).to.equal(undefined);
    expect(tries).to.equal(0);
  });

  it("writes nothing behind what another replica appended, and succeeds under the lock then.", async () => {
    const escalationId = await stage.escalate();
    await look(stage.party);
    // An allowed action wakes nobody.
    await stage.intercept({ agentId: stage.agentId, actionType: "look" }, other);
    const before = await readLog(stage.url);
    expect(await approve(escalationId, stage.party)).to.equal(undefined);
    expect(await readLog(stage.url)).to.deep.equal(before);
    const { pool } = stage.party.database;
    const command = { escalationId, resolution: "approved", note: "yes", by: BY } as const;
    const resolved = await resolveEscalation({ log: stage.party.log, pool }, command);
    expect(resolved).to.deep.equal(await getEscalation(pool, stage.party.log.workspaceId, escalationId, null));
    assertIntact(await readLog(stage.url));
  });

  it("writes nothing for an escalation that is resolved, or that there is not.", async () => {
    const escalationId = await stage.escalate();
    await look(stage.party);
    await approve(escalationId, stage.party);
    const before = await readLog(stage.url);
    expect(await approve(escalationId, stage.party)).to.equal(undefined);
    await look(stage.party);
    expect(await approve("esc_none", stage.party)).to.equal(undefined);
    expect(await readLog(stage.url)).to.deep.equal(before);
  });

  it("is not read by the replica that wrote it, although its wake-up comes first.", async () => {
    const escalationId = await stage.escalate();
    await look(stage.party);
    const { log, database } = stage.party;
    const reads: string[] = [];
    const { query } = database.pool;
    database.pool.query = ((...args: Parameters<typeof query>) => {
      const name = (args[0] as { name?: string }).name ?? "";
      if (name === readEntriesFrom.name) reads.push(name);
      return query.apply(database.pool, args);
    }) as typeof query;
    const event = await log.changeAtOnce(BY, changeOf(escalationId), async (pool, changes) => {
      const columns = { escalationId, status: APPROVED, resolvedBy: BY, note: null };
      const isWritten = await resolveAndAppend(pool, changes, columns);
      for (let times = 0; times < 3; times++) log.wakeUp({ seq: changes.end.seq, isChange: true });
      return isWritten;
    });
    await log.idle();
    expect(reads).to.deep.equal([]);
    log.wakeUp({ seq: (event?.seq ?? 0) + 2, isChange: true });
    await log.idle();
    expect(reads).to.have.length(1);
  });

  it("gives what a read afterwards gives, with the note.", async () => {
    const escalationId = await stage.escalate();
    await look(stage.party);
    const { pool } = stage.party.database;
    const command = { escalationId, resolution: "rejected", note: "not today", by: BY } as const;
    const resolved = await resolveEscalation({ log: stage.party.log, pool }, command);
    expect(resolved).to.include({ status: "rejected", note: "not today", resolvedBy: BY, usedBy: null });
    expect(resolved).to.deep.equal(await getEscalation(pool, stage.party.log.workspaceId, escalationId, null));
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
    const resolved = bodies.filter(({ type }) => type === "escalation_resolved").map((body) => body.escalation_id);
    expect(new Set(resolved).size).to.equal(resolved.length);
    expect(calls.length - errors.length).to.be.at.least(resolved.length);
    await agree();
  });
});
