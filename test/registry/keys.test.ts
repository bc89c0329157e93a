import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { Authenticator } from "../../src/registry/authenticator.ts";
import { ApiKeyEntity } from "../../src/store/entities.ts";
import { coldState } from "../log/comparable.ts";
import { failureOf, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

describe("keys", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  it("makes a key whose secret is told once and stored as its hash.", async () => {
    const { key, secret } = await test.admin.createApiKey({ name: " ops ", role: Role.OPERATOR });
    expect(secret).to.match(/^acp_[a-z2-7]{52}$/);
    expect(key).to.include({ name: "ops", role: Role.OPERATOR, prefix: secret.slice(0, 12) });
    expect(key?.agentId).to.equal(undefined);
    expect(key?.expiresAt).to.equal(undefined);
    const { rows } = await test.database.pool.query("select to_jsonb(k)::text as text from api_key k");
    const entries = await test.database.pool.query("select body as text from ledger_entry");
    for (const { text } of [...rows, ...entries.rows]) expect(text).to.not.include(secret.slice(12));
  });

  it("binds agent keys, and only these, to an agent that exists.", async () => {
    const { admin, agents } = test;
    const agentId = (await agents.registerAgent({ name: "bound" })).agent?.agentId ?? "";
    const { key, secret } = await admin.createApiKey({ name: "runtime", role: Role.AGENT, agentId });
    expect(key?.agentId).to.equal(agentId);
    expect(await test.authenticator.authenticate(secret)).to.include({ agentId, role: Role.AGENT, keyId: key?.keyId });
    const operator = admin.createApiKey({ name: "x", role: Role.OPERATOR, agentId });
    expect(await reasonOf(operator)).to.equal("INVALID_FIELD");
    const unknown = admin.createApiKey({ name: "x", role: Role.AGENT, agentId: "agt_no" });
    expect(await reasonOf(unknown)).to.equal("AGENT_NOT_FOUND");
    expect(await reasonOf(admin.createApiKey({ name: "x", role: Role.UNSPECIFIED }))).to.equal("INVALID_FIELD");
  });

  it("revokes a key once: again changes nothing and seals nothing.", async () => {
    const { admin } = test;
    const { key, secret } = await admin.createApiKey({ name: "leaving", role: Role.AUDITOR });
    expect(await test.authenticator.authenticate(secret)).to.include({ workspaceId: "default" });
    const keyId = key?.keyId ?? "";
    const first = await admin.revokeApiKey({ keyId });
    expect(first.key?.revokedAt).to.not.equal(undefined);
    const { seq } = await test.log.caughtUp();
    expect((await admin.revokeApiKey({ keyId })).key).to.deep.equal(first.key);
    expect((await test.log.caughtUp()).seq).to.equal(seq);
    expect(await test.authenticator.authenticate(secret)).to.equal(undefined);
    expect(await reasonOf(admin.revokeApiKey({ keyId: "key_no" }))).to.equal("KEY_NOT_FOUND");
  });

  it("never revokes the last admin key that opens, expired and revoked ones not counted.", async () => {
    const { admin } = test;
    const { keyId } = test.adminCaller;
    const expired = await admin.createApiKey({ name: "expired", role: Role.ADMIN, ttlSeconds: 1n });
    const where = { keyId: expired.key?.keyId ?? "" };
    await test.database.orm.em.fork().nativeUpdate(ApiKeyEntity, where, { expiresAtMs: Date.now() - 1 });
    expect(await reasonOf(admin.revokeApiKey({ keyId }))).to.equal("LAST_ADMIN_KEY");
    const other = await admin.createApiKey({ name: "other", role: Role.ADMIN });
    await admin.revokeApiKey({ keyId: other.key?.keyId ?? "" });
    expect(await reasonOf(admin.revokeApiKey({ keyId }))).to.equal("LAST_ADMIN_KEY");
    expect((await admin.revokeApiKey(where)).key?.revokedAt).to.not.equal(undefined);
  });

  it("keeps one admin key when replicas revoke all of them at the same time.", async () => {
    const { admin } = test;
    const other = await test.replica();
    const second = await admin.createApiKey({ name: "second", role: Role.ADMIN });
    const third = await admin.createApiKey({ name: "third", role: Role.ADMIN });
    const ids = [test.adminCaller.keyId, second.key?.keyId ?? "", third.key?.keyId ?? ""];
    const calls = ids.map((keyId, index) =>
      (index % 2 === 0 ? test : other).admin.revokeApiKey({ keyId }).then(
        () => true,
        () => false,
      ),
    );
    expect((await Promise.all(calls)).filter(Boolean)).to.have.length(2);
  });

  it("lets new keys expire by the workspace's setting, which refuses longer ones and leaves others as they are.", async () => {
    const { admin, workspaceId } = test;
    const other = await test.replica();
    const DAY = 86_400n;
    const daysOf = async (ttlSeconds?: bigint): Promise<number | undefined> => {
      const draft = { name: "k", role: Role.AUDITOR, ...(ttlSeconds !== undefined && { ttlSeconds }) };
      const { key } = await other.admin.createApiKey(draft);
      const { createdAt, expiresAt } = key ?? {};
      if (createdAt === undefined || expiresAt === undefined) return undefined;
      return (timestampMs(expiresAt) - timestampMs(createdAt)) / 86_400_000;
    };
    expect((await admin.getWorkspace({ workspaceId })).workspace?.keyTtlDays).to.equal(0);
    const before = (await admin.createApiKey({ name: "before", role: Role.AUDITOR })).secret;
    expect([await daysOf(), await daysOf(3650n * DAY)]).to.deep.equal([undefined, 3650]);
    expect((await admin.updateWorkspace({ workspaceId, keyTtlDays: 30 })).workspace?.keyTtlDays).to.equal(30);
    expect([await daysOf(), await daysOf(30n * DAY), await daysOf(DAY)]).to.deep.equal([30, 30, 1]);
    const refusal = await failureOf(daysOf(30n * DAY + 1n));
    expect(refusal.message).to.equal(
      "`ttl_seconds` must be at most 2592000: the workspace's `key_ttl_days` is 30; an admin changes it",
    );
    expect((await test.log.caughtUp()).settings.key_ttl_days).to.equal(30);
    expect((await coldState(test.database.pool)).settings.key_ttl_days).to.equal(30);
    expect((await test.authenticator.authenticate(before))?.expiresAtMs).to.equal(null);
    // The key that comes with a workspace never locks its admin out.
    const made = await admin.createWorkspace({ workspaceId: "expiring", keyTtlDays: 1 });
    expect([made.workspace?.keyTtlDays, made.key?.expiresAt]).to.deep.equal([1, undefined]);
    const theirs = await admin.createApiKey({ name: "k", role: Role.ADMIN }, made.secret);
    expect(theirs.key?.expiresAt).not.to.equal(undefined);
    for (const keyTtlDays of [-1, 3651])
      expect(await reasonOf(admin.updateWorkspace({ workspaceId, keyTtlDays }))).to.equal("INVALID_FIELD");
    await admin.updateWorkspace({ workspaceId, keyTtlDays: 0 });
    expect(await daysOf()).to.equal(undefined);
  });

  it("lists keys newest first, a page at a time.", async () => {
    const { admin } = test;
    const all = (await admin.listApiKeys({ pageSize: 500 })).keys;
    const seen = [];
    let pageToken = "";
    do {
      const page = await admin.listApiKeys({ pageSize: 2, pageToken });
      seen.push(...page.keys);
      pageToken = page.nextPageToken ?? "";
    } while (pageToken !== "");
    expect(seen).to.deep.equal(all);
    expect(all.at(-1)?.keyId).to.equal(test.adminCaller.keyId);
  });
});

