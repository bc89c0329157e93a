import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { EscalationStatus, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { getEscalation } from "../../src/escalation/escalation.ts";
import { waitEscalation } from "../../src/escalation/watch.ts";
import { coldState, comparable, foldedState } from "../log/comparable.ts";
import { assertIntact, readLog } from "../log/stored-log.ts";
import { callerWith, failureOf, type Replica, reasonOf, settled, until } from "../support/harness.ts";
import { withOwner } from "../support/owner.ts";
import { type EscalationWorkspace, openEscalationWorkspace } from "./harness.ts";

/** A rule over the metadata: the argument above a number. */
const above = (field: string, value: number, decision: Decision) => ({
  type: RuleType.METADATA,
  decision,
  conditions: { rules: [{ field, operator: ">", value: { kind: { case: "numberValue" as const, value } } }] },
});

const { APPROVED, PENDING, REJECTED } = EscalationStatus;

describe("editing an escalation", () => {
  let workspace: EscalationWorkspace;
  before(async () => {
    workspace = await openEscalationWorkspace(2);
    await workspace.mandate([above("amount", 100, Decision.BLOCK)]);
  });
  after(() => workspace.close());

  const ask = (metadata: object, more: object = {}) =>
    workspace.intercept({
      agentId: workspace.agentId,
      actionType: "ask",
      actionContent: "pay",
      ...more,
      metadata,
    } as never);
  const asked = async (metadata: object, more: object = {}) => (await ask(metadata, more)).escalationId ?? "";
  const edit = (escalationId: string, args: object, on: Replica = workspace, note?: string) =>
    on.escalations.editEscalation({ escalationId, arguments: args as never, ...(note === undefined ? {} : { note }) });
  const get = async (escalationId: string, on: Replica = workspace) =>
    (await on.escalations.getEscalation({ escalationId })).escalation;
  const entries = async () => (await readLog(workspace.url)).entries.map(({ body }) => JSON.parse(body));

  it("rejects it and approves the edited action, which then passes once.", async () => {
    const metadata = { arguments: { amount: 40, to: "Ann" }, purpose: "rent" };
    const escalationId = await asked(metadata, { sessionId: undefined });
    const { escalation, replacement } = await edit(escalationId, { amount: 30, to: "Ann" }, workspace, "less");
    const { keyId } = workspace.adminCaller;
    expect(escalation).to.deep.include({ escalationId, status: REJECTED, resolvedBy: keyId, note: "less" });
    expect(escalation?.editedArguments).to.deep.equal({ amount: 30, to: "Ann" });
    expect([escalation?.editedFrom, replacement?.editedArguments]).to.deep.equal([undefined, undefined]);
    expect(escalation?.arguments).to.deep.equal(metadata.arguments);
    expect(escalation?.replacedBy).to.equal(replacement?.escalationId);
    expect(replacement).to.deep.include({
      status: APPROVED,
      resolvedBy: keyId,
      note: "less",
      editedFrom: escalationId,
    });
    expect(replacement).to.deep.include({ actionContent: "pay" });
    expect(replacement?.metadata).to.deep.equal({ arguments: { amount: 30, to: "Ann" }, purpose: "rent" });
    const other = workspace.replicas[1] as Replica;
    expect(await get(escalationId, other)).to.deep.equal(escalation);
    expect(await get(escalation?.replacedBy ?? "", other)).to.deep.equal(replacement);
    const approval = { escalationId: escalation?.replacedBy };
    expect((await ask(metadata, approval)).decision).to.equal(Decision.ESCALATE);
    const allowed = await ask({ ...metadata, arguments: { to: "Ann", amount: 30 } }, approval);
    expect(allowed.decision).to.equal(Decision.ALLOW);
    expect((await get(escalation?.replacedBy ?? ""))?.usedByDecisionId).to.equal(allowed.decisionId);
  });

  it("seals both digests, the decision on the edited action, and who edited, one behind the other.", async () => {
    const escalationId = await asked({ arguments: { amount: 41 } });
    const { escalation, replacement } = await edit(escalationId, { amount: 31 }, workspace.replicas[1], "why");
    const log = await entries();
    const at = log.findIndex((entry) => entry.type === "escalation_resolved" && entry.escalation_id === escalationId);
    const [decision, rejected, approved] = log.slice(at - 1, at + 2);
    const { keyId } = workspace.adminCaller;
    expect(decision).to.deep.include({ type: "decision", decision: "escalate", edit_of: escalationId, key_id: keyId });
    expect(decision.action_digest).to.equal(replacement?.actionDigest);
    expect(rejected).to.deep.include({ resolution: "rejected", by: keyId, note: "why" });
    expect(rejected.edit).to.deep.equal({
      action_digest: escalation?.actionDigest,
      arguments: { amount: 31 },
      decision: "escalate",
      decision_id: decision.decision_id,
      edited_digest: replacement?.actionDigest,
      replaced_by: replacement?.escalationId,
    });
    expect(approved).to.deep.include({
      escalation_id: replacement?.escalationId,
      resolution: "approved",
      edited_from: escalationId,
      by: keyId,
    });
    const { receipt } = await workspace.enforcement.getDecision({ decisionId: decision.decision_id });
    expect(receipt?.editOf).to.equal(escalationId);
  });

  it("rejects it without a replacement when the edited action needs no approval, and seals no decision.", async () => {
    const mandateId = await workspace.mandate([above("pieces", 10, Decision.ESCALATE)]);
    const ship = { agentId: workspace.agentId, actionType: "ship", metadata: { arguments: { pieces: 11 } } };
    const { escalationId = "" } = await workspace.intercept(ship);
    const before = (await entries()).length;
    const { escalation, replacement } = await edit(escalationId, { pieces: 10 });
    expect([escalation?.status, escalation?.replacedBy, replacement]).to.deep.equal([REJECTED, undefined, undefined]);
    expect(escalation?.editedArguments).to.deep.equal({ pieces: 10 });
    const sealed = (await entries()).slice(before);
    expect(sealed.map(({ type }) => type)).to.deep.equal(["escalation_resolved"]);
    expect(sealed[0].edit).to.include({ decision: "allow" }).and.not.to.have.any.keys("decision_id", "replaced_by");
    await workspace.mandates.archiveMandate({ mandateId });
  });

  it("of an action that is blocked as edited answers with the reasons and leaves everything as it was.", async () => {
    const escalationId = await asked({ arguments: { amount: 42 } });
    const before = await entries();
    const { trustLevel } = (await workspace.agents.getAgent({ agentId: workspace.agentId })).agent ?? {};
    const error = await failureOf(edit(escalationId, { amount: 101 }));
    expect(await reasonOf(edit(escalationId, { amount: 101 }))).to.equal("EDIT_BLOCKED");
    expect(error.message).to.include("stays pending").and.to.include("amount");
    expect(error.metadata.escalation_id).to.equal(escalationId);
    expect(error.metadata.codes).to.not.equal("");
    expect((await get(escalationId))?.status).to.equal(PENDING);
    expect(await entries()).to.deep.equal(before);
    expect((await workspace.agents.getAgent({ agentId: workspace.agentId })).agent?.trustLevel).to.equal(trustLevel);
    await workspace.resolve(escalationId);
  });

  it("refuses the same arguments, in any order.", async () => {
    const escalationId = await asked({ arguments: { amount: 43, to: "Bob" } });
    for (const args of [
      { amount: 43, to: "Bob" },
      { to: "Bob", amount: 43 },
    ]) {
      expect(await reasonOf(edit(escalationId, args))).to.equal("INVALID_FIELD");
    }
    expect((await get(escalationId))?.status).to.equal(PENDING);
  });

  it("joins the escalation of the same action that the agent asked for itself.", async () => {
    const own = await asked({ arguments: { amount: 21 } });
    const escalationId = await asked({ arguments: { amount: 44 } });
    const { escalation, replacement } = await edit(escalationId, { amount: 21 });
    expect(escalation?.replacedBy).to.equal(own);
    expect(replacement).to.include({ escalationId: own, status: APPROVED, asked: 2, editedFrom: escalationId });
  });

  it("succeeds for one of many editors and resolvers at once on two replicas.", async () => {
    const ids = await Promise.all(
      Array.from({ length: 5 }, (_, index) => asked({ arguments: { amount: 60 + index } })),
    );
    for (const escalationId of ids) {
      const calls = Array.from({ length: 12 }, (_, index) => {
        const replica = workspace.replicas[index % 2] as Replica;
        if (index % 4 === 3) return workspace.resolve(escalationId, Resolution.APPROVED, replica);
        if (index % 4 === 2) return replica.escalations.extendEscalation({ escalationId, seconds: 10 });
        return edit(escalationId, { amount: 70 + index }, replica);
      });
      const { errors } = await settled(calls);
      for (const error of errors) expect(await reasonOf(Promise.reject(error))).to.equal("ESCALATION_RESOLVED");
      const ends = (await entries()).filter(
        (entry) => entry.type === "escalation_resolved" && entry.escalation_id === escalationId,
      );
      expect(ends).to.have.length(1);
    }
    expect(await reasonOf(edit(ids[0] as string, { amount: 1 }))).to.equal("ESCALATION_RESOLVED");
  });

  describe("where four eyes are needed", () => {
    const operator = (keyId: string) => ({ ...callerWith(workspace.adminCaller, Role.OPERATOR), keyId });
    const payment = (amount: number) => ({
      agentId: workspace.agentId,
      actionType: "ask",
      metadata: { arguments: { amount } },
    });
    const askAs = async (keyId: string, amount: number) =>
      (await workspace.enforcement.intercept(payment(amount), operator(keyId))).escalationId ?? "";
    const editAs = (keyId: string, escalationId: string, amount: number) =>
      workspace.escalations.editEscalation({ escalationId, arguments: { amount }, note: "less" }, operator(keyId));
    const approveAs = (keyId: string, escalationId: string) =>
      workspace.escalations.resolveEscalation({ escalationId, resolution: Resolution.APPROVED }, operator(keyId));
    const fourEyes = (isOn: boolean) =>
      workspace.admin.updateWorkspace({ workspaceId: workspace.workspaceId, fourEyes: isOn });
    before(() => fourEyes(true));
    after(() => fourEyes(false));

    it("leaves the edited action to another person than the editor and those who asked.", async () => {
      const escalationId = await askAs("key_one", 45);
      expect(await reasonOf(editAs("key_one", escalationId, 22))).to.equal("FOUR_EYES");
      const { escalation, replacement } = await editAs("key_two", escalationId, 22);
      expect(escalation).to.include({ status: REJECTED, resolvedBy: "key_two", replacedBy: replacement?.escalationId });
      expect(replacement).to.include({ status: PENDING, asked: 1, editedFrom: escalationId });
      const edited = replacement?.escalationId ?? "";
      expect(replacement?.awaitsCaller, "the editor").to.equal(false);
      const { approvalObstacle: _, ...others } = replacement ?? {};
      const toAnother = { ...others, awaitsCaller: true };
      expect(await get(edited, workspace.replicas[1])).to.deep.equal(toAnother);
      const presented = await workspace.enforcement.intercept(
        { ...payment(22), escalationId: edited },
        operator("key_one"),
      );
      expect([presented.decision, presented.escalationId]).to.deep.equal([Decision.ESCALATE, edited]);
      for (const keyId of ["key_one", "key_two"]) {
        expect(await reasonOf(approveAs(keyId, edited)), keyId).to.equal("FOUR_EYES");
        expect(await reasonOf(editAs(keyId, edited, 21)), keyId).to.equal("FOUR_EYES");
      }
      const { escalation: approved } = await approveAs("key_three", edited);
      expect(approved).to.include({ status: APPROVED, resolvedBy: "key_three", editedFrom: escalationId });
      const log = await entries();
      expect(log.at(-1)).to.include({ type: "escalation_resolved", escalation_id: edited, edited_from: escalationId });
      const allowed = await workspace.enforcement.intercept(
        { ...payment(22), escalationId: edited },
        operator("key_one"),
      );
      expect(allowed.decision).to.equal(Decision.ALLOW);
    });

    it("joins what is pending, and makes the editor one who asked for it.", async () => {
      const other = await askAs("key_two", 23);
      const escalationId = await askAs("key_one", 53);
      const { replacement } = await editAs("key_three", escalationId, 23);
      expect(replacement).to.include({ escalationId: other, status: PENDING, asked: 2, editedFrom: escalationId });
      for (const keyId of ["key_one", "key_two", "key_three"])
        expect(await reasonOf(approveAs(keyId, other)), keyId).to.equal("FOUR_EYES");
      expect((await approveAs("key_four", other)).escalation?.status).to.equal(APPROVED);
    });

    it("may be edited again by another person, and is for a third one then.", async () => {
      const escalationId = await askAs("key_one", 54);
      const first = (await editAs("key_two", escalationId, 24)).replacement?.escalationId ?? "";
      const second = (await editAs("key_three", first, 25)).replacement;
      expect(second).to.include({ status: PENDING, editedFrom: first });
      for (const keyId of ["key_one", "key_two", "key_three"])
        expect(await reasonOf(approveAs(keyId, second?.escalationId ?? "")), keyId).to.equal("FOUR_EYES");
      await approveAs("key_four", second?.escalationId ?? "");
    });

    it("shows those who wait for the edited action when it is answered.", async () => {
      const { replacement } = await editAs("key_two", await askAs("key_one", 55), 26);
      const edited = replacement?.escalationId ?? "";
      const waited: unknown[] = [];
      const waiting = (async () => {
        const watch = workspace.watchOn(workspace, new AbortController().signal);
        for await (const next of waitEscalation(watch, edited, workspace.agentId)) waited.push(next);
      })();
      await until(() => waited.length === 1);
      await approveAs("key_three", edited);
      await waiting;
      const { log, database } = workspace;
      expect(waited.at(-1)).to.deep.equal(await getEscalation({ log, pool: database.pool }, edited, null));
    });
  });

  it("takes the place of its escalation, also for an agent that may have no further one.", async () => {
    const { workspaceId, admin } = workspace;
    const agentId = await workspace.agent();
    await admin.updateWorkspace({ workspaceId, maxPendingEscalationsPerAgent: 1 });
    const { escalationId = "" } = await ask({ arguments: { amount: 46 } }, { agentId });
    expect((await ask({ arguments: { amount: 47 } }, { agentId })).decision).to.equal(Decision.BLOCK);
    expect((await edit(escalationId, { amount: 20 })).replacement?.status).to.equal(APPROVED);
    await admin.updateWorkspace({ workspaceId, maxPendingEscalationsPerAgent: 1_000 });
  });

  it("replaces metadata that is the arguments, but for what names the tool and what approvals ignore.", async () => {
    const metadata = { tool: "pay_out", mcp_server: "bank", amount: 48, iban: "DE1", traceparent: "00-1" };
    const escalationId = await asked(metadata);
    for (const wrong of [{ amount: 1, tool: "other" }, { amount: 1, mcp_server: "b" }, { arguments: { amount: 1 } }])
      expect(await reasonOf(edit(escalationId, wrong))).to.equal("INVALID_FIELD");
    const { replacement } = await edit(escalationId, { amount: 23, tool: "pay_out" });
    expect(replacement?.metadata).to.deep.equal({
      tool: "pay_out",
      mcp_server: "bank",
      amount: 23,
      traceparent: "00-1",
    });
    const allowed = await ask(
      { tool: "pay_out", mcp_server: "bank", amount: 23, traceparent: "00-2" },
      { escalationId: replacement?.escalationId },
    );
    expect(allowed.decision).to.equal(Decision.ALLOW);
  });

  it("gives an action without metadata arguments, and a content that is their text follows them.", async () => {
    const { escalationId = "" } = await workspace.intercept({
      agentId: workspace.agentId,
      actionType: "ask",
      actionContent: "none",
    });
    const bare = await edit(escalationId, { amount: 24 });
    expect(bare.replacement?.metadata).to.deep.equal({ arguments: { amount: 24 } });
    expect(bare.replacement?.actionContent).to.equal("none");
    const text = await asked({ arguments: { to: "x", amount: 49 } }, { actionContent: '{"to": "x", "amount": 49.0}' });
    expect((await edit(text, { to: "y", amount: 25 })).replacement?.actionContent).to.equal('{"amount":25,"to":"y"}');
  });

  it("shows those who wait and those who watch what came of it.", async () => {
    const escalationId = await asked({ arguments: { amount: 50 } });
    const ending = new AbortController();
    const waited: unknown[] = [];
    const waiting = (async () => {
      const watch = workspace.watchOn(workspace.replicas[1] as Replica, ending.signal);
      for await (const next of waitEscalation(watch, escalationId, workspace.agentId)) waited.push(next);
    })();
    await until(() => waited.length === 1);
    const { escalation } = await edit(escalationId, { amount: 26 });
    (workspace.replicas[1] as Replica).log.wakeUp({ seq: 1e9, isChange: true });
    await waiting;
    const { log, database } = workspace;
    expect(waited.at(-1)).to.deep.equal(await getEscalation({ log, pool: database.pool }, escalationId, null));
    expect(waited.at(-1)).to.include({ replacedBy: escalation?.replacedBy, editedArguments: '{"amount":26}' });
  });

  it("does nothing when its connection breaks after the decision was written, and is done by the next attempt.", async () => {
    const escalationId = await asked({ arguments: { amount: 51 } });
    const before = await entries();
    await withOwner(workspace.url, async (holder) => {
      await holder.query("begin");
      await holder.query("select 1 from escalation where escalation_id = $1 for update", [escalationId]);
      const edited = settled([edit(escalationId, { amount: 27 })]);
      const blocked =
        "select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
      let pid: number | undefined;
      await until(async () => {
        pid = (await holder.query<{ pid: number }>(blocked)).rows[0]?.pid;
        return pid !== undefined;
      });
      await holder.query("select pg_terminate_backend($1)", [pid]);
      expect((await edited).errors).to.have.length(1);
      await holder.query("rollback");
    });
    expect(await entries()).to.deep.equal(before);
    expect((await get(escalationId))?.status).to.equal(PENDING);
    expect((await ask({ arguments: { amount: 51 } })).escalationId).to.equal(escalationId);
    expect((await edit(escalationId, { amount: 27 })).replacement?.status).to.equal(APPROVED);
  });

  it("leaves every replica with the state that a cold start reads and a fold of the log gives.", async () => {
    const { pool } = workspace.database;
    const { lastAtMs } = await workspace.log.caughtUp();
    const folded = await comparable(pool, await foldedState(pool), lastAtMs);
    expect(await comparable(pool, await coldState(pool), lastAtMs)).to.deep.equal(folded);
    for (const { log } of workspace.replicas)
      expect(await comparable(pool, await log.caughtUp(), lastAtMs)).to.deep.equal(folded);
  });

  it("has a log that is intact.", async () => {
    const log = await readLog(workspace.url);
    assertIntact(log);
    expect(log.entries.filter(({ body }) => body.includes('"edit_of"'))).to.not.have.length(0);
  });

  it("refuses unknown ids, roles that may not, and arguments that no action can have.", async () => {
    expect(await reasonOf(edit("esc_none", { amount: 1 }))).to.equal("ESCALATION_NOT_FOUND");
    const escalationId = await asked({ arguments: { amount: 52 } });
    for (const role of [Role.AGENT, Role.AUDITOR]) {
      const as = callerWith(workspace.adminCaller, role);
      const edited = workspace.escalations.editEscalation({ escalationId, arguments: { amount: 1 } }, as);
      expect(await reasonOf(edited)).to.equal("ROLE_NOT_ALLOWED");
    }
    let deep: object = {};
    for (let level = 0; level < 61; level++) deep = { a: deep };
    expect(await reasonOf(edit(escalationId, deep))).to.equal("INVALID_FIELD");
    expect(await reasonOf(workspace.escalations.editEscalation({ escalationId }))).to.equal("INVALID_FIELD");
  });
});
