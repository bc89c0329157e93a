import type { JsonObject } from "@bufbuild/protobuf";
import { areEqual, hex } from "./bytes.ts";
import { type AnsweredCheckpoint, type CheckpointFindings, checkpointSteps, noteOf } from "./check-checkpoint.ts";
import { contradictions } from "./contradictions.ts";
import { numberAt, parseSealed, textAt } from "./sealed-text.ts";
import type { Step, StepResult } from "./steps.ts";
import { hashOfLeaf, rootFromInclusion } from "./tree-walk.ts";

/** An entry as the service answers it. */
export interface AnsweredEntry {
  readonly index: bigint;
  readonly leafHash: Uint8Array;
  /** The exact text that was hashed. */
  readonly body: string;
}

/** An inclusion proof as the service answers it. */
export interface AnsweredProof {
  readonly leafIndex: bigint;
  readonly leafHash: Uint8Array;
  readonly treeSize: bigint;
  readonly auditPath: readonly Uint8Array[];
  readonly rootHash: Uint8Array;
  readonly checkpoint?: AnsweredCheckpoint | undefined;
}

/** Everything that proves an entry. Nothing of it is trusted. */
export interface EntryEvidence {
  readonly entry: AnsweredEntry;
  readonly proof: AnsweredProof;
  readonly workspaceId: string;
  readonly jwks: unknown;
}

/** Everything that proves a decision. Nothing of it is trusted but the id that was asked for. */
export interface DecisionEvidence extends EntryEvidence {
  readonly decisionId: string;
  /** The GetDecision answer as JSON, in snake case. */
  readonly answer: JsonObject;
}

/** Makes the steps that prove a decision from its sealed text to a signature. */
export function decisionSteps(evidence: DecisionEvidence): readonly Step[] {
  const { entry, decisionId, answer } = evidence;
  return [
    {
      name: "entry",
      title: "The sealed text is this decision, at its place in this workspace's log",
      run: async () => {
        const { compared, fault } = compareEntry(evidence);
        const body = parseSealed(entry.body);
        const named = textAt(body, "decision_id");
        const isNamed = named === decisionId && textAt(body, "type") === "decision";
        const other = isNamed ? undefined : `the sealed text is of \`${named || "no decision"}\`, not of ${decisionId}`;
        return { compared: [{ label: "Decision in the text", value: named }, ...compared], fault: fault ?? other };
      },
    },
    {
      name: "answer",
      title: "The service's answer says what the sealed text says",
      run: async () => compareAnswer(answer, entry.body),
    },
    ...treeSteps(evidence),
  ];
}

/** Makes the steps that prove any entry of the log. */
export function entrySteps(evidence: EntryEvidence): readonly Step[] {
  return [
    {
      name: "entry",
      title: "The sealed text is canonical, and at its place in this workspace's log",
      run: async () => compareEntry(evidence),
    },
    ...treeSteps(evidence),
  ];
}

function treeSteps(evidence: EntryEvidence): readonly Step[] {
  const { proof, workspaceId, jwks } = evidence;
  const findings: CheckpointFindings = {};
  const path: Step = {
    name: "path",
    title: "The proof leads from the leaf to the root (RFC 9162)",
    run: () => walk(evidence),
  };
  const leaf: Step = {
    name: "leaf",
    title: "The text hashes to the leaf of the tree (SHA-256 of 0x00 and the text)",
    run: () => compareLeaf(evidence),
  };
  const { checkpoint } = proof;
  if (checkpoint === undefined) {
    const run = async () => ({ compared: [], fault: "the answer has no checkpoint" });
    return [leaf, path, { name: "checkpoint", title: "The answer has a signed checkpoint", run }];
  }
  return [
    ...[leaf, path, ...checkpointSteps({ checkpoint, workspaceId, jwks }, findings)],
    {
      name: "root",
      title: "The signed root is the one that the proof leads to, and its key was not retired before",
      run: async () => compareRoot(evidence, findings),
    },
  ];
}

function compareEntry({ entry, proof, workspaceId }: EntryEvidence): StepResult {
  const body = parseSealed(entry.body);
  if (body === undefined) return { compared: [], fault: "the sealed text is no canonical JSON object (RFC 8785)" };
  const [seq, sealedFor] = [numberAt(body, "seq"), textAt(body, "workspace_id")];
  const compared = [
    { label: "Place in the text", value: String(seq) },
    { label: "Place in the proof", value: String(proof.leafIndex) },
    { label: "Workspace in the text", value: sealedFor },
  ];
  if (sealedFor !== workspaceId) return { compared, fault: `the entry belongs to workspace \`${sealedFor}\`` };
  const isPlaced = seq !== undefined && BigInt(seq) === proof.leafIndex && proof.leafIndex === entry.index;
  return { compared, fault: isPlaced ? undefined : "the text, the answer and the proof name different places" };
}

function compareAnswer(answer: JsonObject, text: string): StepResult {
  const different = contradictions(answer, parseSealed(text) ?? {});
  if (different.length === 0) return { compared: [{ label: "Members that differ", value: "none" }] };
  const named = different.slice(0, 5).map((path) => `\`${path}\``);
  return { compared: [], fault: `the answer and the sealed text differ in ${named.join(", ")}` };
}

async function compareLeaf({ entry, proof }: EntryEvidence): Promise<StepResult> {
  const leaf = await hashOfLeaf(entry.body);
  const compared = [
    { label: "Hashed here", value: hex(leaf) },
    { label: "In the entry", value: hex(entry.leafHash) },
    { label: "In the proof", value: hex(proof.leafHash) },
  ];
  const isSame = areEqual(leaf, entry.leafHash) && areEqual(leaf, proof.leafHash);
  return { compared, fault: isSame ? undefined : "the text hashes to another leaf: it was changed, or the leaf was" };
}

async function walk({ entry, proof }: EntryEvidence): Promise<StepResult> {
  const root = await rootFromInclusion({
    ...{ leaf: await hashOfLeaf(entry.body), leafIndex: Number(proof.leafIndex) },
    ...{ treeSize: Number(proof.treeSize), path: proof.auditPath },
  });
  const compared = [
    { label: "Hashes on the way", value: String(proof.auditPath.length) },
    { label: "Root reached here", value: root === undefined ? "none" : hex(root) },
    { label: "Root in the proof", value: hex(proof.rootHash) },
  ];
  if (root === undefined) return { compared, fault: "the proof has the wrong length for its place in the tree" };
  return { compared, fault: areEqual(root, proof.rootHash) ? undefined : "the proof leads to another root" };
}

function compareRoot({ entry, proof }: EntryEvidence, findings: CheckpointFindings): StepResult {
  const note = noteOf(findings);
  const compared = [
    { label: "Signed root", value: hex(note.root) },
    { label: "Root in the proof", value: hex(proof.rootHash) },
    { label: "Size", value: String(note.treeSize) },
  ];
  if (BigInt(note.treeSize) !== proof.treeSize)
    return { compared, fault: "the checkpoint signs a tree of another size" };
  if (!areEqual(note.root, proof.rootHash)) return { compared, fault: "the checkpoint signs another root" };
  const { retiredAtMs, thumbprint = "" } = findings.signer ?? {};
  const at = textAt(parseSealed(entry.body), "at");
  const isLate = retiredAtMs !== undefined && !(Date.parse(at) <= retiredAtMs);
  return {
    compared,
    fault: isLate ? `the entry is of ${at}, and the key ${thumbprint} was retired before` : undefined,
  };
}
