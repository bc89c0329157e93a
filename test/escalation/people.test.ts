import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import type { Caller } from "../../src/api/context.ts";
import { callerWith, failureOf, reasonOf } from "../support/harness.ts";
import { withOwner } from "../support/owner.ts";
import { type EscalationWorkspace, openEscalationWorkspace } from "./harness.ts";

const P = "oidc:https://idp.example|p";
const Q = "oidc:https://idp.example|q";

describe("four eyes see people", () => {
  let workspace: EscalationWorkspace;
  before(async () => {
    workspace = await openEscalationWorkspace(1);
    await workspace.admin.updateWorkspace({ workspaceId: workspace.workspaceId, fourEyes: true });
  });
  after(() => workspace.close());

  const caller = (keyId: string, role = Role.ADMIN): Caller => ({ ...callerWith(workspace.adminCaller, role), keyId });
  let asks = 0;
  /** Escalates an action of a key; gives the escalation's id. */
  const askedBy = async (keyId: string): Promise<string> => {
    const action = { agentId: workspace.agentId, actionType: "ask", actionContent: `${asks++}` };
    return (await workspace.enforcement.intercept(action, caller(keyId))).escalationId ?? "";
  };
  const approve = (keyId: string, escalationId: string) =>
    workspace.escalations.resolveEscalation({ escalationId, resolution: Resolution.APPROVED }, caller(keyId));
  /** Tells whether one key may approve what another asked for. */
  const mayApprove = async (asker: string, approver: string): Promise<boolean> => {
    const resolved = approve(approver, await askedBy(asker));
    return resolved.then(
      () => true,
      async (error: unknown) => {
        expect(await reasonOf(Promise.reject(error))).to.equal("FOUR_EYES");
        return false;
      },
    );
  };
  const expectOne = async (...keyIds: string[]): Promise<void> => {
    for (const asker of keyIds)
      for (const approver of keyIds) expect(await mayApprove(asker, approver), `${asker} ${approver}`).to.equal(false);
  };
  const expectTwo = async (one: string, other: string): Promise<void> => {
    expect(await mayApprove(one, other), `${one} ${other}`).to.equal(true);
    expect(await mayApprove(other, one), `${other} ${one}`).to.equal(true);
  };
  /** Makes a key; gives its id. */
  const keyOf = async (by: string, owner?: string): Promise<string> => {
    const draft = { name: "key", role: Role.ADMIN, ...(owner === undefined ? {} : { owner }) };
    return (await workspace.admin.createApiKey(draft, caller(by))).key?.keyId ?? "";
  };

  it("as one with all keys that they made, and that these made.", async () => {
    const first = await keyOf(P);
    const second = await keyOf(P);
    const ofFirst = await keyOf(first);
    await expectOne(P, first, second, ofFirst, await keyOf(ofFirst));
    await expectTwo(Q, first);
    await expectTwo(ofFirst, await keyOf(Q));
  });

  it("as one with a key that they made, whomever they call its owner.", async () => {
    await expectOne(P, await keyOf(P, "somebody else"), await keyOf(P, "and another"), await keyOf(P, Q));
    const ofOwner = await keyOf(workspace.adminCaller.keyId, "Ann");
    await expectOne(ofOwner, await keyOf(ofOwner, "Bob"), await keyOf(await keyOf(ofOwner), "Eve"));
  });

  it("as the makers of credentials and federation tokens.", async () => {
    const { agentId, authority } = workspace;
    const maker = await keyOf(P);
    const { credential } = await authority.createCredential({ agentId }, caller(maker));
    const token = { agentId, audience: "x", allowedActionTypes: ["*"], ttlSeconds: 60n };
    const { federationToken } = await authority.createFederationToken(token, caller(P));
    const made = [credential?.credentialId ?? "", federationToken?.federationTokenId ?? ""];
    for (const keyId of made) {
      for (const approver of [P, maker]) expect(await mayApprove(keyId, approver), approver).to.equal(false);
      expect(await mayApprove(keyId, Q)).to.equal(true);
    }
  });

  it("behind the owners of keys, which an administrator's key hands out.", async () => {
    const { keyId: first } = workspace.adminCaller;
    const [ann, again, bob] = [
      await keyOf(first, "Ann Lee"),
      await keyOf(first, " ANN  lee "),
      await keyOf(first, "Bob"),
    ];
    const ofPerson = await keyOf(first, P);
    await expectOne(ann, again);
    await expectOne(ofPerson, P);
    await expectTwo(ann, bob);
    await expectTwo(bob, ofPerson);
    await expectTwo(ofPerson, Q);
    expect(await mayApprove(first, bob)).to.equal(true);
    expect(await mayApprove(bob, first), "a maker").to.equal(false);
    // Keys without an owner count as the one that made them.
    await expectOne(first, await keyOf(first), await keyOf(first));
    expect(await mayApprove(await keyOf(first), bob)).to.equal(true);
    expect(await mayApprove(await keyOf(ann), again)).to.equal(false);
  });

  it("apart when issuers, subjects or their case differ, and whatever they share with the text of another.", async () => {
    const others = [
      "oidc:https://other.example|p",
      "oidc:https://idp.example|P",
      "oidc:https://idp.example|p|",
      "oidc:https://idp.example/|p",
    ];
    for (const other of others) await expectTwo(P, other);
    await expectTwo(P, await keyOf(workspace.adminCaller.keyId, "p"));
    await expectTwo(await keyOf(workspace.adminCaller.keyId, "key"), await keyOf(workspace.adminCaller.keyId, "key_"));
  });

  it("and nobody behind the names of before.", async () => {
    const escalationId = await askedBy("oidc:p@example.com");
    const { agentId, authority } = workspace;
    const { credential } = await authority.createCredential({ agentId }, caller("oidc:p@example.com"));
    await approve(P, escalationId);
    expect(await mayApprove(credential?.credentialId ?? "", P)).to.equal(true);
  });

  it("in keys of before as no more than the key itself.", async () => {
    const [one, other] = [await keyOf(P), await keyOf(P)];
    await withOwner(workspace.url, (owner) => owner.query("update api_key set created_by = null"));
    await expectTwo(one, other);
  });

  it("and are found by what they answered, with their keys.", async () => {
    const R = "oidc:https://idp.example|r";
    const own = await keyOf(workspace.adminCaller.keyId, R);
    const [byKey, byPerson, byOther] = [await askedBy(P), await askedBy(P), await askedBy(P)];
    await approve(own, byKey);
    await approve(R, byPerson);
    await approve(await keyOf(Q, "somebody"), byOther);
    const found = async (resolvedBy: string) =>
      (await workspace.escalations.listEscalations({ resolvedBy })).escalations.map(({ escalationId }) => escalationId);
    expect(await found(R)).to.deep.equal([byPerson, byKey]);
    expect(await found(own)).to.deep.equal([byKey]);
    expect(await found("key_none")).to.deep.equal([]);
    const first = await workspace.escalations.listEscalations({ resolvedBy: R, pageSize: 1 });
    const pageToken = first.nextPageToken ?? "";
    expect(await reasonOf(workspace.escalations.listEscalations({ resolvedBy: own, pageToken }))).to.equal(
      "INVALID_PAGE_TOKEN",
    );
  });

  it("and say of what they see, without the names of others.", async () => {
    const { message, metadata } = await failureOf(approve(P, await askedBy(await keyOf(P))));
    expect(message).to.match(
      /^the key counts as `oidc:https:\/\/idp.example\|p`, as one does that asked for escalation `esc_\w+`; the workspace wants another to resolve it$/,
    );
    expect(metadata.escalation_id).to.match(/^esc_/);
    const first = workspace.adminCaller.keyId;
    const owned = await failureOf(approve(await keyOf(first, "ANN"), await askedBy(await keyOf(first, "ann"))));
    expect(owned.message).to.contain("counts as owner `ANN`, as one does");
  });
});

