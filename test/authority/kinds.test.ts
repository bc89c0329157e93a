import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { AuthorityStatus, type Session } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";
import { createKinds, type Kind } from "./kinds.ts";

const MANY = { pageSize: 500 };

describe("authority of every kind", () => {
  let test: TestWorkspace;
  /** The key of the admin of a second workspace. */
  let otherKey: string;
  let lender: string;
  const KINDS = createKinds(() => ({ test, lender }));
  before(async () => {
    test = await openWorkspace();
    otherKey = (await test.admin.createWorkspace({ workspaceId: "other" })).secret;
    lender = await test.agent("lender");
  });
  after(() => test.close());

  for (const kind of KINDS) {
    describe(kind.name, () => {
      it("is made, read back, listed and ended once.", async () => {
        const agentId = await test.agent(kind.name);
        const { id, shown } = await kind.create(agentId);
        expect(id).to.match(new RegExp(`^${kind.prefix}_[a-z2-7]{26}$`));
        expect(shown.status).to.equal(AuthorityStatus.ACTIVE);
        expect(await kind.get(id)).to.deep.equal(shown);
        expect((await kind.list({ ...MANY, agentId })).ids).to.deep.equal([id]);
        const ended = await kind.end(id);
        expect(ended?.status).to.equal(AuthorityStatus.ENDED);
        expect(ended?.endedAt).to.not.equal(undefined);
        const { seq } = await test.log.caughtUp();
        expect(await kind.end(id)).to.deep.equal(ended);
        expect((await test.log.caughtUp()).seq).to.equal(seq);
        expect(await kind.get(id)).to.deep.equal(ended);
        expect((await kind.list({ ...MANY, agentId })).ids).to.deep.equal([id]);
      });

      it("is listed newest first, a page at a time, for one agent.", async () => {
        const [agentId, another] = [await test.agent("lists"), await test.agent("others")];
        const made: string[] = [];
        for (let count = 0; count < 5; count++) made.unshift((await kind.create(agentId)).id);
        const { id } = await kind.create(another);
        expect((await kind.list(MANY)).ids[0]).to.equal(id);
        const seen: string[] = [];
        let pageToken: string | undefined = "";
        while (pageToken !== undefined) {
          const page = await kind.list({ pageSize: 2, pageToken, agentId });
          seen.push(...page.ids);
          pageToken = page.next;
        }
        expect(seen).to.deep.equal(made);
        const { next } = await kind.list({ pageSize: 1, agentId });
        expect(await reasonOf(kind.list({ pageToken: next, agentId: another }))).to.equal("INVALID_PAGE_TOKEN");
        expect((await kind.list({ agentId: "agt_no" })).ids).to.deep.equal([]);
      });

      it("is not found by another id, another kind's or from another workspace.", async () => {
        const { id } = await kind.create(await test.agent("hidden"));
        const foreign = KINDS[(KINDS.indexOf(kind) + 1) % KINDS.length] as Kind;
        for (const read of [kind.get, kind.end]) {
          expect(await reasonOf(read(`${kind.prefix}_none`))).to.equal("AUTHORITY_NOT_FOUND");
          expect(await reasonOf(read(id, otherKey))).to.equal("AUTHORITY_NOT_FOUND");
        }
        expect(await reasonOf(foreign.get(id))).to.equal("AUTHORITY_NOT_FOUND");
        expect(await reasonOf(foreign.end(id))).to.equal("AUTHORITY_NOT_FOUND");
        expect((await kind.get(id))?.status).to.equal(AuthorityStatus.ACTIVE);
      });

      it("goes to agents that exist and are active alone.", async () => {
        const [deactivated, revoked] = [await test.agent("deactivated"), await test.agent("revoked")];
        await test.agents.deactivateAgent({ agentId: deactivated });
        await test.revoke(revoked);
        const { seq } = await test.log.caughtUp();
        expect(await reasonOf(kind.create("agt_no"))).to.equal("AGENT_NOT_FOUND");
        expect(await reasonOf(kind.create(deactivated))).to.equal("AGENT_INACTIVE");
        expect(await reasonOf(kind.create(revoked))).to.equal("AGENT_INACTIVE");
        expect((await test.log.caughtUp()).seq).to.equal(seq);
      });

      it("ends with its agent.", async () => {
        const agentId = await test.agent("leaves");
        const { id } = await kind.create(agentId);
        await test.revoke(agentId);
        expect((await kind.get(id))?.status).to.equal(AuthorityStatus.ENDED);
      });

      it("shows on a replica that starts later as it does here.", async () => {
        const agentId = await test.agent("elsewhere");
        const { id, shown } = await kind.create(agentId);
        const { log } = await test.replica();
        const [here, there] = [await test.log.caughtUp(), await log.caughtUp()];
        expect(there.authority.get(id)?.sealed).to.deep.equal(here.authority.get(id)?.sealed);
        expect(shown.status).to.equal(AuthorityStatus.ACTIVE);
      });
    });
  }

  it("expires a session after a day unless told otherwise, a credential never.", async () => {
    const agentId = await test.agent("times");
    const lifeOf = (shown: Session | undefined): number =>
      timestampMs(shown?.expiresAt as Timestamp) - timestampMs(shown?.createdAt as Timestamp);
    expect(lifeOf((await test.authority.createSession({ agentId })).session)).to.equal(86_400_000);
    expect(lifeOf((await test.authority.createSession({ agentId, ttlSeconds: 5n })).session)).to.equal(5_000);
    expect((await test.authority.createCredential({ agentId })).credential?.expiresAt).to.equal(undefined);
  });

  it("takes a window that began in the past while it ends in the future.", async () => {
    const agentId = await test.agent("late");
    const startsAt = timestampFromMs(Date.now() - 30_000);
    const reply = await test.authority.createTemporalWindow({
      agentId,
      actionTypes: ["a"],
      startsAt,
      durationSeconds: 60n,
    });
    expect(reply.temporalWindow?.startsAt).to.deep.equal(startsAt);
    expect(timestampMs(reply.temporalWindow?.expiresAt as Timestamp)).to.equal(timestampMs(startsAt) + 60_000);
  });

  it("shows what has expired as expired, and what is used up as used up.", async () => {
    const agentId = await test.agent("worn");
    const contract = { agentId, goal: "once", allowedActionTypes: ["a"] };
    const once = await test.authority.createIntentContract({ ...contract, maxActions: 1n });
    const brief = await test.authority.createIntentContract({ ...contract, durationSeconds: 1n });
    const intentContractId = once.intentContract?.intentContractId ?? "";
    await test.enforcement.intercept({ agentId, actionType: "a", intentContractId });
    const used = (await test.authority.getIntentContract({ intentContractId })).intentContract;
    expect(used).to.include({ status: AuthorityStatus.USED_UP, actions: 1n, maxActions: 1n });
    const { intentContractId: briefId = "" } = brief.intentContract ?? {};
    test.clock.advance(1_200);
    const over = (await test.authority.getIntentContract({ intentContractId: briefId })).intentContract;
    expect(over?.status).to.equal(AuthorityStatus.EXPIRED);
  });

  it("keeps the uses that an ended item had.", async () => {
    const agentId = await test.agent("counted");
    const made = await test.authority.createIntentContract({ agentId, goal: "g", allowedActionTypes: ["a"] });
    const intentContractId = made.intentContract?.intentContractId ?? "";
    for (let count = 0; count < 3; count++)
      await test.enforcement.intercept({ agentId, actionType: "a", intentContractId });
    await test.authority.endIntentContract({ intentContractId });
    const { authority } = await test.replica();
    expect((await authority.getIntentContract({ intentContractId })).intentContract?.actions).to.equal(3n);
  });

  it("makes a policy for every agent when none is named.", async () => {
    const policy = { server: "*", tool: "*", decision: Decision.ALLOW };
    const { mcpToolPolicy } = await test.authority.createMcpToolPolicy(policy);
    expect(mcpToolPolicy?.agentId).to.equal(undefined);
    const { mcpToolPolicies } = await test.authority.listMcpToolPolicies(MANY);
    expect(mcpToolPolicies[0]).to.deep.equal(mcpToolPolicy);
  });
});
