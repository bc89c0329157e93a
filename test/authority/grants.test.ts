import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import {
  AuthorityStatus,
  type CreateGrantRequestSchema,
  type Grant,
} from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { Decision, DecisionPath } from "../../gen/agentcontrol/v1/resources_pb.js";
import { MAX_CHAIN } from "../../src/authority/parent-grant.ts";
import { give, newAuthority } from "../revocation/authority.ts";
import { failureOf, fieldsOf, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

type Asked = MessageInitShape<typeof CreateGrantRequestSchema>;

describe("grants", () => {
  let test: TestWorkspace;
  let [a, b, c, d] = ["", "", "", ""];
  before(async () => {
    test = await openWorkspace();
    [a, b, c, d] = [await test.agent("a"), await test.agent("b"), await test.agent("c"), await test.agent("d")];
  });
  after(() => test.close());

  async function grant(from: string, to: string, over: Asked = {}): Promise<Grant> {
    const init = { grantorAgentId: from, granteeAgentId: to, actionTypes: ["mail.*"], ...over };
    return (await test.authority.createGrant(init)).grant as Grant;
  }
  const child = (parent: Grant, to: string, over: Asked = {}): Promise<Grant> =>
    grant(parent.granteeAgentId, to, { parentGrantId: parent.grantId, ...over });
  const statusOf = async ({ grantId }: Grant): Promise<AuthorityStatus | undefined> =>
    (await test.authority.getGrant({ grantId })).grant?.status;
  const use = ({ grantId, granteeAgentId }: Grant, onBehalfOf: string, actionType = "mail.send") =>
    test.enforcement.intercept({ agentId: granteeAgentId, actionType, grantId, onBehalfOf });
  const expiryOf = ({ expiresAt }: Grant): number => timestampMs(expiresAt as Timestamp);

  describe("that go beyond their parent", () => {
    const parent: Asked = { actionTypes: ["mail.*", "Pay.Small"], ttlSeconds: 3_600n, maxUses: 10n };
    const CASES: readonly { readonly description: string; readonly over: Asked; readonly fields: readonly string[] }[] =
      [
        { description: "another action type", over: { actionTypes: ["sms.send"] }, fields: ["action_types[0]"] },
        { description: "a longer prefix's beginning", over: { actionTypes: ["mail*"] }, fields: ["action_types[0]"] },
        {
          description: "a star where the parent has none",
          over: { actionTypes: ["pay.small*"] },
          fields: ["action_types[0]"],
        },
        { description: "everything", over: { actionTypes: ["mail.send", "*"] }, fields: ["action_types[1]"] },
        { description: "a later expiry", over: { ttlSeconds: 3_700n }, fields: ["ttl_seconds"] },
        { description: "more uses", over: { maxUses: 11n }, fields: ["max_uses"] },
        {
          description: "all of these at once",
          over: { actionTypes: ["x", "mail.a", "y"], ttlSeconds: 4_000n, maxUses: 99n },
          fields: ["action_types[0]", "action_types[2]", "ttl_seconds", "max_uses"],
        },
      ];
    for (const { description, over, fields } of CASES) {
      it(`are refused by every field at fault: ${description}.`, async () => {
        const first = await grant(a, b, parent);
        const failure = await failureOf(child(first, c, over));
        expect(failure.violations.map(({ field }) => field)).to.deep.equal(fields);
        expect(failure.metadata).to.deep.equal({ parent_grant_id: first.grantId, fields: fields.join(" ") });
        expect(await reasonOf(child(first, c, over))).to.equal("GRANT_TOO_WIDE");
      });
    }

    it("are refused when somebody else than the parent's grantee lends.", async () => {
      const first = await grant(a, b, parent);
      const failure = await failureOf(grant(d, c, { parentGrantId: first.grantId }));
      expect(failure.violations).to.have.length(1);
      expect(failure.violations[0]).to.include({ field: "grantor_agent_id", reason: "GRANTOR_NOT_GRANTEE" });
    });

    it("are refused for uses that the parent no longer has.", async () => {
      const first = await grant(a, b, { maxUses: 3n });
      await use(first, a);
      expect(await fieldsOf(child(first, c, { maxUses: 3n }))).to.deep.equal(["max_uses"]);
      expect((await child(first, c, { maxUses: 2n })).maxUses).to.equal(2n);
    });

    it("pass within it, in any case of letters, and without limits of their own.", async () => {
      const first = await grant(a, b, parent);
      const second = await child(first, c, { actionTypes: ["MAIL.send", "mail.x*", " pay.small "], maxUses: 10n });
      expect(second.parentGrantId).to.equal(first.grantId);
      expect(second.expiresAt).to.deep.equal(first.expiresAt);
      const third = await child(second, d, { actionTypes: ["mail.send"], ttlSeconds: 60n });
      expect(expiryOf(third)).to.be.lessThan(expiryOf(first));
      expect(third.maxUses).to.equal(undefined);
    });

    it("end with it if they ask for no longer than it was given for, however long ago.", async () => {
      const hour = { ttlSeconds: 3_600n };
      const first = await grant(a, b, hour);
      test.clock.advance(600_000);
      const second = await child(first, c, hour);
      expect(second.expiresAt).to.deep.equal(first.expiresAt);
      const third = await child(second, d, hour);
      expect(third.expiresAt).to.deep.equal(first.expiresAt);
      const shorter = await child(first, c, { ttlSeconds: 60n });
      expect(expiryOf(shorter)).to.be.lessThan(expiryOf(first));
      const asParent = await child(first, c);
      expect((await child(asParent, d, hour)).expiresAt).to.deep.equal(first.expiresAt);
      for (const [parent, to] of [
        [first, c],
        [second, d],
        [asParent, d],
      ] as const) {
        const { violations } = await failureOf(child(parent, to, { ttlSeconds: 3_601n }));
        expect(violations.map(({ field, reason, description }) => [field, reason, description])).to.deep.equal([
          [
            "ttl_seconds",
            "EXPIRES_AFTER_PARENT",
            "is more than the 3600 seconds of the parent grant; ask for no more, or leave it out to end with the parent",
          ],
        ]);
      }
      expect(await fieldsOf(child(shorter, d, { ttlSeconds: 61n }))).to.deep.equal(["ttl_seconds"]);
      expect((await child(shorter, d, { ttlSeconds: 60n })).expiresAt).to.deep.equal(shorter.expiresAt);
    });

    it("end with a parent from before lifetimes were sealed.", async () => {
      const first = newAuthority("grant", b, { grantor_agent_id: a, action_types: ["mail.*"] });
      const { lastAtMs } = await test.log.caughtUp();
      const expires_at_ms = Math.max(lastAtMs, test.clock.now()) + 3_600_000;
      await give(test.log, [{ ...first, expires_at_ms }]);
      test.clock.advance(600_000);
      const init = { grantorAgentId: b, granteeAgentId: c, actionTypes: ["mail.*"], parentGrantId: first.id };
      const { grant: made } = await test.authority.createGrant({ ...init, ttlSeconds: 3_590n });
      expect(expiryOf(made as Grant)).to.equal(expires_at_ms);
      expect(await fieldsOf(test.authority.createGrant({ ...init, ttlSeconds: 3_700n }))).to.deep.equal([
        "ttl_seconds",
      ]);
    });
  });

  it("never have an agent twice in a chain.", async () => {
    const second = await child(await grant(a, b), c);
    expect(await fieldsOf(child(second, a))).to.deep.equal(["grantee_agent_id"]);
    expect(await fieldsOf(child(second, b))).to.deep.equal(["grantee_agent_id"]);
    expect(await fieldsOf(child(second, c))).to.deep.equal(["grantee_agent_id"]);
    // Two agents may still lend to each other: those are two chains.
    expect((await grant(b, a)).status).to.equal(AuthorityStatus.ACTIVE);
  });

  it(`reach ${MAX_CHAIN} deep and no further.`, async () => {
    let last = await grant(a, await test.agent("0"));
    for (let depth = 1; depth < MAX_CHAIN; depth++) last = await child(last, await test.agent(String(depth)));
    expect((await use(last, a)).decision).to.equal(Decision.ALLOW);
    expect(await fieldsOf(child(last, await test.agent("too deep")))).to.deep.equal(["parent_grant_id"]);
  });

  describe("whose parent does not hold", () => {
    it("are not found when there is no such grant, or it is something else or another workspace's.", async () => {
      const session = (await test.authority.createSession({ agentId: b })).session?.sessionId ?? "";
      for (const parentGrantId of ["grt_none", session]) {
        expect(await reasonOf(grant(b, c, { parentGrantId }))).to.equal("AUTHORITY_NOT_FOUND");
      }
    });

    it("are refused when it was ended, used up or has expired.", async () => {
      const ended = await grant(a, b);
      await test.authority.endGrant({ grantId: ended.grantId });
      const usedUp = await grant(a, b, { maxUses: 1n });
      await use(usedUp, a);
      const expired = await grant(a, b, { ttlSeconds: 1n });
      test.clock.advance(1_200);
      for (const parent of [ended, usedUp, expired])
        expect(await reasonOf(child(parent, c))).to.equal("PARENT_GRANT_INACTIVE");
    });

    it("are refused when a grant further up does not hold.", async () => {
      const first = await grant(a, b, { maxUses: 1n });
      const second = await child(first, c);
      await use(second, a);
      const failure = await failureOf(child(second, d));
      expect(failure.metadata).to.deep.equal({ parent_grant_id: first.grantId, standing: "used_up" });
    });
  });

  it("end with everything that hangs from them, and nothing else.", async () => {
    const first = await grant(a, b);
    const beside = await grant(a, b);
    const second = await child(first, c);
    const third = await child(second, d);
    const { seq } = await test.log.caughtUp();
    await test.authority.endGrant({ grantId: second.grantId });
    expect((await test.log.caughtUp()).seq).to.equal(seq + 1);
    expect(await statusOf(first)).to.equal(AuthorityStatus.ACTIVE);
    expect(await statusOf(third)).to.equal(AuthorityStatus.ENDED);
    await test.authority.endGrant({ grantId: first.grantId });
    expect(await statusOf(beside)).to.equal(AuthorityStatus.ACTIVE);
    const there = await (await test.replica()).log.caughtUp();
    for (const { grantId } of [first, second, third]) expect(there.authority.get(grantId)).to.equal(undefined);
  });

  it("count a use on every grant of the chain, and only for what is allowed.", async () => {
    const first = await grant(a, b, { maxUses: 2n });
    const second = await child(first, c);
    expect((await use(second, a, "sms.send")).decisionPath).to.equal(DecisionPath.DELEGATION);
    expect((await use(second, a)).decision).to.equal(Decision.ALLOW);
    expect((await use(first, a)).decision).to.equal(Decision.ALLOW);
    expect((await use(second, a)).decisionPath).to.equal(DecisionPath.DELEGATION);
    const shown = async ({ grantId }: Grant) => (await test.authority.getGrant({ grantId })).grant;
    expect(await shown(first)).to.include({ uses: 2n, status: AuthorityStatus.USED_UP });
    expect(await shown(second)).to.include({ uses: 1n, status: AuthorityStatus.ACTIVE });
  });

  it("leave no child that holds when replicas end the parent and pass it on at the same time.", async () => {
    const other = await test.replica();
    for (let round = 0; round < 10; round++) {
      const { grantId, granteeAgentId } = await grant(a, b);
      const asked = {
        grantorAgentId: granteeAgentId,
        granteeAgentId: c,
        actionTypes: ["mail.*"],
        parentGrantId: grantId,
      };
      const [made] = await Promise.allSettled([
        other.authority.createGrant(asked),
        test.authority.endGrant({ grantId }),
      ]);
      if (made.status === "fulfilled")
        expect(await statusOf(made.value.grant as Grant)).to.equal(AuthorityStatus.ENDED);
      else expect(await reasonOf(Promise.reject(made.reason))).to.equal("PARENT_GRANT_INACTIVE");
    }
  });

  it("are listed for their grantor and for their grantee.", async () => {
    const [from, to] = [await test.agent("from"), await test.agent("to")];
    const { grantId } = await grant(from, to);
    for (const agentId of [from, to]) {
      const { grants } = await test.authority.listGrants({ agentId });
      expect(grants.map((each) => each.grantId)).to.deep.equal([grantId]);
    }
  });

  it("are listed by the grant that they pass on, page by page, and only those that pass it on directly.", async () => {
    const first = await grant(a, b);
    const passedOn = [await child(first, c), await child(first, d)];
    const [toC] = passedOn as [Grant];
    await child(toC, d);
    await grant(b, c);
    const { parentGrantId, ids } = { parentGrantId: first.grantId, ids: passedOn.map(({ grantId }) => grantId) };
    const page = await test.authority.listGrants({ parentGrantId, pageSize: 1 });
    const next = await test.authority.listGrants({ parentGrantId, pageToken: page.nextPageToken ?? "" });
    const found = [...page.grants, ...next.grants].map(({ grantId }) => grantId);
    expect(found).to.deep.equal(ids.toReversed());
    const ofC = await test.authority.listGrants({ parentGrantId, agentId: c });
    expect(ofC.grants.map(({ grantId }) => grantId)).to.deep.equal([toC.grantId]);
  });

  it("take nothing from an agent that is deactivated, as grantor or as grantee.", async () => {
    const gone = await test.agent("gone");
    const lent = await grant(gone, b);
    await test.agents.deactivateAgent({ agentId: gone });
    expect(await reasonOf(grant(gone, c))).to.equal("AGENT_INACTIVE");
    expect(await reasonOf(grant(c, gone))).to.equal("AGENT_INACTIVE");
    // What it lent before stays, and may be passed on.
    expect((await child(lent, c)).status).to.equal(AuthorityStatus.ACTIVE);
  });
});
