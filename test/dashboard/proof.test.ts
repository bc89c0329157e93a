import { generateKeyPairSync, sign } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type JsonObject, toJson } from "@bufbuild/protobuf";
import { expect } from "chai";
import { GetDecisionResponseSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { openBundle } from "../../src/cli/bundle.ts";
import { decisionBundle, logBundleLine } from "../../src/dashboard/proof/bundle-text.ts";
import { checkCertificate } from "../../src/dashboard/proof/check-certificate.ts";
import { checkpointSteps } from "../../src/dashboard/proof/check-checkpoint.ts";
import { type ConsistencyEvidence, consistencySteps } from "../../src/dashboard/proof/check-consistency.ts";
import { type DecisionEvidence, decisionSteps, entrySteps } from "../../src/dashboard/proof/check-decision.ts";
import { failedStep, runSteps } from "../../src/dashboard/proof/steps.ts";
import { leafHash } from "../../src/tree/merkle.ts";
import { logBundleHead } from "../../src/verify/bundle.ts";
import { verifyCheckpoint } from "../../src/verify/checkpoint.ts";
import { verifyDecision } from "../../src/verify/decision.ts";
import type { AnsweredProof } from "../../src/verify/inclusion.ts";
import { parseCanonicalObject } from "../../src/verify/json.ts";
import { publicKeysFromJwks } from "../../src/verify/public-key.ts";
import { parseNote } from "../../src/verify/signed-note.ts";
import { openWorkspace, type TestWorkspace, velocityRule } from "../support/harness.ts";
import { flips } from "../verify/flips.ts";

/** Members that no log seals; the page shows none of them as sealed. */
const UNSEALED = /\.(tool_digest|action_digest|key_name|kty|alg|use|key_ops|issuer)$|\.jwks\.keys\.length$/;
/** The body stands in the entry, and the leaf's hash beside it: the answer's copies of both are what is checked. */
const COPIES = /^\.answer\.receipt\.(canonical_body|leaf_hash)$/;

const failedName = async (evidence: DecisionEvidence): Promise<string | undefined> =>
  failedStep(await runSteps(decisionSteps(evidence)))?.name;

describe("proofs in the browser", () => {
  let test: TestWorkspace;
  let agentId: string;
  before(async () => {
    test = await openWorkspace();
    await test.mandate([velocityRule(2, { windowSeconds: 600, scope: Scope.WORKSPACE } as never)], { name: "cap" });
    agentId = await test.agent("payer");
    for (let count = 0; count < 9; count++) await attempt(count);
  });
  after(() => test.close());

  const attempt = (count: number) =>
    test.intercept({
      agentId,
      actionType: "payment.send",
      actionContent: "to Bób \u202e <b>",
      metadata: { arguments: { amount: 100 + count, list: [0, "", null, false, {}] }, note: "x", empty: {} },
    });

  async function evidenceOf(decisionId: string): Promise<DecisionEvidence> {
    const response = await test.enforcement.getDecision({ decisionId });
    const { receipt } = response;
    if (receipt === undefined) throw new Error("no receipt");
    return {
      decisionId,
      workspaceId: test.workspaceId,
      answer: toJson(GetDecisionResponseSchema, response, { useProtoFieldName: true }) as JsonObject,
      entry: { index: receipt.index, leafHash: receipt.leafHash, body: receipt.canonicalBody },
      proof: (await test.vault.getInclusionProof({ decisionId })) as AnsweredProof,
      jwks: await test.keys.jwks(),
    };
  }

  it("hold for decisions of every kind.", async () => {
    for (const { decisionId } of (await test.enforcement.listDecisions({})).decisions)
      expect(await failedName(await evidenceOf(decisionId)), decisionId).to.equal(undefined);
  });

  it("fail for every field that is changed.", async () => {
    const { decisionId } = await attempt(99);
    const evidence = await evidenceOf(decisionId);
    expect(parseCanonicalObject(evidence.entry.body)?.decision).to.equal("block");
    expect(await failedName(evidence)).to.equal(undefined);
    let count = 0;
    for (const [path, flipped] of flips(evidence)) {
      if (UNSEALED.test(path) || COPIES.test(path) || path.includes("$typeName")) continue;
      count++;
      expect(await failedName(flipped as DecisionEvidence), path).to.be.a("string");
    }
    expect(count).to.be.above(60);
  });

  it("name the step that does not hold.", async () => {
    const { decisionId } = await attempt(7);
    const evidence = await evidenceOf(decisionId);
    const { proof, entry } = evidence;
    const rehashed = entry.body.replace('"block"', '"allow"');
    const other = leafHash(rehashed);
    const answered = {
      ...evidence.answer,
      decision: { ...(evidence.answer.decision as object), decision: "DECISION_ALLOW" },
    };
    expect(
      await failedName({
        ...evidence,
        answer: answered,
        entry: { ...entry, body: rehashed, leafHash: other },
        proof: { ...proof, leafHash: other },
      }),
    ).to.equal("path");
    expect(await failedName({ ...evidence, answer: answered })).to.equal("answer");
    expect(await failedName({ ...evidence, entry: { ...entry, body: rehashed } })).to.equal("answer");
    expect(await failedName({ ...evidence, entry: { ...entry, leafHash: other } })).to.equal("leaf");
    expect(await failedName({ ...evidence, jwks: { keys: [] } })).to.equal("signature");
    expect(await failedName({ ...evidence, proof: { ...proof, checkpoint: undefined } })).to.equal("checkpoint");
    expect(await failedName({ ...evidence, decisionId: "dec_other" })).to.equal("entry");
    expect(await failedName({ ...evidence, workspaceId: "other" })).to.equal("entry");
  });

  it("refuse the signature of a key that was retired before the decision.", async () => {
    const { decisionId } = await attempt(8);
    const evidence = await evidenceOf(decisionId);
    const { keys } = evidence.jwks as { readonly keys: readonly object[] };
    const retired = (at: string) => ({ keys: keys.map((key) => ({ ...key, retired_at: at })) });
    expect(await failedName({ ...evidence, jwks: retired("2020-01-01T00:00:00.000Z") })).to.equal("root");
    expect(await failedName({ ...evidence, jwks: retired("soon") })).to.equal("root");
    expect(await failedName({ ...evidence, jwks: retired("2099-01-01T00:00:00.000Z") })).to.equal(undefined);
  });

  it("hold for every entry of the log, and for no other text.", async () => {
    const { entries } = await test.vault.listEntries({ pageSize: 500 });
    const jwks = await test.keys.jwks();
    for (const entry of entries) {
      const proof = (await test.vault.getInclusionProof({ index: entry.index })) as AnsweredProof;
      const evidence = { entry, proof, workspaceId: test.workspaceId, jwks };
      expect(failedStep(await runSteps(entrySteps(evidence))), entry.body).to.equal(undefined);
      const spaced = { ...entry, body: entry.body.replace(":", ": ") };
      expect(failedStep(await runSteps(entrySteps({ ...evidence, entry: spaced })))?.name).to.equal("entry");
    }
  });

  it("make a bundle that agentctl verifies.", async () => {
    const { decisionId } = await attempt(5);
    const { entry, proof, jwks } = await evidenceOf(decisionId);
    const [key] = (await publicKeysFromJwks(jwks)) ?? [];
    if (key === undefined || proof.checkpoint === undefined) throw new Error("no key");
    const folder = await mkdtemp(join(tmpdir(), "bundle-"));
    const path = join(folder, "decision.json");
    await writeFile(path, decisionBundle(entry.body, proof, proof.checkpoint.note, key));
    const bundle = await openBundle(path);
    if (bundle.kind !== "decision") throw new Error("another bundle");
    const checkpoint = await verifyCheckpoint(bundle.checkpoint, [key]);
    expect((await verifyDecision(bundle.proof, checkpoint)).decision_id).to.equal(decisionId);
    expect(bundle.publicKeys[0]?.fingerprint).to.equal(key.fingerprint);
    const { entries } = await test.vault.listEntries({ pageSize: 500 });
    await writeFile(path, logBundleHead(proof.checkpoint.note, [key]) + entries.map(logBundleLine).join(""));
    const log = await openBundle(path);
    expect(log.kind).to.equal("log");
    await rm(folder, { recursive: true });
  });

  it("show growth, and fail for every field that is changed.", async () => {
    const jwks = await test.keys.jwks();
    const earlier = await test.vault.getCheckpoint({ treeSize: 5n });
    const later = await test.vault.getCheckpoint({});
    const proof = await test.vault.getConsistencyProof({ from: 5n, to: later.treeSize });
    const evidence: ConsistencyEvidence = { earlierNote: earlier.note, laterNote: later.note, proof, jwks };
    const failed = async (each: ConsistencyEvidence) => failedStep(await runSteps(consistencySteps(each)))?.name;
    expect(await failed(evidence)).to.equal(undefined);
    for (const [path, flipped] of flips(evidence)) {
      if (UNSEALED.test(path) || path.includes("$typeName") || path.endsWith(".kid")) continue;
      // The signature of the later note is a matter of the checkpoint's own steps.
      if (path === ".laterNote") continue;
      expect(await failed(flipped as ConsistencyEvidence), path).to.be.a("string");
    }
    expect(await failed({ ...evidence, earlierNote: later.note, laterNote: earlier.note })).to.equal("growth");
    expect(await failed({ ...evidence, earlierNote: later.note, proof: undefined })).to.equal(undefined);
    expect(await failed({ ...evidence, proof: undefined })).to.equal("growth");
  });

  it("verify a checkpoint, and no changed one.", async () => {
    const jwks = await test.keys.jwks();
    const checkpoint = await test.vault.getCheckpoint({});
    const given = { checkpoint, workspaceId: test.workspaceId, jwks };
    const failed = async (each: typeof given) => failedStep(await runSteps(checkpointSteps(each, {})))?.name;
    expect(await failed(given)).to.equal(undefined);
    for (const [path, flipped] of flips(given))
      if (!UNSEALED.test(path) && !path.includes("$typeName"))
        expect(await failed(flipped as typeof given), path).to.be.a("string");
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
    const { text, signatures } = parseNote(checkpoint.note);
    const forged = Buffer.concat([
      Buffer.from(signatures[0]?.keyId ?? "", "hex"),
      sign("sha256", Buffer.from(text), privateKey),
    ]);
    const note = `${text}\n\u2014 ${checkpoint.origin} ${forged.toString("base64")}\n`;
    expect(await failed({ ...given, checkpoint: { ...checkpoint, note } })).to.equal("signature");
  });

  it("hold for a certificate, and fail for every field that is changed.", async () => {
    const jwks = await test.keys.jwks();
    const keys = (await publicKeysFromJwks(jwks)) ?? [];
    const revoked = await test.agent("rogue");
    await test.authority.createSession({ agentId: revoked });
    const { revocationId } = await test.revocations.revokeAgent({ agentId: revoked, reason: "key found" });
    const { certificate } = await test.revocations.getRevocation({ revocationId });
    if (certificate === undefined) throw new Error("no certificate");
    const failed = async (each: unknown) => failedStep(await checkCertificate(each as typeof certificate, keys))?.name;
    expect(await failed(certificate)).to.equal(undefined);
    let count = 0;
    for (const [path, flipped] of flips(certificate)) {
      // The name is for readers, and not signed.
      if (path.includes("$typeName") || path === ".revokedByName") continue;
      count++;
      expect(await failed(flipped), path).to.be.a("string");
    }
    expect(count).to.be.above(15);
    expect(failedStep(await checkCertificate(certificate, []))?.name).to.equal("key");
    const { keys: set } = jwks as { readonly keys: readonly object[] };
    const late = await publicKeysFromJwks({ keys: set.map((key) => ({ ...key, retired_at: "2020-01-01T00:00:00Z" })) });
    expect(failedStep(await checkCertificate(certificate, late ?? []))?.name).to.equal("key");
  });
});
