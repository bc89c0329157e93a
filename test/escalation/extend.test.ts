import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { EscalationStatus, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { rejectExpired } from "../../src/escalation/expiry.ts";
import { waitEscalation, watchEscalations } from "../../src/escalation/watch.ts";
import { callerWith, fieldsOf, type Replica, reasonOf, until } from "../support/harness.ts";
import { type EscalationWorkspace, openEscalationWorkspace } from "./harness.ts";

const DAY_MS = 86_400_000;
const { APPROVED, PENDING, REJECTED } = EscalationStatus;

describe("extending an escalation", () => {
  let workspace: EscalationWorkspace;
  let other: Replica;
  before(async () => {
    workspace = await openEscalationWorkspace(2);
    other = workspace.replicas[1] as Replica;
  });
  after(() => workspace.close());

  const extend = (escalationId: string, seconds: number, on: Replica = workspace) =>
    on.escalations.extendEscalation({ escalationId, seconds });
  const get = async (escalationId: string, on: Replica = workspace) =>
    (await on.escalations.getEscalation({ escalationId })).escalation;
  const expiryOf = (escalation: Awaited<ReturnType<typeof get>>): number =>
    timestampMs(escalation?.expiresAt as NonNullable<NonNullable<typeof escalation>["expiresAt"]>);

  it("moves its expiry, adds up, and shows everywhere.", async () => {
    const escalationId = await workspace.escalate();
    const first = expiryOf(await get(escalationId));
    expect(expiryOf((await extend(escalationId, 60)).escalation)).to.equal(first + 60_000);
    const { escalation } = await extend(escalationId, 604_800, other);
    expect(expiryOf(escalation)).to.equal(first + 604_860_000);
    expect(await get(escalationId)).to.deep.equal(escalation);
    const fresh = await workspace.replica();
    expect(await get(escalationId, fresh)).to.deep.equal(escalation);
    await workspace.resolve(escalationId);
  });

  it("goes to 30 days from now and no further.", async () => {
    const escalationId = await workspace.escalate();
    for (const week of [1, 2, 3, 4])
      expect(await extend(escalationId, 604_800), `${week}`).to.have.property("escalation");
    expect(await fieldsOf(extend(escalationId, 604_800))).to.deep.equal(["seconds"]);
    await extend(escalationId, 86_300);
    expect(await fieldsOf(extend(escalationId, 604_800))).to.deep.equal(["seconds"]);
    for (const seconds of [0, -1, 604_801])
      expect(await fieldsOf(extend(escalationId, seconds))).to.deep.equal(["seconds"]);
    await workspace.resolve(escalationId);
  });

  it("is for those who may resolve, and while it is pending.", async () => {
    const escalationId = await workspace.escalate();
    for (const role of [Role.AGENT, Role.AUDITOR]) {
      const as = callerWith(workspace.adminCaller, role);
      const extended = workspace.escalations.extendEscalation({ escalationId, seconds: 1 }, as);
      expect(await reasonOf(extended)).to.equal("ROLE_NOT_ALLOWED");
    }
    await workspace.resolve(escalationId, Resolution.REJECTED);
    expect(await reasonOf(extend(escalationId, 1))).to.equal("ESCALATION_RESOLVED");
    expect(await reasonOf(extend("esc_none", 1))).to.equal("ESCALATION_NOT_FOUND");
  });

  it("tells those who wait the new time, and those who watch of an update.", async () => {
    const ending = new AbortController();
    const escalationId = await workspace.escalate();
    const { seq } = await workspace.log.caughtUp();
    const waited: { expiresAtMs: number; status: string }[] = [];
    const kinds: string[] = [];
    const waiting = (async () => {
      const watch = workspace.watchOn(workspace, ending.signal);
      for await (const next of waitEscalation(watch, escalationId, null)) if (next !== undefined) waited.push(next);
    })();
    const watching = (async () => {
      const watch = workspace.watchOn(workspace, ending.signal);
      for await (const together of watchEscalations(watch, String(seq - 1)))
        for (const { kind, escalation } of together ?? [])
          if (escalation.escalationId === escalationId) kinds.push(`${kind} ${escalation.expiresAtMs}`);
    })().catch(() => undefined);
    await until(() => waited.length === 1);
    const { escalation } = await extend(escalationId, 100);
    await until(() => waited.length === 2 && kinds.length === 1);
    expect(waited[1]).to.include({ expiresAtMs: expiryOf(escalation), status: "pending" });
    expect(kinds).to.deep.equal([`updated ${expiryOf(escalation)}`]);
    await workspace.resolve(escalationId);
    await waiting;
    expect(waited).to.have.length(3);
    await until(() => kinds.length === 2);
    const backlog: string[] = [];
    const again = new AbortController();
    const reading = (async () => {
      for await (const together of watchEscalations(workspace.watchOn(other, again.signal), "0"))
        for (const { kind, escalation } of together ?? [])
          if (escalation.escalationId === escalationId) backlog.push(`${kind} ${escalation.expiresAtMs}`);
    })().catch(() => undefined);
    await until(() => backlog.length === 3);
    expect(backlog.slice(0, 2)).to.deep.equal([`created ${expiryOf(escalation)}`, `updated ${expiryOf(escalation)}`]);
    ending.abort();
    again.abort();
    await Promise.all([watching, reading]);
  });

  it("keeps it from expiring at its first time, on every replica, and it expires at the new one.", async () => {
    const escalationId = await workspace.escalate();
    const first = expiryOf(await get(escalationId));
    await extend(escalationId, 3_600);
    const fresh = await workspace.replica();
    for (const replica of [workspace, other, fresh]) {
      replica.clock.advance(first - replica.log.nowMs + 1_000);
      const next = await rejectExpired(replica.log);
      expect(next).to.equal(first + 3_600_000);
      expect((await get(escalationId, replica))?.status).to.equal(PENDING);
    }
    fresh.clock.advance(3_600_000);
    await rejectExpired(fresh.log);
    expect(await get(escalationId)).to.include({ status: REJECTED, resolvedBy: "expiry" });
    expect(await reasonOf(extend(escalationId, 1))).to.equal("ESCALATION_RESOLVED");
  });

  it("leaves the approval its own time.", async () => {
    const escalationId = await workspace.escalate();
    await extend(escalationId, 604_800);
    await workspace.resolve(escalationId);
    const approved = await get(escalationId);
    expect(approved?.status).to.equal(APPROVED);
    expect(expiryOf(approved) - timestampMs(approved?.resolvedAt as never)).to.equal(3_600_000);
    expect(expiryOf(approved)).to.be.below(workspace.log.nowMs + DAY_MS);
  });
});