describe("the owner of a key", () => {
  let workspace: EscalationWorkspace;
  before(async () => {
    workspace = await openEscalationWorkspace(1);
  });
  after(() => workspace.close());

  const create = (owner: string) => workspace.admin.createApiKey({ name: "key", role: Role.OPERATOR, owner });

  it("is kept and sealed with the key, which also says who made it.", async () => {
    const { keyId } = workspace.adminCaller;
    const { key } = await create(" Ann Lee ");
    expect(key).to.include({ owner: "Ann Lee", createdBy: keyId });
    expect(key?.ownerName).to.equal(undefined);
    const { keys } = await workspace.admin.listApiKeys({});
    expect(keys[0]).to.deep.equal(key);
    const { entries } = await workspace.vault.listEntries({});
    const sealed = JSON.parse(entries.at(-1)?.body ?? "{}");
    expect(sealed.key).to.deep.include({ key_id: key?.keyId, owner: "Ann Lee" });
    const plain = await workspace.admin.createApiKey({ name: "key", role: Role.OPERATOR });
    expect(plain.key?.owner).to.equal(undefined);
  });

  for (const owner of [
    "oidc:ann@example.com",
    "OIDC:https://idp.example|ann",
    "oidc:https://idp|x y",
    "Ann\u200b",
    "Аnn",
    "\u0000",
    " ",
    "x".repeat(201),
  ]) {
    it(`is never ${JSON.stringify(owner.slice(0, 40))}.`, async () => {
      expect((await failureOf(create(owner))).violations[0]?.field).to.equal("owner");
    });
  }
});
