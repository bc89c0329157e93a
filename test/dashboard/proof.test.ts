import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type JsonObject, toJson } from "@bufbuild/protobuf";
import { expect } from "chai";
import { GetDecisionResponseSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { openBundle } from "../../src/cli/bundle.ts";
import { publicKeysFromJwks, verifyCheckpoint } from "../../src/cli/verify/checkpoint.ts";
import { verifyDecision } from "../../src/cli/verify/log-check.ts";
import { decisionBundle, logBundleHead, logBundleLine } from "../../src/dashboard/proof/bundle-text.ts";
import { checkpointSteps } from "../../src/dashboard/proof/check-checkpoint.ts";
import { type ConsistencyEvidence, consistencySteps } from "../../src/dashboard/proof/check-consistency.ts";
import {
  type AnsweredProof,
  type DecisionEvidence,
  decisionSteps,
  entrySteps,
} from "../../src/dashboard/proof/check-decision.ts";
import { canonicalText, parseSealed } from "../../src/dashboard/proof/sealed-text.ts";
import { parseNote, publishedKeys, rawSignature } from "../../src/dashboard/proof/signed-note.ts";
import { failedStep, runSteps } from "../../src/dashboard/proof/steps.ts";
import { hashOfLeaf, isConsistent, rootFromInclusion } from "../../src/dashboard/proof/tree-walk.ts";
import { canonicalJson } from "../../src/tree/canonical.ts";
import { leafHash } from "../../src/tree/merkle.ts";
import { consistencyPath, inclusionPath, rangeRoot } from "../../src/tree/proofs.ts";
import { openWorkspace, type TestWorkspace, velocityRule } from "../support/harness.ts";

/** Returns copies of a value, each with one thing in it changed, and where. */
function* flips(value: unknown, path = ""): Generator<readonly [string, unknown]> {
  if (typeof value === "string") yield [path, flippedText(value)];
  else if (typeof value === "bigint") yield [path, value + 1n];
  else if (typeof value === "number") yield [path, value + 1];
  else if (typeof value === "boolean") yield [path, !value];
  else if (value instanceof Uint8Array) yield [path, flippedBytes(value)];
  else if (Array.isArray(value)) {
    yield [`${path}.length`, value.slice(1)];
    for (const [at, each] of value.entries())
      for (const [where, flipped] of flips(each, `${path}[${at}]`)) yield [where, value.with(at, flipped)];
  } else if (typeof value === "object" && value !== null) {
    for (const [name, each] of Object.entries(value))
      for (const [where, flipped] of flips(each, `${path}.${name}`)) yield [where, { ...value, [name]: flipped }];
  }
}

function flippedText(text: string): string {
  const at = Math.floor(text.length / 2);
  return `${text.slice(0, at)}${text[at] === "A" ? "B" : "A"}${text.slice(at + 1)}`;
}

function flippedBytes(bytes: Uint8Array): Uint8Array {
  const copy = Uint8Array.from(bytes);
  copy[copy.length - 1] = (copy.at(-1) ?? 0) ^ 1;
  return copy;
}

/** Members that no log seals; the page shows none of them as sealed. */
const UNSEALED = /\.(tool_digest|action_digest|kty|alg|use|key_ops|issuer)$|\.jwks\.keys\.length$/;
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
    expect(parseSealed(evidence.entry.body)?.decision).to.equal("block");
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
    const [key] = await publishedKeys(jwks);
    if (key === undefined || proof.checkpoint === undefined) throw new Error("no key");
    const folder = await mkdtemp(join(tmpdir(), "bundle-"));
    const path = join(folder, "decision.json");
    await writeFile(path, decisionBundle(entry.body, proof, proof.checkpoint.note, key));
    const bundle = await openBundle(path);
    if (bundle.kind !== "decision") throw new Error("another bundle");
    const checkpoint = verifyCheckpoint(bundle.checkpoint, publicKeysFromJwks(jwks) ?? []);
    expect(verifyDecision(bundle.proof, checkpoint).decision_id).to.equal(decisionId);
    expect(bundle.publicKeys[0]?.fingerprint).to.equal(`sha256:${key.fingerprint}`);
    const { entries } = await test.vault.listEntries({ pageSize: 500 });
    await writeFile(path, logBundleHead(proof.checkpoint.note, key) + entries.map(logBundleLine).join(""));
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
});

