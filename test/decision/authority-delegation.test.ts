import type { MessageInitShape } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { CreateGrantRequestSchema, Grant } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, DecisionPath, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { Outcome } from "../../src/state/types.ts";
import { actionRule, type InterceptInit, openWorkspace, type TestWorkspace } from "../support/harness.ts";

type Asked = MessageInitShape<typeof CreateGrantRequestSchema>;

describe("deciding on behalf of a principal", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  async function lend(from: string, to: string, over: Asked = {}): Promise<Grant> {
    const init = { grantorAgentId: from, granteeAgentId: to, actionTypes: ["mail.*"], ...over };
    return (await test.authority.createGrant(init)).grant as Grant;
  }
  /** What an outcome came to, in short. */
  const short = ({ decision, path, reasons }: Outcome): string => `${decision} ${path} ${reasons[0]?.code}`;
  const tell = async (tried: InterceptInit, ms = 0): Promise<string> => short(await test.decideIn(ms, tried));
  const pair = async (principal: readonly string[] = [], actor: readonly string[] = []) =>
    [await test.agent("principal", principal), await test.agent("actor", actor)] as const;

  const ALLOWED = "allow default DEFAULT";
  const NO_GRANT = "block delegation GRANT_MISSING";

  it("takes the lent authority in place of the actor's allow-list.", async () => {
    const [onBehalfOf, agentId] = await pair([], ["other.*"]);
    const tried = { agentId, actionType: "mail.send" };
    expect(await tell(tried)).to.equal("block permissions ACTION_NOT_ALLOWED");
    expect(await tell({ ...tried, onBehalfOf })).to.equal(NO_GRANT);
    const { grantId } = await lend(onBehalfOf, agentId);
    expect(await tell({ ...tried, onBehalfOf })).to.equal(ALLOWED);
    expect(await tell({ ...tried, grantId })).to.equal(ALLOWED);
    expect(await tell({ ...tried, onBehalfOf, grantId })).to.equal(ALLOWED);
    expect(await tell(tried)).to.equal("block permissions ACTION_NOT_ALLOWED");
  });

  it("needs the chain and the principal's own permissions, both.", async () => {
    const [onBehalfOf, agentId] = await pair(["mail.read"]);
    await lend(onBehalfOf, agentId, { actionTypes: ["mail.*", "pay"] });
    expect(await tell({ agentId, onBehalfOf, actionType: "mail.read" })).to.equal(ALLOWED);
    expect(await tell({ agentId, onBehalfOf, actionType: "mail.send" })).to.equal(
      "block permissions ACTION_NOT_ALLOWED",
    );
    expect(await tell({ agentId, onBehalfOf, actionType: "pay" })).to.equal("block permissions ACTION_NOT_ALLOWED");
    expect(await tell({ agentId, onBehalfOf, actionType: "sms" })).to.equal(NO_GRANT);
  });

  it("holds the denials of both.", async () => {
    const principal = await test.agent("principal", [], ["mail.delete"]);
    const agentId = await test.agent("actor", [], ["mail.send"]);
    await lend(principal, agentId);
    const denied = "block permissions ACTION_DENIED";
    expect(await tell({ agentId, onBehalfOf: principal, actionType: "mail.send" })).to.equal(denied);
    expect(await tell({ agentId, onBehalfOf: principal, actionType: "mail.delete" })).to.equal(denied);
    expect(await tell({ agentId, onBehalfOf: principal, actionType: "mail.read" })).to.equal(ALLOWED);
  });

  it("never takes a grant of another agent, another principal or that never was.", async () => {
    const [onBehalfOf, agentId] = await pair();
    const [stranger, friend] = await pair();
    const { grantId } = await lend(onBehalfOf, agentId);
    const foreign = await lend(stranger, friend);
    const actionType = "mail.send";
    const unknown = "block delegation GRANT_UNKNOWN";
    expect(await tell({ agentId, actionType, grantId: foreign.grantId })).to.equal(unknown);
    expect(await tell({ agentId, actionType, grantId: "grt_none" })).to.equal(unknown);
    expect(await tell({ agentId, actionType, onBehalfOf, grantId: foreign.grantId })).to.equal(NO_GRANT);
    expect(await tell({ agentId, actionType, onBehalfOf: stranger, grantId })).to.equal(NO_GRANT);
    expect(await tell({ agentId, actionType, onBehalfOf: "agt_none" })).to.equal(NO_GRANT);
    expect(await tell({ agentId: onBehalfOf, actionType, grantId })).to.equal(unknown);
    const session = (await test.authority.createSession({ agentId })).session?.sessionId ?? "";
    expect((await test.decideIn(0, { agentId, actionType, grantId: session })).path).to.equal("delegation");
  });

  it("is refused once any grant of the chain has expired.", async () => {
    const [root, middle] = await pair();
    const agentId = await test.agent("last");
    const first = await lend(root, middle, { ttlSeconds: 60n });
    await lend(middle, agentId, { parentGrantId: first.grantId, ttlSeconds: 30n });
    const tried = { agentId, actionType: "mail.send" };
    expect(await tell({ ...tried, onBehalfOf: root }, 29_000)).to.equal(ALLOWED);
    expect(await tell({ ...tried, onBehalfOf: middle }, 29_000)).to.equal(ALLOWED);
    expect(await tell({ ...tried, onBehalfOf: root }, 31_000)).to.equal(NO_GRANT);
    expect(await tell({ agentId: middle, actionType: "mail.send", onBehalfOf: root }, 59_000)).to.equal(ALLOWED);
    expect(await tell({ agentId: middle, actionType: "mail.send", onBehalfOf: root }, 61_000)).to.equal(NO_GRANT);
  });

  it("takes another chain when one does not fit.", async () => {
    const [onBehalfOf, agentId] = await pair();
    await lend(onBehalfOf, agentId, { ttlSeconds: 10n });
    const { grantId } = await lend(onBehalfOf, agentId, { actionTypes: ["mail.send"], maxUses: 5n });
    const outcome = await test.decideIn(20_000, { agentId, onBehalfOf, actionType: "mail.send" });
    expect(outcome.authority).to.deep.equal([grantId]);
  });

  it("seals the chain, from the actor's grant up to the principal's.", async () => {
    const [root, middle] = await pair();
    const agentId = await test.agent("last");
    const first = await lend(root, middle);
    const second = await lend(middle, agentId, { parentGrantId: first.grantId });
    const reply = await test.enforcement.intercept({ agentId, actionType: "mail.send", onBehalfOf: root });
    const { receipt } = await test.enforcement.getDecision({ decisionId: reply.decisionId });
    const body = JSON.parse(receipt?.canonicalBody ?? "");
    expect(body).to.deep.include({ on_behalf_of: root, authority: [second.grantId, first.grantId] });
  });

  it("applies the mandates of the actor and those of the principal.", async () => {
    const [onBehalfOf, agentId] = await pair();
    await lend(onBehalfOf, agentId);
    const mandate = (name: string, target: string, pattern: string) =>
      test.mandates.createMandate({
        name: `${name} ${target}`,
        scope: Scope.AGENT,
        agentId: target,
        rules: [{ type: RuleType.ACTION, decision: Decision.BLOCK, conditions: { matchActionTypes: [pattern] } }],
      });
    await mandate("principal", onBehalfOf, "mail.a");
    await mandate("actor", agentId, "mail.b");
    const [first, second] = [
      { agentId, actionType: "mail.a" },
      { agentId, actionType: "mail.b" },
    ];
    expect((await test.decideIn(0, { ...first, onBehalfOf })).path).to.equal("policy");
    expect((await test.decideIn(0, { ...second, onBehalfOf })).path).to.equal("policy");
    expect(await tell(first)).to.equal(ALLOWED);
    expect((await test.decideIn(0, second)).path).to.equal("policy");
    expect(await tell({ agentId, onBehalfOf, actionType: "mail.c" })).to.equal(ALLOWED);
  });

  it("goes on when the principal is deactivated.", async () => {
    const [onBehalfOf, agentId] = await pair();
    await lend(onBehalfOf, agentId);
    await test.agents.deactivateAgent({ agentId: onBehalfOf });
    expect(await tell({ agentId, onBehalfOf, actionType: "mail.send" })).to.equal(ALLOWED);
  });

  it("is refused as revoked when the principal is, with every grant that hung from it.", async () => {
    const [root, middle] = await pair();
    const agentId = await test.agent("last");
    const first = await lend(root, middle);
    const { grantId } = await lend(middle, agentId, { parentGrantId: first.grantId });
    const own = await lend(middle, agentId);
    await test.revoke(root);
    const tried = { agentId, actionType: "mail.send" };
    const revoked = "block revoked PRINCIPAL_REVOKED";
    expect(await tell({ ...tried, onBehalfOf: root })).to.equal(revoked);
    expect(await tell({ ...tried, onBehalfOf: root, grantId })).to.equal(revoked);
    expect(await tell({ agentId: middle, actionType: "mail.send", onBehalfOf: root })).to.equal(revoked);
    expect(await tell({ ...tried, grantId })).to.equal("block delegation GRANT_UNKNOWN");
    expect(await tell({ ...tried, onBehalfOf: middle, grantId: own.grantId })).to.equal(ALLOWED);
  });

  it("is refused when an agent in the middle of the chain is revoked.", async () => {
    const [root, middle] = await pair();
    const agentId = await test.agent("last");
    const first = await lend(root, middle);
    await lend(middle, agentId, { parentGrantId: first.grantId });
    await test.revoke(middle);
    expect(await tell({ agentId, onBehalfOf: root, actionType: "mail.send" })).to.equal(NO_GRANT);
  });

  it("holds the denials and mandates of everyone in the chain.", async () => {
    const first = await test.agent("first");
    const denying = await test.agent("denying", [], ["mail.delete"]);
    const watched = await test.agent("watched");
    const agentId = await test.agent("actor");
    const { grantId: one } = await lend(first, denying);
    const { grantId: two } = await lend(denying, watched, { parentGrantId: one });
    const { grantId } = await lend(watched, agentId, { parentGrantId: two });
    await test.mandate([actionRule(Decision.BLOCK, "mail.wipe")], { scope: Scope.AGENT, agentId: watched });
    for (const named of [{ onBehalfOf: first }, { onBehalfOf: watched }, { grantId }]) {
      expect(await tell({ agentId, ...named, actionType: "mail.delete" })).to.equal("block permissions ACTION_DENIED");
      expect(await tell({ agentId, ...named, actionType: "mail.wipe" })).to.equal("block policy ACTION_MATCHED");
      expect(await tell({ agentId, ...named, actionType: "mail.send" })).to.equal(ALLOWED);
    }
    expect(await tell({ agentId, actionType: "mail.delete" })).to.equal(ALLOWED);
  });

  it("shows the principal of a grant that is named alone, and is revoked with it, also on a fresh replica.", async () => {
    const [principal, agentId] = await pair();
    const { grantId } = await lend(principal, agentId);
    const tried = { agentId, grantId, actionType: "mail.send" };
    const { decisionId } = await test.intercept(tried);
    const { receipt } = await test.enforcement.getDecision({ decisionId });
    expect(receipt).to.include({ onBehalfOf: principal, grantId });
    await test.revoke(principal);
    for (const replica of [...test.replicas, await test.replica()]) {
      const reply = await replica.enforcement.intercept(tried);
      expect(reply).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.REVOKED });
      expect(reply.reasons[0]?.code).to.equal("PRINCIPAL_REVOKED");
    }
    const stranger = await test.agent("stranger");
    const reply = await test.intercept({ ...tried, agentId: stranger });
    expect(reply.decisionPath).to.equal(DecisionPath.DELEGATION);
  });
});
