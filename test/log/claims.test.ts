import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { OutcomeTracking } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { Decision, OutcomeStatus } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { Caller } from "../../src/api/context.ts";
import {
  actionRule,
  callerWith,
  failureOf,
  keyOfAgent,
  openWorkspace,
  type Replica,
  reasonOf,
  settled,
  type TestWorkspace,
} from "../support/harness.ts";
import { assertIntact, readLog } from "./stored-log.ts";

describe("claims of allowed actions", () => {
  let workspace: TestWorkspace;
  let agentId: string;
  before(async () => {
    workspace = await openWorkspace({ replicas: 3 });
    agentId = await workspace.agent();
    await workspace.mandate([actionRule(Decision.BLOCK, "delete*"), actionRule(Decision.ESCALATE, "ask*")]);
  });
  after(() => workspace.close());

  const replicaAt = (index: number): Replica => workspace.replicas[index % workspace.replicas.length] as Replica;
  const agentKey = (id: string): Caller => keyOfAgent(workspace.adminCaller, id);
  const allow = async (init: object = {}): Promise<string> =>
    (await workspace.intercept({ agentId, actionType: "pay", ...init })).decisionId;
  const claim = (decisionId: string, claimId: string = randomUUID(), replica: Replica = workspace) =>
    replica.enforcement.claimDecision({ decisionId, claimId });
  const refusalOf = async (call: Promise<unknown>) => {
    const { metadata } = await failureOf(call);
    return [await reasonOf(call), metadata.code, metadata.decision_path];
  };

  it("are sealed once: the same id again is claimed, another is not, on every replica.", async () => {
    const decisionId = await allow();
    const claimId = randomUUID();
    const first = await claim(decisionId, claimId);
    expect(first).to.include({ claimed: true, reportOutcome: true });
    expect(first.claim).to.include({ claimId, claimedBy: workspace.adminCaller.keyId });
    for (const replica of workspace.replicas) {
      expect(await claim(decisionId, claimId.toUpperCase(), replica)).to.deep.equal(first);
      expect(await reasonOf(claim(decisionId, randomUUID(), replica))).to.equal("ALREADY_CLAIMED");
      const { decision } = await replica.enforcement.getDecision({ decisionId });
      // Only reads name who claimed.
      expect(decision?.claim).to.deep.equal({ ...first.claim, claimedByName: "first admin" });
      expect(decision?.outcome?.status).to.equal(OutcomeStatus.PENDING);
    }
  });

  it("come with an intercept, whose repeats are claimed by the same id alone.", async () => {
    const claimId = randomUUID();
    const request = { agentId, actionType: "pay", requestId: randomUUID(), claimId };
    const first = await workspace.intercept(request);
    expect(first).to.include({ decision: Decision.ALLOW, claimed: true, reportOutcome: true });
    for (const replica of workspace.replicas) {
      const same = await workspace.intercept(request, replica);
      expect(same).to.include({ replayed: true, claimed: true, reportOutcome: true, decisionId: first.decisionId });
      const other = await workspace.intercept({ ...request, claimId: randomUUID() }, replica);
      expect(other).to.include({ replayed: true, claimed: false, decisionId: first.decisionId });
      const without = await workspace.intercept({ ...request, claimId: undefined }, replica);
      expect([without.replayed, without.claimed]).to.deep.equal([true, undefined]);
      expect(await claim(first.decisionId, claimId, replica)).to.include({ claimed: true });
      expect(await reasonOf(claim(first.decisionId, randomUUID(), replica))).to.equal("ALREADY_CLAIMED");
    }
    const { decision } = await workspace.enforcement.getDecision({ decisionId: first.decisionId });
    expect(decision?.claim).to.include({ claimId, seq: decision?.seq });
  });

  it("are found by repeats of an intercept that came without one.", async () => {
    const request = { agentId, actionType: "pay", requestId: randomUUID() };
    const { decisionId } = await workspace.intercept(request);
    const claimId = randomUUID();
    expect((await workspace.intercept({ ...request, claimId })).claimed).to.equal(false);
    await claim(decisionId, claimId);
    for (const replica of workspace.replicas) {
      expect(await workspace.intercept({ ...request, claimId }, replica)).to.include({ claimed: true });
      expect(await workspace.intercept({ ...request, claimId: randomUUID() }, replica)).to.include({ claimed: false });
    }
  });

  it("are not made by an intercept that is blocked or escalated.", async () => {
    for (const actionType of ["delete.all", "ask.first"]) {
      const request = { agentId, actionType, requestId: randomUUID(), claimId: randomUUID() };
      const { decisionId, claimed, reportOutcome } = await workspace.intercept(request);
      expect([claimed, reportOutcome]).to.deep.equal([undefined, false]);
      expect((await workspace.intercept(request)).claimed).to.equal(undefined);
      expect((await workspace.enforcement.getDecision({ decisionId })).decision?.claim).to.equal(undefined);
    }
  });

  it("are won by one of a hundred that three replicas get at once.", async () => {
    for (const init of [{}, { claimId: randomUUID() }]) {
      const decisionId = await allow(init);
      const calls = Array.from({ length: 100 }, (_, index) => claim(decisionId, randomUUID(), replicaAt(index)));
      const { values, errors } = await settled(calls);
      expect([values.length, errors.length]).to.deep.equal("claimId" in init ? [0, 100] : [1, 99]);
      for (const error of errors) expect(await reasonOf(Promise.reject(error))).to.equal("ALREADY_CLAIMED");
      const { decision } = await workspace.enforcement.getDecision({ decisionId });
      if (values[0] !== undefined) {
        expect(decision?.claim).to.deep.equal({ ...values[0].claim, claimedByName: "first admin" });
      }
    }
  });

  it("are won by one of many intercepts with the same request id and claims of their own.", async () => {
    const request = { agentId, actionType: "pay", requestId: randomUUID() };
    const calls = Array.from({ length: 30 }, (_, index) =>
      workspace.intercept({ ...request, claimId: randomUUID() }, replicaAt(index)),
    );
    const answers = await Promise.all(calls);
    expect(answers.filter(({ claimed }) => claimed === true)).to.have.length(1);
    expect(answers.filter(({ claimed }) => claimed === false)).to.have.length(29);
  });

  it("are refused once the agent has ended, even to the one that holds them.", async () => {
    const other = await workspace.agent();
    const decisionId = await allow({ agentId: other });
    const claimId = randomUUID();
    await claim(decisionId, claimId);
    await workspace.agents.deactivateAgent({ agentId: other });
    for (const replica of workspace.replicas) {
      expect(await refusalOf(claim(decisionId, claimId, replica))).to.deep.equal([
        "CLAIM_REFUSED",
        "AGENT_REVOKED",
        "revoked",
      ]);
    }
  });

  it("are refused at once on every replica when the agent is revoked between decision and claim.", async () => {
    for (const replica of workspace.replicas) {
      const other = await workspace.agent();
      const decisionId = await allow({ agentId: other });
      await workspace.revoke(other);
      expect(await refusalOf(claim(decisionId, randomUUID(), replica))).to.deep.equal([
        "CLAIM_REFUSED",
        "AGENT_REVOKED",
        "revoked",
      ]);
    }
  });

  it("are refused while the workspace is halted.", async () => {
    const decisionId = await allow();
    const { workspaceId } = workspace;
    await workspace.admin.updateWorkspace({ workspaceId, halted: true });
    try {
      for (const replica of workspace.replicas)
        expect(await refusalOf(claim(decisionId, randomUUID(), replica))).to.deep.equal([
          "CLAIM_REFUSED",
          "WORKSPACE_HALTED",
          "halted",
        ]);
    } finally {
      await workspace.admin.updateWorkspace({ workspaceId, halted: false });
    }
    expect(await claim(decisionId)).to.include({ claimed: true });
  });

  it("are refused once session, principal or grant has ended.", async () => {
    const [principal, actor] = await workspace.newAgents(2);
    const { session } = await workspace.authority.createSession({ agentId: actor ?? "" });
    const ends = { grantorAgentId: principal ?? "", granteeAgentId: actor ?? "" };
    const { grant } = await workspace.authority.createGrant({ ...ends, actionTypes: ["pay"], ttlSeconds: 600n });
    const sessionId = session?.sessionId ?? "";
    const inSession = await allow({ agentId: actor, sessionId });
    await workspace.authority.endSession({ sessionId });
    expect(await refusalOf(claim(inSession))).to.deep.equal(["CLAIM_REFUSED", "SESSION_UNKNOWN", "session"]);
    const granted = { agentId: actor, onBehalfOf: principal };
    const [forPrincipal, lent] = [await allow(granted), await allow(granted)];
    await workspace.authority.endGrant({ grantId: grant?.grantId ?? "" });
    expect(await refusalOf(claim(lent))).to.deep.equal(["CLAIM_REFUSED", "GRANT_MISSING", "delegation"]);
    await workspace.revoke(principal ?? "");
    expect(await refusalOf(claim(forPrincipal))).to.deep.equal(["CLAIM_REFUSED", "PRINCIPAL_REVOKED", "revoked"]);
  });

  it("are refused once the key that asked is revoked, whoever claims.", async () => {
    const { key } = await workspace.admin.createApiKey({ name: "asks", role: Role.AGENT, agentId });
    const asker = { ...agentKey(agentId), keyId: key?.keyId ?? "" };
    const { decisionId } = await workspace.enforcement.intercept({ agentId, actionType: "pay" }, asker);
    await workspace.admin.revokeApiKey({ keyId: key?.keyId ?? "" });
    expect(await refusalOf(claim(decisionId))).to.deep.equal(["CLAIM_REFUSED", "CREDENTIAL_ENDED", "credential"]);
  });

  it("are refused once the outcome is settled or its time is over, and a claim begins the time anew.", async () => {
    const reported = await allow();
    await workspace.enforcement.reportOutcome({ decisionId: reported, status: OutcomeStatus.CANCELLED });
    expect(await refusalOf(claim(reported))).to.deep.equal(["CLAIM_REFUSED", "OUTCOME_SETTLED", undefined]);
    const [late, extended] = [await allow(), await allow()];
    for (const { clock } of workspace.replicas) clock.advance(3_000_000);
    await claim(extended);
    for (const { clock } of workspace.replicas) clock.advance(700_000);
    expect(await refusalOf(claim(late))).to.deep.equal(["CLAIM_REFUSED", "CLAIM_TIME_OVER", undefined]);
    const report = { decisionId: extended, status: OutcomeStatus.SUCCEEDED };
    expect((await workspace.enforcement.reportOutcome(report)).outcome?.status).to.equal(OutcomeStatus.SUCCEEDED);
  });

  it("track no outcome for one who does not report, unless the decision or the workspace tracks it.", async () => {
    const quiet = { claimId: randomUUID(), report: false };
    const outcomeOf = async (decisionId: string) =>
      (await workspace.enforcement.getDecision({ decisionId })).decision?.outcome?.status;
    const untracked = { agentId, actionType: "pay", requestId: randomUUID() };
    const decisionId = await allow(untracked);
    expect(await workspace.enforcement.claimDecision({ decisionId, ...quiet })).to.include({ reportOutcome: false });
    for (const replica of workspace.replicas) {
      const again = await workspace.intercept({ ...untracked, ...quiet }, replica);
      expect(again).to.include({ claimed: true, reportOutcome: false, decisionId });
    }
    expect(await outcomeOf(decisionId)).to.equal(undefined);
    const { decisions } = await workspace.enforcement.listDecisions({ agentId, pageSize: 1 });
    expect(decisions.map(({ claim: { claimId } = {}, outcome }) => [claimId, outcome])).to.deep.equal([
      [quiet.claimId, undefined],
    ]);
    for (const { clock } of workspace.replicas) clock.advance(3_700_000);
    const report = { decisionId, status: OutcomeStatus.FAILED };
    expect((await workspace.enforcement.reportOutcome(report)).outcome?.status).to.equal(OutcomeStatus.FAILED);
    const { workspaceId } = workspace;
    const before = await allow();
    await workspace.admin.updateWorkspace({ workspaceId, outcomes: OutcomeTracking.ALL });
    try {
      const tracked = await allow();
      for (const id of [before, tracked]) {
        const claimed = await workspace.enforcement.claimDecision({ decisionId: id, ...quiet });
        expect(claimed).to.include({ reportOutcome: true });
        expect(await outcomeOf(id)).to.equal(OutcomeStatus.PENDING);
      }
    } finally {
      await workspace.admin.updateWorkspace({ workspaceId, outcomes: OutcomeTracking.TRACKED });
    }
    const reserved = await allow();
    await workspace.enforcement.claimDecision({ decisionId: reserved, ...quiet, report: true });
    expect(await outcomeOf(reserved)).to.equal(OutcomeStatus.PENDING);
  });

  it("are made by the agent that asked, by the key that asked and by operators.", async () => {
    const asker = { ...agentKey(agentId), agentId: null };
    const request = { agentId, actionType: "pay" };
    for (const caller of [asker, agentKey(agentId), callerWith(workspace.adminCaller, Role.OPERATOR)]) {
      const { decisionId } = await workspace.enforcement.intercept(request, asker);
      const { claimed } = await workspace.enforcement.claimDecision({ decisionId, claimId: randomUUID() }, caller);
      expect(claimed).to.equal(true);
    }
  });

  it("leave nothing in memory once they are answered, and a log that verifies.", async () => {
    for (const { log } of workspace.replicas) expect((await log.caughtUp()).outcomes.size).to.equal(0);
    assertIntact(await readLog(workspace.url));
  });
});