describe("an authenticator", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  /** An authenticator whose clocks stand still until a test moves them. */
  function stopped() {
    const time = { cache: 1, wall: Date.now() };
    const clock = { now: () => time.wall };
    const authenticator = new Authenticator({
      database: test.database,
      clock,
      now: () => time.cache,
      cacheTtlMs: 100,
    });
    return { time, authenticator };
  }

  /** Revokes behind every cache's back, as another replica would. */
  async function revokedElsewhere(): Promise<{ secret: string; revoke: () => Promise<unknown> }> {
    const { key, secret } = await test.admin.createApiKey({ name: "k", role: Role.AUDITOR });
    const where = { keyId: key?.keyId ?? "" };
    const revoke = () => test.database.orm.em.fork().nativeUpdate(ApiKeyEntity, where, { revokedAtMs: Date.now() });
    return { secret, revoke };
  }

  it("answers at once when it knows the key, with the holder.", async () => {
    const { authenticator } = stopped();
    const first = authenticator.authenticate(test.adminKey);
    expect(first).to.be.instanceOf(Promise);
    const holder = await first;
    expect(holder).to.deep.equal({ ...test.adminCaller, expiresAtMs: null });
    expect(authenticator.authenticate(test.adminKey)).to.equal(holder);
  });

  it("notices a revocation elsewhere when the answer is too old, or when told to forget.", async () => {
    for (const learn of ["age", "forget"]) {
      const { authenticator, time } = stopped();
      const { secret, revoke } = await revokedElsewhere();
      expect(await authenticator.authenticate(secret)).to.not.equal(undefined);
      await revoke();
      expect(await authenticator.authenticate(secret)).to.not.equal(undefined);
      if (learn === "age") time.cache += 101;
      else authenticator.forget("default");
      expect(await authenticator.authenticate(secret)).to.equal(undefined);
    }
  });

  it("remembers unknown keys as long, and keeps other workspaces when it forgets one.", async () => {
    const { authenticator, time } = stopped();
    expect(await authenticator.authenticate("acp_nothing")).to.equal(undefined);
    expect(authenticator.authenticate("acp_nothing")).to.not.be.instanceOf(Promise);
    expect(await authenticator.authenticate(test.adminKey)).to.not.equal(undefined);
    authenticator.forget("another");
    expect(authenticator.authenticate(test.adminKey)).to.not.be.instanceOf(Promise);
    time.cache += 101;
    expect(authenticator.authenticate("acp_nothing")).to.be.instanceOf(Promise);
    expect(authenticator.authenticate("x".repeat(513))).to.equal(undefined);
  });

  it("judges expiry on every call, also for a key that it knows.", async () => {
    const { authenticator, time } = stopped();
    const { key, secret } = await test.admin.createApiKey({ name: "k", role: Role.AUDITOR, ttlSeconds: 60n });
    expect(await authenticator.authenticate(secret)).to.include({ keyId: key?.keyId });
    time.wall += 59_000;
    expect(authenticator.authenticate(secret)).to.include({ keyId: key?.keyId });
    time.wall += 2_000;
    expect(authenticator.authenticate(secret)).to.equal(undefined);
  });

  it("does not remember what it read before it was told to forget.", async () => {
    const { authenticator } = stopped();
    const { secret, revoke } = await revokedElsewhere();
    const early = authenticator.authenticate(secret);
    await revoke();
    authenticator.forget("default");
    await early;
    expect(await authenticator.authenticate(secret)).to.equal(undefined);
  });

  it("looks a key up once for callers that come together.", async () => {
    const { authenticator } = stopped();
    const holders = await Promise.all(Array.from({ length: 50 }, () => authenticator.authenticate(test.adminKey)));
    expect(new Set(holders).size).to.equal(1);
  });
});
