import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { AgentBlockedError, createControlPlane } from "../../src/client/index.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { newPrivateKey } from "../support/harness.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";
import { opensslVerifies } from "./openssl.ts";

const KINDS = [
  "sessions",
  "credentials",
  "grants_given",
  "grants_received",
  "temporal_windows",
  "intent_contracts",
  "federation_tokens",
  "mcp_tool_policies",
];
const CERTIFICATE = [
  "revocation_id",
  "workspace_id",
  "agent_id",
  "agent_name",
  "reason",
  "revoked_at",
  "revoked_by",
  "revoked",
  "counts",
  "ledger_seq",
  "key_id",
  "signature",
  "public_key",
  "canonical_body",
];
const MANDATE = {
  name: "ask first",
  rules: [{ type: "action", decision: "escalate", conditions: { match_action_types: ["review.*"] } }],
};

interface Certificate {
  readonly revocation_id: string;
  readonly revoked_at: string;
  readonly key_id: string;
  readonly signature: string;
  readonly public_key: string;
  readonly canonical_body: string;
  readonly [field: string]: unknown;
}

describe("revocation over REST", () => {
  let database: TestDatabase;
  let dataDir: string;
  let first: ServedHere;
  let second: ServedHere;
  let certificate: Certificate;
  let agentId: string;

  const call = async <T>(server: ServedHere, method: string, path: string, body?: object): Promise<T> => {
    const headers = { "x-api-key": first.adminKey, "content-type": "application/json" };
    const text = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(`${server.http}${path}`, { method, headers, ...text });
    return (await response.json()) as T;
  };
  const register = async (name: string): Promise<string> => {
    const { agent } = await call<{ agent: { agent_id: string } }>(first, "POST", "/v1/enforce/agents", { name });
    return agent.agent_id;
  };
  const keyIds = async (server: ServedHere): Promise<(string | undefined)[]> => {
    const { keys } = (await (await fetch(`${server.http}/.well-known/jwks.json`)).json()) as {
      keys: { kid: string }[];
    };
    return keys.map(({ kid }) => kid);
  };

  before("starts two services with keys of their own, and revokes an agent", async () => {
    database = await createTestDatabase();
    dataDir = await mkdtemp(join(tmpdir(), "acp-data-"));
    const databaseUrl = database.url;
    first = await serveHere({ databaseUrl, env: { ACP_DATA_DIR: dataDir } });
    const pem = newPrivateKey().export({ type: "pkcs8", format: "pem" }).toString();
    second = await serveHere({ databaseUrl, env: { ACP_ADMIN_KEY: first.adminKey, ACP_SIGNING_KEY: pem } });
    await call(first, "POST", "/v1/enforce/mandates", MANDATE);
    agentId = await register("payer");
    const path = `/v1/enforce/agents/${agentId}/revoke`;
    certificate = await call<Certificate>(first, "POST", path, { reason: "leaked" });
  });
  after("stops them", async () => {
    await Promise.all([first?.stop(), second?.stop()]);
    await database?.drop();
    await rm(dataDir, { recursive: true, force: true });
  });

  it("gives the certificate itself, in the documented shape.", async () => {
    expect(Object.keys(certificate).sort()).to.deep.equal([...CERTIFICATE].sort());
    expect(certificate).to.deep.include({
      workspace_id: "default",
      agent_id: agentId,
      agent_name: "payer",
      reason: "leaked",
      counts: Object.fromEntries(KINDS.map((kind) => [kind, 0])),
      revoked: Object.fromEntries(KINDS.map((kind) => [kind, []])),
    });
    expect(certificate.revocation_id).to.match(/^rev_[a-z2-7]{26}$/);
    expect(certificate.revoked_by).to.match(/^key_/);
    expect(certificate.revoked_at).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
    const { signature, public_key: publicKey, canonical_body: canonicalBody } = certificate;
    expect(await opensslVerifies({ signature, publicKey, canonicalBody })).to.equal(true);
    const { signature: _1, public_key: _2, canonical_body: _3, revoked_at, ledger_seq, ...body } = certificate;
    const signed = JSON.parse(canonicalBody) as Record<string, unknown>;
    expect(signed).to.deep.include(body);
    expect(Number(ledger_seq)).to.equal(signed.ledger_seq);
    expect(Date.parse(revoked_at)).to.equal(Date.parse(String(signed.revoked_at)));
  });

  it("takes a revoke without a reason, under the prefix /api too, and gives the first certificate again.", async () => {
    const again = await call<Certificate>(second, "POST", `/api/v1/enforce/agents/${agentId}/revoke`, {});
    expect(again).to.deep.equal(certificate);
    const other = await call<Certificate>(second, "POST", `/v1/enforce/agents/${await register("b")}/revoke`, {});
    expect(other.reason).to.equal("");
  });

  it("gives a certificate with whether it still verifies, on a process with another key as well.", async () => {
    for (const server of [first, second]) {
      const read = await call(server, "GET", `/v1/enforce/revocations/${certificate.revocation_id}`);
      const named = { revoked_by_name: "first admin" };
      expect(read).to.deep.equal({ certificate: { ...certificate, ...named }, signature_valid: true, ...named });
    }
  });

  it("publishes the keys of every process, and keeps its own key readable by its owner alone.", async () => {
    const kids = await keyIds(first);
    expect(kids).to.have.length(2).and.include(certificate.key_id);
    expect(await keyIds(second)).to.deep.equal(kids);
    expect((await stat(join(dataDir, "signing-key.pem"))).mode & 0o777).to.equal(0o600);
  });

  it("shows the agent as revoked and blocks it with the path revoked.", async () => {
    const { agent } = await call<{ agent: object }>(second, "GET", `/v1/enforce/agents/${agentId}`);
    expect(agent).to.include({ status: "revoked" });
    const action = { agent_id: agentId, action_type: "read", action_content: "" };
    for (const server of [first, second]) {
      const decision = await call<object>(server, "POST", "/v1/enforce/intercept", action);
      expect(decision).to.include({ decision: "block", decision_path: "revoked" });
    }
  });

  it("ends what waits for a human, on whichever process it waits.", async () => {
    const waiter = await register("waiter");
    const runs: number[] = [];
    const waiting = [first, second].map(async ({ http }, index) => {
      const controlPlane = createControlPlane({ baseUrl: http, apiKey: first.adminKey });
      const options = { agentId: waiter, actionType: "review.pay", toArguments: (amount: number) => ({ amount }) };
      const pay = controlPlane.guard((amount: number) => runs.push(amount), options);
      return pay(5 + index).catch((error: unknown) => error);
    });
    const pending = async () => {
      const path = `/v1/enforce/escalations?status=pending&agent_id=${waiter}`;
      return (await call<{ escalations: { escalation_id: string }[] }>(first, "GET", path)).escalations;
    };
    while ((await pending()).length < 2);
    const ids = (await pending()).map(({ escalation_id }) => escalation_id);
    await call(first, "POST", `/v1/enforce/agents/${waiter}/revoke`, {});
    for (const error of await Promise.all(waiting)) {
      expect(error).to.be.instanceOf(AgentBlockedError).with.property("decision", "escalate");
      expect((error as Error).message).to.contain("was rejected");
    }
    for (const id of ids) {
      const status = await call(second, "GET", `/v1/enforce/escalations/${id}/status`);
      expect(status).to.deep.equal({ ok: true, status: "rejected" });
    }
    expect(runs).to.deep.equal([]);
  });

  it("answers with the documented fault for what does not exist.", async () => {
    for (const [method, path, reason] of [
      ["GET", "/v1/enforce/revocations/rev_unknown", "REVOCATION_NOT_FOUND"],
      ["POST", "/v1/enforce/agents/agt_unknown/revoke", "AGENT_NOT_FOUND"],
    ] as const) {
      const answer = await call<{ ok: boolean; error: { code: number; status: string; details: object[] } }>(
        first,
        method,
        path,
        method === "POST" ? {} : undefined,
      );
      expect(answer).to.have.property("ok", false);
      expect(answer.error).to.include({ code: 404, status: "NOT_FOUND" });
      expect(answer.error.details[0]).to.include({ reason });
    }
  });
});
