import { toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import {
  GetRevocationResponseSchema,
  ListRevocationsResponseSchema,
  type RevokeAgentResponse,
} from "../../gen/agentcontrol/v1/revocation_service_pb.js";
import { canonicalJson, digestOf, type JsonObject, type JsonValue } from "../../src/tree/canonical.ts";
import { withClient } from "../support/database.ts";
import { newPrivateKey, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";
import { give, oneOfEach } from "./authority.ts";
import { opensslVerifies, opensslVersion } from "./openssl.ts";

/** Characters that leave JSON whole in many places, and break it in others. */
const REPLACEMENTS = ["x", "0", "e", ".", '"'];

/** A value of the same type that is another one. */
function otherThan(value: JsonValue): JsonValue {
  if (typeof value === "number") return value + 1;
  return `${value}x`;
}

/** Every variant of a body in which one value at the end of a path is another one. */
function alterations(body: JsonValue): JsonValue[] {
  if (typeof body !== "object" || body === null) return [otherThan(body)];
  return Object.entries(body).flatMap(([key, value]) =>
    alterations(value as JsonValue).map((altered) =>
      Array.isArray(body) ? body.with(Number(key), altered) : { ...(body as JsonObject), [key]: altered },
    ),
  );
}

describe("the revocation certificate", () => {
  let workspace: TestWorkspace;
  let agentId: string;
  let certificate: RevokeAgentResponse;

  before("revokes an agent that has one of each kind of authority", async () => {
    workspace = await openWorkspace();
    const { log } = workspace;
    const [revoked = "", other = ""] = await workspace.newAgents(2);
    agentId = revoked;
    await give(log, oneOfEach(revoked, other));
    certificate = await workspace.revocations.revokeAgent({ agentId, reason: "leaked a key" });
  });
  after("closes the workspace", () => workspace?.close());

  const getRevocation = async () => {
    const { revocationId } = certificate;
    const response = await workspace.revocations.getRevocation({ revocationId });
    // What cannot be sent is no answer.
    toBinary(GetRevocationResponseSchema, response);
    toBinary(ListRevocationsResponseSchema, await workspace.revocations.listRevocations({}));
    return response;
  };

  /** Changes the row as a superuser, who is above the application's rights, and puts it back afterwards. */
  const withRow = async (change: { body?: string; signature?: Buffer }, look: () => Promise<void>): Promise<void> => {
    const { revocationId, canonicalBody, signature } = certificate;
    const stored = { body: canonicalBody, signature: Buffer.from(signature, "base64") };
    await withClient(workspace.url, async (client) => {
      const write = ({ body, signature }: { body: string; signature: Buffer }) =>
        client.query("update revocation set body = $1, signature = $2 where revocation_id = $3", [
          body,
          signature,
          revocationId,
        ]);
      await write({ ...stored, ...change });
      await look();
      await write(stored);
    });
  };

  it("verifies with openssl and nothing but what the answer carries.", async () => {
    expect(await opensslVersion()).to.match(/^OpenSSL \d/);
    expect(await opensslVerifies(certificate)).to.equal(true);
  });

  it("does not verify when any value of its body is another one.", async () => {
    const altered = alterations(JSON.parse(certificate.canonicalBody) as JsonValue).map(canonicalJson);
    expect(altered.length).to.be.greaterThan(30);
    for (const canonicalBody of altered) {
      expect(await opensslVerifies({ ...certificate, canonicalBody }), canonicalBody).to.equal(false);
    }
  });

  it("says in its message what its signed body says.", () => {
    const body = JSON.parse(certificate.canonicalBody) as Record<string, unknown>;
    expect(canonicalJson(body as JsonValue)).to.equal(certificate.canonicalBody);
    expect(body).to.include({
      agent_id: agentId,
      agent_name: "agent 0",
      reason: "leaked a key",
      revocation_id: certificate.revocationId,
      workspace_id: workspace.workspaceId,
      revoked_by: workspace.adminCaller.keyId,
      key_id: workspace.keys.keyId,
      ledger_seq: Number(certificate.ledgerSeq),
    });
    expect(Object.values(body.counts as object)).to.deep.equal([1, 1, 0, 1, 1, 1, 1, 1]);
    expect(certificate.revoked?.sessions).to.have.length(1);
    expect(certificate.counts).to.deep.include({ grantsGiven: 0, grantsReceived: 1, mcpToolPolicies: 1 });
  });

  it("is in the log by its digest.", async () => {
    const { canonicalBody, ledgerSeq } = certificate;
    const { rows } = await workspace.database.pool.query<{ body: string }>(
      "select body from ledger_entry where seq = $1",
      [Number(ledgerSeq)],
    );
    const entry = JSON.parse(rows[0]?.body ?? "") as { type: string; certificate_digest: string };
    expect(entry).to.include({
      type: "agent_revoked",
      certificate_digest: digestOf(JSON.parse(canonicalBody) as JsonValue),
    });
  });

  it("is read back as it was given, and valid.", async () => {
    const { certificate: read, signatureValid } = await getRevocation();
    expect(signatureValid).to.equal(true);
    const { $typeName: _, ...given } = certificate;
    expect(read).to.deep.include(given);
    const { revocations } = await workspace.revocations.listRevocations({});
    expect(revocations.map(({ canonicalBody }) => canonicalBody)).to.deep.equal([certificate.canonicalBody]);
    const name = (await getRevocation()).revokedByName;
    expect(name).to.be.a("string");
    expect([read, ...revocations].map((each) => each?.revokedByName)).to.deep.equal([name, name]);
  });

  it("is not valid, and still answered, whichever of its body's characters was changed in the database.", async () => {
    const { canonicalBody } = certificate;
    // Every third one: still each name and each value, in a third of the time.
    for (let index = 0; index < canonicalBody.length; index += 3) {
      const [other] = REPLACEMENTS.filter((each) => each !== canonicalBody[index]).slice(index % 4);
      const body = `${canonicalBody.slice(0, index)}${other}${canonicalBody.slice(index + 1)}`;
      await withRow({ body }, async () => {
        expect((await getRevocation()).signatureValid, body).to.equal(false);
      });
    }
  });

  it("is not valid, and still answered, when its body was changed into something else altogether.", async () => {
    const whole = JSON.parse(certificate.canonicalBody) as JsonObject;
    const counts = { ...(whole.counts as JsonObject), sessions: 1e34 };
    const others = [null, 1, [], {}, { ...whole, ledger_seq: 1.5 }, { ...whole, counts }, { ...whole, revoked: {} }];
    for (const body of ["", "no json", ...others.map((other) => JSON.stringify(other))]) {
      await withRow({ body }, async () => {
        const { certificate: read, signatureValid } = await getRevocation();
        expect(signatureValid, body).to.equal(false);
        expect(read).to.include({ canonicalBody: body, revocationId: certificate.revocationId });
      });
    }
    expect((await getRevocation()).signatureValid).to.equal(true);
  });

  it("is not valid whichever byte of its signature was changed in the database.", async () => {
    const stored = Buffer.from(certificate.signature, "base64");
    for (let index = 0; index < stored.length; index++) {
      const signature = Buffer.from(stored);
      signature[index] = (stored[index] ?? 0) ^ 1;
      await withRow({ signature }, async () => {
        expect((await getRevocation()).signatureValid, `byte ${index}`).to.equal(false);
      });
    }
  });

  it("is not valid in the place of another one, though its signature is.", async () => {
    const [second = ""] = await workspace.newAgents(1);
    const other = await workspace.revocations.revokeAgent({ agentId: second });
    const swapped = { body: other.canonicalBody, signature: Buffer.from(other.signature, "base64") };
    await withRow(swapped, async () => {
      expect((await getRevocation()).signatureValid).to.equal(false);
    });
  });

  it("is given again, unchanged, when the agent is revoked again.", async () => {
    const { seq } = await workspace.log.caughtUp();
    const again = await workspace.revocations.revokeAgent({ agentId, reason: "another reason" });
    expect(again).to.deep.equal(certificate);
    expect((await workspace.log.caughtUp()).seq).to.equal(seq);
  });

  it("stays valid, and names its own key, after the service starts with another signing key.", async () => {
    const rotated = await workspace.replica({ signingKey: newPrivateKey() });
    const { revocationId } = certificate;
    const { certificate: read, signatureValid } = await rotated.revocations.getRevocation({ revocationId });
    expect(signatureValid).to.equal(true);
    expect(read).to.include({ keyId: workspace.keys.keyId, publicKey: certificate.publicKey });
    expect(await opensslVerifies(read ?? certificate)).to.equal(true);
    const [second = ""] = await workspace.newAgents(1);
    const next = await rotated.revocations.revokeAgent({ agentId: second });
    expect(next.keyId).to.equal(rotated.keys.keyId).and.not.equal(certificate.keyId);
    expect((await workspace.revocations.getRevocation({ revocationId: next.revocationId })).signatureValid).to.equal(
      true,
    );
  });

  it("is not found under an unknown id, nor given for an unknown agent.", async () => {
    expect(await reasonOf(workspace.revocations.getRevocation({ revocationId: "rev_unknown" }))).to.equal(
      "REVOCATION_NOT_FOUND",
    );
    expect(await reasonOf(workspace.revocations.revokeAgent({ agentId: "agt_unknown" }))).to.equal("AGENT_NOT_FOUND");
  });
});
