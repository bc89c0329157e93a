import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { Caller } from "../../src/api/context.ts";
import { openInvite } from "../../src/registry/invites.ts";
import { SignIns } from "../../src/registry/sign-ins.ts";
import { createEncryptor } from "../../src/store/encryptor.ts";
import { PersonInviteEntity } from "../../src/store/entities.ts";
import { callerWith, openWorkspace, type Replica, reasonOf, type TestWorkspace } from "../support/harness.ts";

const ISSUER = "https://idp.example";
const HOURS_72 = 72 * 3_600_000;

describe("people", () => {
  let test: TestWorkspace;
  let other: Replica;
  before(async () => {
    test = await openWorkspace({ replicas: 2 });
    other = test.replicas[1] as Replica;
  });
  after(() => test.close());

  let subjects = 0;
  const subject = (): string => `s-${subjects++}`;
  const add = async (init: { name?: string; role?: Role; issuer?: string; subject?: string } = {}) => {
    const { person } = await test.admin.createPerson({ name: "Ann Lee", role: Role.OPERATOR, ...init });
    if (person === undefined) throw new Error("no person");
    return person;
  };
  const invite = async (personId: string, as?: Caller): Promise<string> =>
    (await test.admin.invitePerson({ personId }, as)).url.split("#")[1] ?? "";
  const openOn = ({ database, logs, authenticator }: Replica, secret: string) =>
    openInvite({ database, logs, forget: (id) => authenticator.forget(id) }, secret);
  const open = (secret: string) => openOn(test, secret);
  const signInsOf = ({ database, authenticator, clock }: Replica): SignIns =>
    new SignIns({ database, encryptor: createEncryptor("k"), clock, forget: (id) => authenticator.forget(id) });
  /** Signs a person in by their issuer; gives the cookie's secret. */
  const signIn = async (of: string, groupRole: Role | null = Role.OPERATOR, refreshToken: string | null = "r") => {
    const person = {
      labels: { email: `${of}@example.com`, displayName: null },
      groupRole,
      standing: { groups: ["g"], refreshToken },
    };
    const holder = `oidc:${ISSUER}|${of}`;
    const role = groupRole ?? Role.AUDITOR;
    return (await signInsOf(test).begin({ workspaceId: "default", holder, role, person })).secret;
  };
  const sealed = async (): Promise<Record<string, unknown>[]> => {
    const { rows } = await test.database.pool.query("select body from ledger_entry order by seq");
    return rows.map(({ body }) => JSON.parse(body as string) as Record<string, unknown>);
  };

  it("are added with a name and a role, and with an issuer and a subject or without.", async () => {
    const without = await add({ name: " Ann Lee " });
    expect(without.personId).to.match(/^per_[a-z2-7]{26}$/);
    expect(without).to.include({ name: "Ann Lee", role: Role.OPERATOR, actor: without.personId, openKeys: 0 });
    expect(without).to.include({ createdBy: test.adminCaller.keyId, createdByName: "first admin" });
    const s = subject();
    const signing = await add({ issuer: ISSUER, subject: s, role: Role.ADMIN });
    expect(signing).to.include({ actor: `oidc:${ISSUER}|${s}`, issuer: ISSUER, subject: s, role: Role.ADMIN });
    expect((await test.admin.getPerson({ personId: signing.personId })).person).to.deep.equal(signing);
    const { people, nextPageToken } = await test.admin.listPeople({ pageSize: 1 });
    expect(people).to.deep.equal([signing]);
    const second = await test.admin.listPeople({ pageSize: 1, pageToken: nextPageToken ?? "" });
    expect(second.people).to.deep.equal([without]);
  });

  it("are sealed by ids and roles, without their names.", async () => {
    const person = await add({ name: "Zebulon Quist", role: Role.AUDITOR });
    const { personId } = person;
    await test.admin.updatePerson({ personId, name: "Zebulon Q.", role: Role.OPERATOR });
    await open(await invite(personId));
    await test.admin.deactivatePerson({ personId });
    await test.admin.reactivatePerson({ personId });
    const entries = await sealed();
    const own = entries.filter((entry) => JSON.stringify(entry).includes(personId));
    expect(own.map(({ type }) => type)).to.deep.equal([
      "person_created",
      "person_updated",
      "person_invited",
      "key_created",
      "person_deactivated",
      "person_reactivated",
    ]);
    expect(own[0]?.person).to.deep.equal({ person_id: personId, actor: personId, role: Role.AUDITOR });
    expect(JSON.stringify(entries)).not.to.include("Zebulon");
  });

  it("have names that cannot be mistaken for ids, and both of issuer and subject or none.", async () => {
    const refused = async (init: object, field: string): Promise<void> => {
      const fault = await test.admin.createPerson({ name: "x", role: Role.AUDITOR, ...init }).catch((e: unknown) => e);
      expect(String((fault as Error).message), JSON.stringify(init)).to.include(`\`${field}\``);
    };
    for (const name of [
      "key_abc",
      "KEY_abc",
      "oidc:https://x|y",
      "per_1",
      "crd_1",
      "system",
      " ",
      "A\u200bnn",
      "\u0410nn",
    ])
      await refused({ name }, "name");
    await refused({ issuer: ISSUER }, "subject");
    await refused({ subject: "7" }, "issuer");
    for (const issuer of ["idp.example", "https://idp|x", "https://idp .x"])
      await refused({ issuer, subject: "7" }, "issuer");
    await refused({ issuer: ISSUER, subject: "a b" }, "subject");
    for (const role of [Role.AGENT, Role.UNSPECIFIED]) await refused({ role }, "role");
    const s = subject();
    await add({ issuer: ISSUER, subject: s });
    expect(await reasonOf(add({ issuer: ISSUER, subject: s }))).to.equal("PERSON_EXISTS");
    expect(await reasonOf(test.admin.getPerson({ personId: "per_no" }))).to.equal("PERSON_NOT_FOUND");
  });

  it("get a key by a link that is good once, over all replicas, and stored as its hash.", async () => {
    const { personId, actor } = await add();
    const secret = await invite(personId);
    expect(secret).to.match(/^acpi_[a-z2-7]{52}$/);
    const { rows } = await test.database.pool.query("select to_jsonb(i)::text as text from person_invite i");
    for (const { text } of rows) expect(text).not.to.include(secret.slice(5, 20));
    const tries = Array.from({ length: 8 }, (_, index) =>
      openOn(index % 2 === 0 ? test : other, secret).then(
        ({ secret: key }) => key,
        async (error: unknown) => reasonOf(Promise.reject(error)),
      ),
    );
    const outcomes = await Promise.all(tries);
    const keys = outcomes.filter((outcome) => outcome.startsWith("acp_"));
    expect(keys).to.have.length(1);
    expect(outcomes.filter((outcome) => outcome === "INVITE_INVALID")).to.have.length(7);
    expect(await test.authenticator.authenticate(keys[0] ?? "")).to.include({ role: Role.OPERATOR, agentId: null });
    const { keys: own } = await test.admin.listApiKeys({ owner: actor });
    expect(own).to.have.length(1);
    expect(own[0]).to.include({ owner: actor, ownerName: "Ann Lee", createdBy: test.adminCaller.keyId });
    const { person } = await test.admin.getPerson({ personId });
    expect([person?.openKeys, person?.invitedUntil]).to.deep.equal([1, undefined]);
  });

  it("get no key by a forged, replaced or expired link.", async () => {
    const { personId } = await add();
    const first = await invite(personId);
    const second = await invite(personId);
    const forged = `${second.slice(0, -1)}${second.endsWith("a") ? "b" : "a"}`;
    for (const secret of [
      first,
      forged,
      second.toUpperCase(),
      second.slice(5),
      `${second}a`,
      "acpi_",
      "",
      test.adminKey,
    ])
      expect(await reasonOf(open(secret)), secret).to.equal("INVITE_INVALID");
    const { person } = await test.admin.getPerson({ personId });
    const until = person?.invitedUntil;
    expect(until === undefined ? 0 : timestampMs(until) - test.clock.now()).to.be.within(HOURS_72 - 60_000, HOURS_72);
    const em = test.database.orm.em.fork();
    await em.nativeUpdate(PersonInviteEntity, { personId }, { expiresAtMs: test.clock.now() });
    expect(await reasonOf(open(second))).to.equal("INVITE_INVALID");
  });

  it("get no key once they, or the key that invited them, lost their rights.", async () => {
    const { personId } = await add();
    const secret = await invite(personId);
    await test.admin.deactivatePerson({ personId });
    expect(await reasonOf(open(secret))).to.equal("INVITE_INVALID");
    expect(await reasonOf(test.admin.invitePerson({ personId }))).to.equal("PERSON_DEACTIVATED");
    const leaver = await test.admin.createApiKey({ name: "leaver", role: Role.ADMIN });
    const keyId = leaver.key?.keyId ?? "";
    const left = await invite((await add()).personId, { ...test.adminCaller, keyId });
    await test.admin.revokeApiKey({ keyId });
    expect(await reasonOf(open(left))).to.equal("INVITE_INVALID");
    const s = subject();
    await signIn(s, Role.ADMIN);
    const admin = { ...test.adminCaller, keyId: `oidc:${ISSUER}|${s}` };
    const [byAdmin, byOperator] = [
      await invite((await add()).personId, admin),
      await invite((await add()).personId, admin),
    ];
    expect((await open(byAdmin)).key.createdBy).to.equal(admin.keyId);
    await signIn(s, Role.OPERATOR);
    expect(await reasonOf(open(byOperator))).to.equal("INVITE_INVALID");
  });

  it("have keys that expire by the workspace's setting.", async () => {
    const { personId } = await add();
    const secret = await invite(personId);
    await test.admin.updateWorkspace({ workspaceId: "default", keyTtlDays: 7 });
    const { key } = await open(secret);
    await test.admin.updateWorkspace({ workspaceId: "default", keyTtlDays: 0 });
    expect((key.expiresAtMs ?? 0) - key.createdAtMs).to.equal(7 * 86_400_000);
  });

  it("lose sign-ins and keys on every replica when they are deactivated, and come back without them.", async () => {
    const s = subject();
    const { personId, actor } = await add({ issuer: ISSUER, subject: s });
    const { secret } = await open(await invite(personId));
    const cookie = await signIn(s);
    const ended: string[] = [];
    const stop = other.authenticator.watchEnds(other.log, ({ keyIds }) => ended.push(...keyIds));
    for (const replica of [test, other])
      for (const key of [secret, cookie]) expect(await replica.authenticator.authenticate(key)).to.not.equal(undefined);
    const { person } = await test.admin.deactivatePerson({ personId });
    expect(person).to.include({ openKeys: 0 });
    expect(person?.deactivatedAt).to.not.equal(undefined);
    await other.log.caughtUp();
    for (const replica of [test, other])
      for (const key of [secret, cookie]) expect(await replica.authenticator.authenticate(key)).to.equal(undefined);
    expect(ended).to.include(actor);
    stop();
    const { seq } = await test.log.caughtUp();
    await test.admin.deactivatePerson({ personId });
    expect((await test.log.caughtUp()).seq).to.equal(seq);
    expect(await reasonOf(signIn(s))).to.equal("PERSON_DEACTIVATED");
    const key = test.admin.createApiKey({ name: "k", role: Role.AUDITOR, owner: actor });
    expect(await reasonOf(key)).to.equal("PERSON_DEACTIVATED");
    await test.admin.reactivatePerson({ personId });
    expect(await test.authenticator.authenticate(secret)).to.equal(undefined);
    expect(await test.authenticator.authenticate(await signIn(s))).to.include({ keyId: actor });
  });

  it("get another role at once, which ends keys of theirs with more rights.", async () => {
    const s = subject();
    const { personId } = await add({ issuer: ISSUER, subject: s, role: Role.ADMIN });
    const admin = (await open(await invite(personId))).secret;
    const cookie = await signIn(s);
    expect(await test.authenticator.authenticate(cookie)).to.include({ role: Role.ADMIN });
    await test.admin.updatePerson({ personId, role: Role.AUDITOR });
    expect(await test.authenticator.authenticate(cookie)).to.include({ role: Role.AUDITOR });
    expect(await test.authenticator.authenticate(admin)).to.equal(undefined);
    const auditor = (await open(await invite(personId))).secret;
    await test.admin.updatePerson({ personId, role: Role.OPERATOR });
    expect(await test.authenticator.authenticate(auditor)).to.include({ role: Role.AUDITOR });
  });

  it("keep the last admin key of the workspace.", async () => {
    const own = await openWorkspace({ workspaceId: "own" });
    try {
      const { person } = await own.admin.createPerson({ name: "Ann", role: Role.ADMIN });
      const personId = person?.personId ?? "";
      const { url } = await own.admin.invitePerson({ personId });
      const parts = { database: own.database, logs: own.logs, forget: (id: string) => own.authenticator.forget(id) };
      const { secret } = await openInvite(parts, url.split("#")[1] ?? "");
      await own.admin.revokeApiKey({ keyId: own.adminCaller.keyId });
      expect(await reasonOf(own.admin.deactivatePerson({ personId }))).to.equal("LAST_ADMIN_KEY");
      expect(await reasonOf(own.admin.updatePerson({ personId, role: Role.OPERATOR }))).to.equal("LAST_ADMIN_KEY");
      expect(await own.authenticator.authenticate(secret)).to.include({ role: Role.ADMIN });
      expect((await own.admin.getPerson({ personId })).person?.deactivatedAt).to.equal(undefined);
    } finally {
      await own.close();
    }
  });

  it("are one party with their keys, also without an issuer, and two with one name or email address.", async () => {
    await test.admin.updateWorkspace({ workspaceId: "default", fourEyes: true });
    const agentId = await test.agent();
    await test.admin.updateWorkspace({ workspaceId: "default", defaultDecision: Decision.ESCALATE });
    const [ann, namesake] = [await add({ name: "Ann" }), await add({ name: "Ann" })];
    // Each is invited by another key, since the maker of a key counts as its holder.
    const keyOf = async (personId: string): Promise<Caller> => {
      const { key } = await test.admin.createApiKey({
        name: "inviter",
        role: Role.ADMIN,
        owner: `inviter of ${personId}`,
      });
      const secret = await invite(personId, { ...test.adminCaller, keyId: key?.keyId ?? "" });
      return { ...callerWith(test.adminCaller, Role.OPERATOR), keyId: (await open(secret)).key.keyId };
    };
    const [one, same, two] = [await keyOf(ann.personId), await keyOf(ann.personId), await keyOf(namesake.personId)];
    let asks = 0;
    const answer = async (asker: Caller, approver: Caller) => {
      const action = { agentId, actionType: "ask", actionContent: `${asks++}` };
      const escalationId = (await test.enforcement.intercept(action, asker)).escalationId ?? "";
      return test.escalations.resolveEscalation({ escalationId, resolution: Resolution.APPROVED }, approver);
    };
    expect(await reasonOf(answer(one, same))).to.equal("FOUR_EYES");
    expect((await answer(one, two)).escalation?.resolvedByName).to.equal("Ann");
    await test.admin.updateWorkspace({ workspaceId: "default", fourEyes: false, defaultDecision: Decision.ALLOW });
  });

  it("own keys by their id, which no label can take.", async () => {
    const { personId } = await add();
    const keyWith = (owner: string) => test.admin.createApiKey({ name: "k", role: Role.AUDITOR, owner });
    expect((await keyWith(personId)).key).to.include({ owner: personId, ownerName: "Ann Lee" });
    for (const owner of ["per_aaaaaaaaaaaaaaaaaaaaaaaaaa", personId.toUpperCase(), `${personId}x`, "per_"])
      expect(await reasonOf(keyWith(owner)), owner).to.equal("INVALID_FIELD");
    const signing = await add({ issuer: ISSUER, subject: subject() });
    expect(await reasonOf(keyWith(signing.personId))).to.equal("INVALID_FIELD");
  });

  it("of one workspace are none of another.", async () => {
    const own = await openWorkspace({ workspaceId: "elsewhere" });
    try {
      const { personId } = await add();
      for (const call of [
        () => own.admin.getPerson({ personId }),
        () => own.admin.updatePerson({ personId, name: "x" }),
        () => own.admin.deactivatePerson({ personId }),
        () => own.admin.reactivatePerson({ personId }),
        () => own.admin.invitePerson({ personId }),
      ])
        expect(await reasonOf(call())).to.equal("PERSON_NOT_FOUND");
    } finally {
      await own.close();
    }
  });

  it("are managed by admins, and read by auditors.", async () => {
    const { personId } = await add();
    const [operator, auditor] = [Role.OPERATOR, Role.AUDITOR].map((role) => callerWith(test.adminCaller, role));
    for (const call of [
      () => test.admin.createPerson({ name: "x", role: Role.AUDITOR }, operator),
      () => test.admin.listPeople({}, operator),
      () => test.admin.getPerson({ personId }, operator),
      () => test.admin.updatePerson({ personId, role: Role.ADMIN }, operator),
      () => test.admin.deactivatePerson({ personId }, operator),
      () => test.admin.invitePerson({ personId }, operator),
      () => test.admin.invitePerson({ personId }, auditor),
      () => test.admin.deactivatePerson({ personId }, auditor),
    ])
      expect(await reasonOf(call())).to.equal("ROLE_NOT_ALLOWED");
    expect((await test.admin.getPerson({ personId }, auditor)).person?.personId).to.equal(personId);
  });
});
