import { areEqual, hex } from "./bytes.ts";
import {
  NoteFault,
  type ParsedNote,
  type PublishedKey,
  parseNote,
  publishedKeys,
  signerOf,
  verifierKeyOf,
} from "./signed-note.ts";
import type { Step, StepResult } from "./steps.ts";

/** A checkpoint as the service answers it. */
export interface AnsweredCheckpoint {
  readonly origin: string;
  readonly treeSize: bigint;
  readonly rootHash: Uint8Array;
  readonly note: string;
  readonly verifierKey: string;
}

/** A checkpoint and what is needed to verify it. */
export interface CheckpointEvidence {
  readonly checkpoint: AnsweredCheckpoint;
  /** The workspace whose log it has to be. */
  readonly workspaceId: string;
  /** The key set of `/.well-known/jwks.json`. */
  readonly jwks: unknown;
}

/** What the steps of a checkpoint find, for steps after them. */
export interface CheckpointFindings {
  note?: ParsedNote;
  signer?: PublishedKey;
}

/** Returns the parsed note of a step before. Throws when there is none. */
export function noteOf({ note }: CheckpointFindings): ParsedNote {
  if (note === undefined) throw new NoteFault("the checkpoint was not read");
  return note;
}

/** Makes the steps that verify a checkpoint: its note says what the answer says, and a published key signed it. */
export function checkpointSteps(evidence: CheckpointEvidence, findings: CheckpointFindings): readonly Step[] {
  return [
    {
      name: "checkpoint",
      title: "The signed checkpoint names this workspace's log, its size and its root",
      run: async () => compareNote(evidence, findings),
    },
    {
      name: "signature",
      title: "A key that the service publishes signed the checkpoint (ECDSA P-256, SHA-256)",
      run: () => verifySignature(evidence, findings),
    },
  ];
}

function compareNote({ checkpoint, workspaceId }: CheckpointEvidence, findings: CheckpointFindings): StepResult {
  const note = parseNote(checkpoint.note);
  findings.note = note;
  const compared = [
    { label: "Log in the note", value: note.origin },
    { label: "Size in the note", value: String(note.treeSize) },
    { label: "Root in the note", value: hex(note.root) },
  ];
  return { compared, fault: noteFault(note, checkpoint, workspaceId) };
}

function noteFault(note: ParsedNote, checkpoint: AnsweredCheckpoint, workspaceId: string): string | undefined {
  if (!note.origin.endsWith(`/vault/${workspaceId}`)) return `the note is of another log than workspace ${workspaceId}`;
  if (note.origin !== checkpoint.origin) return "the answer names another log than the note";
  if (BigInt(note.treeSize) !== checkpoint.treeSize) return "the answer names another size than the note";
  if (!areEqual(note.root, checkpoint.rootHash)) return "the answer names another root than the note";
  return undefined;
}

async function verifySignature({ checkpoint, jwks }: CheckpointEvidence, findings: CheckpointFindings) {
  const note = noteOf(findings);
  const keys = await publishedKeys(jwks);
  const signer = await signerOf(note, keys);
  if (signer === undefined) {
    const count = keys.length === 1 ? "the one key" : `any of the ${keys.length} keys`;
    const fault = `the note is not signed by ${count} that /.well-known/jwks.json publishes`;
    return { compared: note.signatures.map(({ keyId }) => ({ label: "Key named in the note", value: keyId })), fault };
  }
  findings.signer = signer;
  const compared = [
    { label: "Key id (RFC 7638)", value: signer.thumbprint },
    { label: "Fingerprint (SHA-256)", value: signer.fingerprint },
    {
      label: "Published at",
      value: "/.well-known/jwks.json of this service: compare the fingerprint with the one you know",
    },
  ];
  return { compared, fault: signerFault(signer, checkpoint) };
}

function signerFault(signer: PublishedKey, { origin, verifierKey }: AnsweredCheckpoint): string | undefined {
  if (signer.kid !== signer.thumbprint) return "the key set gives the key an id that is not its thumbprint";
  if (verifierKey !== verifierKeyOf(origin, signer))
    return "the answer names another verifier key than the one that signed";
  return undefined;
}
