import type { DescMethod } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { AdminService } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { AuthorityService, type CreateCredentialResponse } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision, DecisionPath } from "../../gen/agentcontrol/v1/resources_pb.js";
import { Authenticator } from "../../src/registry/authenticator.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import { accessRuleOf } from "../../src/server/admission.ts";
import { openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

describe("credentials", () => {
  let test: TestWorkspace;
  let agentId: string;
  before(async () => {
    test = await openWorkspace();
    agentId = await test.agent("bound");
  });
  after(() => test.close());

  const credential = (ttlSeconds?: bigint): Promise<CreateCredentialResponse> =>
    test.authority.createCredential(ttlSeconds === undefined ? { agentId } : { agentId, ttlSeconds });
  const end = ({ credential }: CreateCredentialResponse) =>
    test.authority.endCredential({ credentialId: credential?.credentialId ?? "" });
  const intercept = (key: string, agent = agentId) =>
    test.enforcement.intercept({ agentId: agent, actionType: "mail.send" }, key);

  it("tell their secret once and store its hash alone.", async () => {
    const { credential: made, secret } = await credential();
    expect(secret).to.match(/^acpc_[a-z2-7]{52}$/);
    expect(made?.prefix).to.equal(secret.slice(0, 12));
    const { pool } = test.database;
    const rows = await pool.query("select to_jsonb(a)::text as text from authority a");
    const entries = await pool.query("select body as text from ledger_entry");
    for (const { text } of [...rows.rows, ...entries.rows]) expect(text).to.not.include(secret.slice(12));
  });

  it("open what an agent may do, for their agent alone.", async () => {
    const { credential: made, secret } = await credential();
    const reply = await intercept(secret);
    expect(reply.decision).to.equal(Decision.ALLOW);
    const { receipt } = await test.enforcement.getDecision({ decisionId: reply.decisionId });
    expect(JSON.parse(receipt?.canonicalBody ?? "").key_id).to.equal(made?.credentialId);
    expect((await test.agents.getAgent({ agentId }, secret)).agent?.agentId).to.equal(agentId);
    const another = await test.agent("another");
    expect(await reasonOf(intercept(secret, another))).to.equal("AGENT_NOT_ALLOWED");
    expect(await reasonOf(test.agents.getAgent({ agentId: another }, secret))).to.equal("AGENT_NOT_ALLOWED");
    expect(await reasonOf(test.authority.createCredential({ agentId }, secret))).to.equal("ROLE_NOT_ALLOWED");
  });

  it("are refused with a decision by Intercept once ended, and opened by nothing else.", async () => {
    const made = await credential();
    await test.agents.getAgent({ agentId }, made.secret);
    await end(made);
    const reply = await intercept(made.secret);
    expect(reply).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.CREDENTIAL });
    expect(reply.reasons[0]?.code).to.equal("CREDENTIAL_ENDED");
    expect(await reasonOf(test.agents.getAgent({ agentId }, made.secret))).to.equal("KEY_INVALID");
    const operators = test.authority.listCredentials({}, made.secret);
    expect(await reasonOf(operators)).to.equal("KEY_INVALID");
  });

  it("are refused the same once expired.", async () => {
    const { secret } = await credential(1n);
    expect((await intercept(secret)).decision).to.equal(Decision.ALLOW);
    test.clock.advance(1_200);
    const reply = await intercept(secret);
    expect(reply).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.CREDENTIAL });
    expect(reply.reasons[0]?.code).to.equal("CREDENTIAL_EXPIRED");
    expect(await reasonOf(test.agents.getAgent({ agentId }, secret))).to.equal("KEY_INVALID");
  });

  it("of a revoked agent are refused as revoked.", async () => {
    const leaver = await test.agent("leaver");
    const { secret } = await test.authority.createCredential({ agentId: leaver });
    await intercept(secret, leaver);
    await test.revoke(leaver);
    expect(await intercept(secret, leaver)).to.include({ decisionPath: DecisionPath.REVOKED });
  });

  it("ended on one replica decide nothing on another, whatever it remembers.", async () => {
    const other = await test.replica();
    const made = await credential();
    const tried = { agentId, actionType: "mail.send" };
    expect((await other.enforcement.intercept(tried, made.secret)).decision).to.equal(Decision.ALLOW);
    await end(made);
    const reply = await other.enforcement.intercept(tried, made.secret);
    expect(reply).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.CREDENTIAL });
  });

  it("that nobody made open nothing.", async () => {
    const { secret } = await credential();
    const altered = `${secret.slice(0, -1)}${secret.endsWith("a") ? "b" : "a"}`;
    for (const key of [altered, "acpc_", `${secret} `, secret.toUpperCase()])
      expect(await reasonOf(intercept(key)), key).to.equal("KEY_INVALID");
  });

  it("leave a key alone that people chose and that looks like one.", async () => {
    for (const [index, chosen] of ["acpc_chosen-by-people", "three.parts.key"].entries()) {
      const context = { database: test.database, nowMs: Date.now(), by: "system" };
      await createWorkspace(context, { workspaceId: `chosen-${index}` }, chosen);
      expect((await test.agents.listAgents({}, chosen)).agents).to.deep.equal([]);
    }
  });

  it("are judged by the time of each call, also when they are remembered.", async () => {
    const made = await credential(60n);
    const time = { wall: test.clock.now() };
    const clock = { now: () => time.wall };
    const authenticator = new Authenticator({ database: test.database, clock, now: () => 0 });
    const holder = { keyId: made.credential?.credentialId, workspaceId: "default", role: Role.AGENT, agentId };
    const found = await authenticator.authenticate(made.secret);
    expect(found).to.deep.include(holder);
    time.wall += 61_000;
    expect(authenticator.authenticate(made.secret)).to.deep.equal({ ...found, isEnded: true });
  });

  it("that no longer hold may call the methods that decide, and no other.", () => {
    const services = [AdminService, AgentService, AuthorityService, EnforcementService, EscalationService];
    const methods = services.flatMap((service): readonly DescMethod[] => service.methods);
    const open = methods.filter((method) => accessRuleOf(method).opensAfterEnd);
    expect(open.map(({ name }) => name)).to.deep.equal(["Intercept", "InterceptStream"]);
  });
});
