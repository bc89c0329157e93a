import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { ListValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { createWorkspaceLogs, type WorkspaceLogs } from "../../src/log/workspace-logs.ts";
import { Authenticator } from "../../src/registry/authenticator.ts";
import { ensureDefaultWorkspace } from "../../src/registry/first-start.ts";
import { type Database, openDatabase } from "../../src/store/database.ts";
import { createTestDatabase, SILENT_LOG, type TestDatabase } from "../support/database.ts";
import { attempt, failureOf, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";
import { directUrlOf } from "../support/pooler.ts";

describe("workspaces", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  it("creates a workspace that is usable at once, with a key that opens it alone.", async () => {
    const { admin, agents } = test;
    const settings = { workspaceId: "acme", defaultDecision: Decision.BLOCK, initialTrust: 12.3 };
    const { workspace, key, secret } = await admin.createWorkspace(settings);
    expect(workspace).to.include({ name: "acme", defaultDecision: Decision.BLOCK, initialTrust: 12.3 });
    const caller = await test.authenticator.authenticate(secret);
    expect(caller).to.deep.equal({
      keyId: key?.keyId,
      workspaceId: "acme",
      role: Role.ADMIN,
      agentId: null,
      expiresAtMs: null,
    });
    const { agent } = await agents.registerAgent({ name: "newcomer" }, caller);
    expect(agent?.trustLevel).to.equal(12.3);
    const log = await test.logs.of("acme");
    expect((await attempt(log, { agentId: agent?.agentId ?? "", actionType: "x" })).decision).to.equal("block");
    expect(await reasonOf(agents.getAgent({ agentId: agent?.agentId ?? "" }))).to.equal("AGENT_NOT_FOUND");
  });

  it("seals the creation and the first key as the first entries of the log.", async () => {
    await test.admin.createWorkspace({ workspaceId: "sealed" });
    const sql =
      "select seq::int, body::json->>'type' as type, body::json->>'by' as by from ledger_entry where workspace_id = 'sealed' order by seq";
    const { rows } = await test.database.pool.query(sql);
    const by = test.adminCaller.keyId;
    expect(rows).to.deep.equal([
      { seq: 0, type: "workspace_created", by },
      { seq: 1, type: "key_created", by },
    ]);
  });

  it("refuses an id that is taken or none, and trust between steps.", async () => {
    const { admin } = test;
    await admin.createWorkspace({ workspaceId: "taken" });
    expect(await reasonOf(admin.createWorkspace({ workspaceId: "taken" }))).to.equal("WORKSPACE_EXISTS");
    expect(await reasonOf(admin.createWorkspace({ workspaceId: "Acme" }))).to.equal("INVALID_FIELD");
    const between = admin.createWorkspace({ workspaceId: "between", initialTrust: 50.05 });
    expect((await failureOf(between)).metadata.field).to.equal("initial_trust");
  });

  it("keeps how approvals work, on every replica and in the log, and refuses what is out of range.", async () => {
    const { admin, workspaceId } = test;
    const defaults = { escalationTtlSeconds: 86_400, approvalTtlSeconds: 3_600, fourEyes: false };
    const { workspace: made } = await admin.createWorkspace({ workspaceId: "approvals" });
    expect(made).to.include({ ...defaults, maxPendingEscalationsPerAgent: 100 });
    const given = { escalationTtlSeconds: 60, approvalTtlSeconds: 5, fourEyes: true, maxPendingEscalationsPerAgent: 7 };
    expect((await admin.updateWorkspace({ workspaceId, ...given })).workspace).to.include(given);
    const other = await test.replica();
    expect((await other.admin.getWorkspace({ workspaceId })).workspace).to.include(given);
    const sealed = {
      escalation_ttl_seconds: 60,
      approval_ttl_seconds: 5,
      four_eyes: true,
      max_pending_escalations_per_agent: 7,
    };
    expect((await other.log.caughtUp()).settings).to.deep.include(sealed);
    const { rows } = await test.database.pool.query(
      "select body::json->'workspace' as workspace from ledger_entry where body like '%\"workspace_updated\"%' order by seq desc",
    );
    expect(rows[0]?.workspace).to.deep.include(sealed);
    for (const [field, value] of [
      ...[0, -1, 31_536_001].flatMap((wrong) => [
        ["escalationTtlSeconds", wrong] as const,
        ["approvalTtlSeconds", wrong] as const,
      ]),
      ...[0, 1_001].map((wrong) => ["maxPendingEscalationsPerAgent", wrong] as const),
    ])
      expect(await reasonOf(admin.updateWorkspace({ workspaceId, [field]: value }))).to.equal("INVALID_FIELD");
    const back = { escalationTtlSeconds: 86_400, approvalTtlSeconds: 3_600, fourEyes: false };
    await admin.updateWorkspace({ workspaceId, ...back, maxPendingEscalationsPerAgent: 100 });
  });

  it("refuses metadata names that no approval may leave out, and what is no name.", async () => {
    const { admin, workspaceId } = test;
    const isRefused = async (names: JsonValue[]) =>
      (await failureOf(admin.updateWorkspace({ workspaceId, approvalIgnores: fromJson(ListValueSchema, names) })))
        .message;
    for (const name of ["arguments", "tool", "mcp_server"])
      expect(await isRefused(["x", name])).to.equal(
        `\`approval_ignores\` must not hold \`${name}\`, which identifies the call`,
      );
    for (const name of [5, "", "x".repeat(129)])
      expect(await isRefused(["x", name])).to.equal("`approval_ignores[1]` must be a text of 1 to 128 characters");
    expect(await isRefused(Array(51).fill("x"))).to.equal("`approval_ignores` must hold at most 50 names");
  });

  it("lets admins of `default` alone create workspaces and see every one.", async () => {
    const { admin } = test;
    const { secret } = await admin.createWorkspace({ workspaceId: "tenant" });
    const tenant = await test.authenticator.authenticate(secret);
    const create = admin.createWorkspace({ workspaceId: "more" }, tenant);
    expect(await reasonOf(create)).to.equal("WORKSPACE_NOT_ALLOWED");
    const own = await admin.listWorkspaces({}, tenant);
    expect(own.workspaces.map(({ workspaceId }) => workspaceId)).to.deep.equal(["tenant"]);
    for (const workspaceId of ["default", "nowhere"]) {
      expect(await reasonOf(admin.getWorkspace({ workspaceId }, tenant))).to.equal("WORKSPACE_NOT_FOUND");
      expect(await reasonOf(admin.updateWorkspace({ workspaceId }, tenant))).to.equal("WORKSPACE_NOT_FOUND");
    }
    expect((await admin.getWorkspace({ workspaceId: "tenant" })).workspace?.workspaceId).to.equal("tenant");
    const foreign = admin.updateWorkspace({ workspaceId: "tenant", name: "mine" });
    expect(await reasonOf(foreign)).to.equal("WORKSPACE_NOT_ALLOWED");
    expect(await reasonOf(admin.getWorkspace({ workspaceId: "nowhere" }))).to.equal("WORKSPACE_NOT_FOUND");
  });

  it("lists workspaces in the order of their ids, a page at a time.", async () => {
    const { admin } = test;
    const all = (await admin.listWorkspaces({ pageSize: 500 })).workspaces.map(({ workspaceId }) => workspaceId);
    expect(all).to.deep.equal([...all].sort());
    const first = await admin.listWorkspaces({ pageSize: 2 });
    const rest = await admin.listWorkspaces({ pageSize: 500, pageToken: first.nextPageToken ?? "" });
    expect([...first.workspaces, ...rest.workspaces].map(({ workspaceId }) => workspaceId)).to.deep.equal(all);
  });

  it("changes what is given, in force on every replica for the next decision, and nothing else.", async () => {
    const { admin, agents } = test;
    const other = await test.replica();
    const agentId = (await agents.registerAgent({ name: "a" })).agent?.agentId ?? "";
    const workspaceId = "default";
    const { workspace } = await admin.updateWorkspace({ workspaceId, defaultDecision: Decision.ESCALATE });
    expect(workspace).to.include({ name: "default", defaultDecision: Decision.ESCALATE, initialTrust: 50 });
    expect((await attempt(other.log, { agentId, actionType: "x" })).decision).to.equal("escalate");
    const { seq } = await test.log.caughtUp();
    await admin.updateWorkspace({ workspaceId, defaultDecision: Decision.ESCALATE, name: "default" });
    expect((await test.log.caughtUp()).seq).to.equal(seq);
    await admin.updateWorkspace({ workspaceId, initialTrust: 80, name: "Main" });
    expect((await agents.registerAgent({ name: "b" })).agent?.trustLevel).to.equal(80);
    expect((await agents.getAgent({ agentId })).agent?.trustLevel).to.equal(49.5);
    expect((await other.admin.getWorkspace({ workspaceId })).workspace?.name).to.equal("Main");
  });
});

describe("ensureDefaultWorkspace", () => {
  let test: TestDatabase;
  const replicas: { database: Database; logs: WorkspaceLogs; log: typeof SILENT_LOG }[] = [];
  beforeEach(async () => {
    test = await createTestDatabase();
    for (let index = 0; index < 4; index++) {
      const options = { url: test.url, directUrl: directUrlOf(test.url), poolSize: 3, log: SILENT_LOG };
      const database = await openDatabase({ ...options });
      replicas.push({ database, logs: await createWorkspaceLogs(database, SILENT_LOG), log: SILENT_LOG });
    }
  });
  afterEach(async () => {
    for (const { database, logs } of replicas.splice(0)) {
      await logs.close();
      await database.close();
    }
    await test.drop();
  });

  async function keyCount(): Promise<number> {
    const { rows } = await (replicas as [(typeof replicas)[number]])[0].database.pool.query(
      "select count(*)::int as count from api_key",
    );
    return rows[0].count;
  }

  async function opens(secret: string | undefined): Promise<boolean> {
    const [{ database, logs }] = replicas as [(typeof replicas)[number]];
    const holder = await new Authenticator({ database, clock: logs.clock }).authenticate(secret ?? "");
    return holder?.workspaceId === "default" && holder.role === Role.ADMIN;
  }

  it("makes the workspace and one key however many processes start at once.", async () => {
    const made = await Promise.all(replicas.map((replica) => ensureDefaultWorkspace(replica)));
    const secrets = made.flatMap(({ secret }) => secret ?? []);
    expect(secrets).to.have.length(1);
    expect(await opens(secrets[0])).to.equal(true);
    expect(await keyCount()).to.equal(1);
    for (const replica of replicas) expect(await ensureDefaultWorkspace(replica)).to.deep.equal({});
  });

  it("makes the key that is given, once, also when the workspace exists.", async () => {
    const [first] = replicas as [(typeof replicas)[number]];
    await ensureDefaultWorkspace(first);
    const adminKey = "a-key-that-people-chose";
    const made = await Promise.all(replicas.map((replica) => ensureDefaultWorkspace({ ...replica, adminKey })));
    expect(made.flatMap(({ secret }) => secret ?? [])).to.deep.equal([adminKey]);
    expect(await opens(adminKey)).to.equal(true);
    expect(await keyCount()).to.equal(2);
    const { rows } = await first.database.pool.query("select prefix from api_key order by created_at_ms");
    expect(rows[1].prefix).to.equal("");
  });

  it("ends the key that was given before, says so, and keeps the keys that people made.", async () => {
    const [first] = replicas as [(typeof replicas)[number]];
    const { secret } = await ensureDefaultWorkspace(first);
    await ensureDefaultWorkspace({ ...first, adminKey: "acp_chosen-first" });
    const warnings: string[] = [];
    const log = { ...SILENT_LOG, warn: (_: object, message: string) => void warnings.push(message) };
    await ensureDefaultWorkspace({ ...first, log, adminKey: "acp_chosen-second" });
    const open = await Promise.all([secret, "acp_chosen-first", "acp_chosen-second"].map(opens));
    expect(open).to.deep.equal([true, false, true]);
    await ensureDefaultWorkspace({ ...first, log, adminKey: "acp_chosen-first" });
    expect(await opens("acp_chosen-first")).to.equal(false);
    expect(warnings).to.deep.equal([
      "ACP_ADMIN_KEY changed: the key that it named before is revoked",
      "ACP_ADMIN_KEY names a revoked key, which opens nothing; choose another",
    ]);
  });

  it("makes the workspace with the key that is given.", async () => {
    const adminKey = "a-key-that-people-chose";
    const made = await Promise.all(replicas.map((replica) => ensureDefaultWorkspace({ ...replica, adminKey })));
    expect(made.flatMap(({ secret }) => secret ?? [])).to.deep.equal([adminKey]);
    expect(await keyCount()).to.equal(1);
  });

  it("makes one new key when no admin key opens any more, and brings no revoked one back.", async () => {
    const [first] = replicas as [(typeof replicas)[number]];
    const adminKey = "a-key-that-people-chose";
    await ensureDefaultWorkspace({ ...first, adminKey });
    await first.database.pool.query("update api_key set revoked_at_ms = 1");
    expect(await ensureDefaultWorkspace({ ...first, adminKey })).to.deep.equal({});
    expect(await opens(adminKey)).to.equal(false);
    const made = await Promise.all(replicas.map((replica) => ensureDefaultWorkspace(replica)));
    const secrets = made.flatMap(({ secret }) => secret ?? []);
    expect(secrets).to.have.length(1);
    expect(await opens(secrets[0])).to.equal(true);
  });
});