describe("the walk through a tree in the browser", () => {
  const bodies = Array.from({ length: 40 }, (_, index) => `entry ${index} – ü`);
  const leaves = bodies.map(leafHash);
  const rootOf = (start: number, end: number) =>
    rangeRoot({ start, end }, ({ level, index }) => {
      if (level === 0) return leaves[index] as Uint8Array;
      const [from, size] = [index * 2 ** level, 2 ** level];
      return rootOf2(from, from + size);
    });
  function rootOf2(start: number, end: number): Uint8Array {
    if (end - start === 1) return leaves[start] as Uint8Array;
    const middle = start + (end - start) / 2;
    const parts = [Uint8Array.of(1), rootOf2(start, middle), rootOf2(middle, end)];
    return createHash("sha256").update(Buffer.concat(parts)).digest();
  }

  it("agrees with the tree that the log keeps, at every size.", async () => {
    for (let size = 1; size <= bodies.length; size++) {
      const root = Buffer.from(rootOf(0, size));
      for (let index = 0; index < size; index++) {
        const path = inclusionPath(index, size).map(({ start, end }) => rootOf(start, end));
        const leaf = await hashOfLeaf(bodies[index] ?? "");
        const given = { leaf, leafIndex: index, treeSize: size, path };
        expect(root.equals((await rootFromInclusion(given)) ?? Buffer.of())).to.equal(true);
        const longer = await rootFromInclusion({ ...given, path: [...path, leaf] });
        const shorter = await rootFromInclusion({ ...given, path: path.slice(1) });
        expect(longer).to.equal(undefined);
        if (path.length > 0) expect(shorter === undefined || !root.equals(shorter)).to.equal(true);
      }
    }
  });

  it("agrees with it on what continues what.", async () => {
    for (let to = 1; to <= bodies.length; to++) {
      for (let from = 1; from <= to; from++) {
        const path = consistencyPath(from, to).map(({ start, end }) => rootOf(start, end));
        const given = { from, to, fromRoot: rootOf(0, from), toRoot: rootOf(0, to), path };
        expect(await isConsistent(given), `${from} ${to}`).to.equal(true);
        expect((await isConsistent({ ...given, toRoot: leaves[0] as Uint8Array })) && to > 1).to.equal(false);
        if (path.length > 0) expect(await isConsistent({ ...given, path: path.slice(1) })).to.equal(false);
      }
    }
  });

  it("writes canonical JSON as the log does.", () => {
    const value = { b: [1e21, 0.1, -0, "\u2028\u0007é\ud83d\ude00"], a: { "\ud83d\ude00": 1, "\ufb01": 2, "": null } };
    expect(canonicalText(value)).to.equal(canonicalJson(value));
    expect(parseSealed('{"a":1,"a":1}')).to.equal(undefined);
    expect(parseSealed('{"a":"\\ud800"}')).to.equal(undefined);
    expect(parseSealed("[]")).to.equal(undefined);
  });

  it("takes exact DER alone for a signature.", () => {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
    for (let count = 0; count < 200; count++) {
      const text = Buffer.from(String(count));
      const der = sign("sha256", text, privateKey);
      const raw = rawSignature(der);
      expect(raw?.length).to.equal(64);
      expect(rawSignature(Buffer.concat([der, Buffer.of(0)]))).to.equal(undefined);
      expect(rawSignature(der.subarray(0, -1))).to.equal(undefined);
    }
    expect(rawSignature(Buffer.of())).to.equal(undefined);
    expect(rawSignature(Buffer.from("30060201810201ff", "hex"))).to.equal(undefined);
    expect(rawSignature(Buffer.from("3007020200010201", "hex"))).to.equal(undefined);
  });
});
