import { createPublicKey } from "node:crypto";
import { expect } from "chai";
import { createTokenVerifier, signFederationToken } from "../../src/authority/federation-token.ts";
import { SigningKeys, sealedFrom } from "../../src/authority/signing-key.ts";
import { isSignatureValid, signCertificate } from "../../src/revocation/certificate.ts";
import type { RevokedIds, SealedAuthority } from "../../src/state/control-changes.ts";
import { canonicalJson } from "../../src/tree/canonical.ts";
import { leafHash } from "../../src/tree/merkle.ts";
import { withClient } from "../support/database.ts";
import { newPrivateKey, openWorkspace, type Replica, reasonOf, type TestWorkspace } from "../support/harness.ts";
import { startServer } from "../support/server.ts";

const NOTHING: RevokedIds = {
  sessions: [],
  credentials: [],
  grants_given: [],
  grants_received: [],
  temporal_windows: [],
  intent_contracts: [],
  federation_tokens: [],
  mcp_tool_policies: [],
};

describe("signing keys", () => {
  let workspace: TestWorkspace;
  /** A process that was started with another key after the workspace's first. */
  let next: Replica;

  beforeEach(async () => {
    workspace = await openWorkspace();
    await workspace.admin.createWorkspace({ workspaceId: "other" });
    next = await workspace.replica({ signingKey: newPrivateKey() });
    await next.keys.sealEverywhere();
  });
  afterEach(() => workspace.close());

  async function sealedIn(workspaceId: string): Promise<Record<string, unknown>[]> {
    const { rows } = await workspace.database.pool.query<{ body: string }>(
      "select body from ledger_entry where workspace_id = $1 and body like '%signing_key%' order by seq",
      [workspaceId],
    );
    return rows.map(({ body }) => JSON.parse(body) as Record<string, unknown>);
  }
  const retire = (keyId = workspace.keys.keyId) => next.admin.retireSigningKey({ keyId });

  it("are sealed in every workspace's log: the first in its first entry, each further one by itself.", async () => {
    for (const workspaceId of ["default", "other"]) {
      const [first, second, ...more] = await sealedIn(workspaceId);
      expect(first).to.deep.include({ type: "workspace_created", seq: 0, signing_key: workspace.keys.sealed });
      expect(second).to.deep.include({ type: "signing_key_added", by: "system", signing_key: next.keys.sealed });
      expect(more).to.deep.equal([]);
      expect(await workspace.keys.find(workspaceId, next.keys.keyId)).not.to.equal(undefined);
    }
  });

  it("retire in every log, by whom the entry says, once.", async () => {
    const { signingKey } = await retire();
    expect(signingKey).to.deep.include({ keyId: workspace.keys.keyId, publicKey: workspace.keys.publicPem });
    expect((await retire()).signingKey?.retiredAt).to.deep.equal(signingKey?.retiredAt);
    for (const workspaceId of ["default", "other"]) {
      const retirements = (await sealedIn(workspaceId)).filter(({ type }) => type === "signing_key_retired");
      expect(retirements).to.have.length(1);
      expect(retirements[0]).to.include({ key_id: workspace.keys.keyId, by: workspace.adminCaller.keyId });
    }
    const { keys } = await workspace.keys.jwks();
    const retiredAt = new Date(Number(signingKey?.retiredAt?.seconds) * 1_000).toISOString().slice(0, 19);
    expect(keys.map(({ kid, retired_at }) => [kid, retired_at?.slice(0, 19)])).to.deep.equal([
      [next.keys.keyId, undefined],
      [workspace.keys.keyId, retiredAt],
    ]);
  });

  it("retire once, and everywhere, when two processes do it at once and when one was interrupted.", async () => {
    const third = await workspace.replica({ signingKey: newPrivateKey() });
    await third.log.change("key_test", async ({ seal }) => {
      seal({ type: "signing_key_retired", key_id: workspace.keys.keyId });
    });
    await Promise.all([retire(), third.admin.retireSigningKey({ keyId: workspace.keys.keyId })]);
    for (const workspaceId of ["default", "other"]) {
      const types = (await sealedIn(workspaceId)).map(({ type }) => type);
      expect(types.filter((type) => type === "signing_key_retired")).to.have.length(1);
    }
  });

  it("are the same to a process that starts as to one that was there.", async () => {
    await retire();
    const cold = await workspace.replica();
    expect(await cold.keys.jwks()).to.deep.equal(await next.keys.jwks());
    const [known, read] = [workspace, cold].map(({ keys }) => keys.find("other", next.keys.keyId));
    expect({ ...(await read), publicKey: "" }).to.deep.equal({ ...(await known), publicKey: "" });
  });

  it("do not retire while they sign, nor when the service never had them.", async () => {
    expect(await reasonOf(retire(next.keys.keyId))).to.equal("SIGNING_KEY_ACTIVE");
    expect(await reasonOf(retire("A".repeat(43)))).to.equal("SIGNING_KEY_NOT_FOUND");
    expect((await sealedIn("default")).map(({ type }) => type)).not.to.include("signing_key_retired");
  });

  it("sign nothing any more once they are retired, in workspaces old and new.", async () => {
    const agentId = await workspace.agent();
    const { secret } = await next.admin.createWorkspace({ workspaceId: "later" });
    await retire();
    const refused = "SIGNING_KEY_RETIRED";
    expect(await reasonOf(workspace.vault.getCheckpoint({}))).to.equal(refused);
    expect(await reasonOf(workspace.vault.getCheckpoint({}, secret))).to.equal(refused);
    expect(await reasonOf(workspace.vault.getInclusionProof({ index: 0n }))).to.equal(refused);
    expect(await reasonOf(workspace.revocations.revokeAgent({ agentId }))).to.equal(refused);
    const token = { agentId, allowedActionTypes: ["a"], audience: "b", maxTrustLevel: 50, ttlSeconds: 60n };
    expect(await reasonOf(workspace.authority.createFederationToken(token))).to.equal(refused);
    expect(await reasonOf(workspace.keys.sealEverywhere())).to.equal(refused);
    // The agent is still there: nothing was done without its certificate.
    expect((await next.revocations.revokeAgent({ agentId })).keyId).to.equal(next.keys.keyId);
  });

  it("verify the certificates of before their retirement, and none of later.", async () => {
    const before = await workspace.revocations.revokeAgent({ agentId: await workspace.agent() });
    await retire();
    const { certificate, signatureValid } = await next.revocations.getRevocation({ revocationId: before.revocationId });
    expect(signatureValid).to.equal(true);
    expect(certificate?.publicKey).to.equal(workspace.keys.publicPem);
    const retired = (await next.keys.find("default", workspace.keys.keyId))?.retired;
    const draft = (ledgerSeq: number) => ({
      revocation_id: "rev_x",
      workspace_id: "default",
      agent_id: "agt_x",
      agent_name: "x",
      reason: "",
      revoked_at: new Date().toISOString(),
      revoked_by: "key_x",
      ledger_seq: ledgerSeq,
    });
    const signedAt = (seq: number) => signCertificate(workspace.keys, draft(seq), NOTHING);
    const seq = retired?.seq ?? 0;
    expect(await isSignatureValid(next.keys, signedAt(seq - 1))).to.equal(true);
    expect(await isSignatureValid(next.keys, signedAt(seq + 1))).to.equal(false);
  });

  it("verify the tokens of before their retirement, and none of later.", async () => {
    const sealed = { id: "fed_x", kind: "federation_token", agent_id: "agt_x", expires_at_ms: null } as SealedAuthority;
    const nowMs = Date.now();
    const before = await signFederationToken(workspace.keys, sealed, "default", nowMs - 5_000);
    const verify = createTokenVerifier(next.keys);
    expect(await verify(before)).to.include({ id: "fed_x" });
    await retire();
    expect(await verify(before)).to.include({ id: "fed_x" });
    expect(await verify(await signFederationToken(workspace.keys, sealed, "default", nowMs + 60_000))).to.equal(
      undefined,
    );
    expect(await verify(await signFederationToken(next.keys, sealed, "default", nowMs))).to.include({ id: "fed_x" });
    expect(await verify(await signFederationToken(next.keys, sealed, "nowhere", nowMs))).to.equal(undefined);
  });

  /** Writes an entry that would seal a key straight into the table, as the service's own login can. */
  async function forge(keyId: string, publicKey: string, seq: number): Promise<void> {
    const place = { seq, at: new Date().toISOString(), by: "system", workspace_id: "default" };
    const body = canonicalJson({
      type: "signing_key_added",
      signing_key: { key_id: keyId, public_key: publicKey },
      ...place,
    });
    await withClient(workspace.url, (client) =>
      client.query(
        `insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, leaf_hash, body)
         values ('default', $1, $2, 1, $3, $4, $5)`,
        [seq, Date.now(), `sgk_added_${keyId}`, leafHash(body), body],
      ),
    );
  }

  for (const [where, placeIn] of [
    ["before the log", () => -1],
    ["right behind its end", (size: number) => size],
    ["far behind its end", () => 1_000_000],
  ] as const) {
    it(`are neither published nor trusted when a row ${where} says so, which nothing sealed.`, async () => {
      const stranger = newPrivateKey();
      const { key_id, public_key } = sealedFrom(stranger);
      await forge(key_id, public_key, placeIn((await workspace.log.caughtUp()).seq));
      const cold = await workspace.replica();
      for (const { keys } of [cold, next]) {
        expect((await keys.jwks()).keys.map(({ kid }) => kid)).not.to.include(key_id);
        expect(await keys.find("default", key_id)).to.equal(undefined);
      }
      const strangers = new SigningKeys({ database: cold.database, logs: cold.logs, privateKey: stranger });
      const draft = {
        revocation_id: "rev_x",
        workspace_id: "default",
        agent_id: "agt_x",
        agent_name: "x",
        reason: "",
        revoked_at: new Date().toISOString(),
        revoked_by: "key_x",
        ledger_seq: 1,
      };
      expect(await isSignatureValid(cold.keys, signCertificate(strangers, draft, NOTHING))).to.equal(false);
      const sealed = { id: "fed_x", kind: "federation_token", agent_id: "a", expires_at_ms: null } as SealedAuthority;
      const token = await signFederationToken(strangers, sealed, "default", Date.now());
      expect(await createTokenVerifier(cold.keys)(token)).to.equal(undefined);
    });
  }

  it("are not trusted under the id of another key.", async () => {
    const stranger = createPublicKey(newPrivateKey()).export({ type: "spki", format: "pem" }).toString();
    const keyId = "B".repeat(43);
    await workspace.log.change("system", async ({ seal }) => {
      seal({ type: "signing_key_added", signing_key: { key_id: keyId, public_key: stranger } });
    });
    expect(await workspace.keys.find("default", keyId)).to.equal(undefined);
  });
});

describe("a service whose signing key was retired", () => {
  it("does not start, and says which variable to change.", async () => {
    const signingKey = newPrivateKey();
    const workspace = await openWorkspace({ signingKey });
    const next = await workspace.replica({ signingKey: newPrivateKey() });
    await next.keys.sealEverywhere();
    await next.admin.retireSigningKey({ keyId: workspace.keys.keyId });
    const env = { ACP_SIGNING_KEY: signingKey.export({ type: "pkcs8", format: "pem" }).toString() };
    const failure = await startServer({ databaseUrl: workspace.url, env }).then(
      () => "it started",
      (error: Error) => error.message,
    );
    expect(failure).to.contain("ended with 1 before it listened").and.contain("was retired: set ACP_SIGNING_KEY");
    await workspace.close();
  });
});
