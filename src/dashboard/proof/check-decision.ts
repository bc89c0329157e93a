import type { JsonObject } from "@bufbuild/protobuf";
import { hex } from "../../verify/bytes.ts";
import { assertAnswers } from "../../verify/contradictions.ts";
import { type LogEntry, parseEntry } from "../../verify/entry.ts";
import {
  type AnsweredProof,
  assertCheckpoint,
  assertLeadsTo,
  assertSameLeaf,
  assertSamePlace,
  assertSigns,
  rootReached,
} from "../../verify/inclusion.ts";
import { numberAt, parseCanonicalObject, textAt } from "../../verify/json.ts";
import { hashOfLeaf } from "../../verify/merkle.ts";
import { assertSignedInTime } from "../../verify/public-key.ts";
import { type CheckpointFindings, checkpointSteps } from "./check-checkpoint.ts";
import { holdsIf, type Step, type StepResult } from "./steps.ts";

/** An entry in an answer of the service. */
export interface AnsweredEntry {
  readonly index: bigint;
  readonly leafHash: Uint8Array;
  /** Exact text that was hashed. */
  readonly body: string;
}

/** Converts an answered entry to the form of the verifier. */
export const entryOf = ({ index, leafHash, body }: AnsweredEntry): LogEntry => ({
  index: Number(index),
  leafHash,
  body,
});

/** Untrusted evidence of an entry. */
export interface EntryEvidence {
  readonly entry: AnsweredEntry;
  readonly proof: AnsweredProof;
  readonly workspaceId: string;
  readonly jwks: unknown;
}

/** Evidence of a decision. Only the requested id is trusted. */
export interface DecisionEvidence extends EntryEvidence {
  readonly decisionId: string;
  /** The GetDecision answer as JSON, in snake case. */
  readonly answer: JsonObject;
}

/** Makes the steps that prove a decision, from its sealed text to a signature. */
export function decisionSteps(evidence: DecisionEvidence): readonly Step[] {
  const { entry, decisionId, answer } = evidence;
  return [
    {
      name: "entry",
      title: "The sealed text is this decision, at its place in this workspace's log",
      run: async () => {
        const { compared, fault } = await compareEntry(evidence);
        const body = parseCanonicalObject(entry.body);
        const named = textAt(body, "decision_id");
        const isNamed = named === decisionId && textAt(body, "type") === "decision";
        const other = isNamed ? undefined : `the sealed text is of \`${named || "no decision"}\`, not of ${decisionId}`;
        return { compared: [{ label: "Decision in the text", value: named }, ...compared], fault: fault ?? other };
      },
    },
    {
      name: "answer",
      title: "The service's answer says what the sealed text says",
      run: () => compareAnswer(answer, entry),
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
      run: () => compareEntry(evidence),
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
    const run = () => holdsIf([], () => void assertCheckpoint(proof));
    return [leaf, path, { name: "checkpoint", title: "The answer has a signed checkpoint", run }];
  }
  return [
    leaf,
    path,
    ...checkpointSteps({ checkpoint, workspaceId, jwks }, findings),
    {
      name: "root",
      title: "The signed root is the one that the proof leads to, and its key was not retired before",
      run: () => compareRoot(evidence, findings),
    },
  ];
}

async function compareEntry({ entry, proof, workspaceId }: EntryEvidence): Promise<StepResult> {
  const body = parseEntry(entry.body, Number(entry.index));
  const sealedFor = textAt(body, "workspace_id");
  const compared = [
    { label: "Place in the text", value: String(numberAt(body, "seq")) },
    { label: "Place in the proof", value: String(proof.leafIndex) },
    { label: "Workspace in the text", value: sealedFor },
  ];
  return holdsIf(compared, () => {
    if (sealedFor !== workspaceId) throw new Error(`the entry belongs to workspace \`${sealedFor}\``);
    assertSamePlace(entryOf(entry), proof);
  });
}

async function compareAnswer(answer: JsonObject, { body, index }: AnsweredEntry): Promise<StepResult> {
  assertAnswers(answer, parseEntry(body, Number(index)));
  return { compared: [{ label: "Members that differ", value: "none" }] };
}

async function compareLeaf({ entry, proof }: EntryEvidence): Promise<StepResult> {
  const leaf = await hashOfLeaf(entry.body);
  const compared = [
    { label: "Hashed here", value: hex(leaf) },
    { label: "In the entry", value: hex(entry.leafHash) },
    { label: "In the proof", value: hex(proof.leafHash) },
  ];
  return holdsIf(compared, () => assertSameLeaf(leaf, entryOf(entry), proof));
}

async function walk({ entry, proof }: EntryEvidence): Promise<StepResult> {
  const root = await rootReached(await hashOfLeaf(entry.body), proof);
  const compared = [
    { label: "Hashes on the way", value: String(proof.auditPath.length) },
    { label: "Root reached here", value: root === undefined ? "none" : hex(root) },
    { label: "Root in the proof", value: hex(proof.rootHash) },
  ];
  return holdsIf(compared, () => assertLeadsTo(proof.rootHash, root, Number(entry.index)));
}

async function compareRoot({ entry, proof }: EntryEvidence, { signed }: CheckpointFindings): Promise<StepResult> {
  if (signed === undefined) throw new Error("the checkpoint was not verified");
  const compared = [
    { label: "Signed root", value: hex(signed.root) },
    { label: "Root in the proof", value: hex(proof.rootHash) },
    { label: "Size", value: String(signed.treeSize) },
  ];
  return holdsIf(compared, () => {
    assertSigns(signed, proof);
    assertSignedInTime(signed.key, "the entry", textAt(parseCanonicalObject(entry.body), "at"));
  });
}
