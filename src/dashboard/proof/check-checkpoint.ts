import { hex } from "../../verify/bytes.ts";
import {
  type AnsweredCheckpoint,
  assertSameAsNote,
  assertVerifierKey,
  type Checkpoint,
  isLogOf,
  parseCheckpoint,
  type SignedCheckpoint,
  verifyCheckpoint,
} from "../../verify/checkpoint.ts";
import { publicKeysFromJwks } from "../../verify/public-key.ts";
import { parseNote } from "../../verify/signed-note.ts";
import { holdsIf, type Step, type StepResult } from "./steps.ts";

/** A checkpoint and the data that verifies it. */
export interface CheckpointEvidence {
  readonly checkpoint: AnsweredCheckpoint;
  /** Workspace that the log has to belong to. */
  readonly workspaceId: string;
  /** The key set of `/.well-known/jwks.json`. */
  readonly jwks: unknown;
}

/** Results of the checkpoint's steps, for later steps. */
export interface CheckpointFindings {
  signed?: SignedCheckpoint;
}

/** Makes the steps that verify a checkpoint: its note matches the answer, and a published key signed it. */
export function checkpointSteps(evidence: CheckpointEvidence, findings: CheckpointFindings): readonly Step[] {
  return [
    {
      name: "checkpoint",
      title: "The signed checkpoint names this workspace's log, its size and its root",
      run: async () => compareNote(evidence),
    },
    {
      name: "signature",
      title: "A key that the service publishes signed the checkpoint (ECDSA P-256, SHA-256)",
      run: () => verifySignature(evidence, findings),
    },
  ];
}

function compareNote({ checkpoint: answered, workspaceId }: CheckpointEvidence): Promise<StepResult> {
  const checkpoint = parseCheckpoint(answered.note);
  const compared = [
    { label: "Log in the note", value: checkpoint.origin },
    { label: "Size in the note", value: String(checkpoint.treeSize) },
    { label: "Root in the note", value: hex(checkpoint.root) },
  ];
  return holdsIf(compared, () => {
    assertLogOf(checkpoint, workspaceId);
    assertSameAsNote(answered, checkpoint);
  });
}

function assertLogOf({ origin }: Checkpoint, workspaceId: string): void {
  if (!isLogOf(origin, workspaceId)) throw new Error(`the note is of another log than workspace ${workspaceId}`);
}

async function verifySignature(
  { checkpoint: answered, jwks }: CheckpointEvidence,
  findings: CheckpointFindings,
): Promise<StepResult> {
  const keys = (await publicKeysFromJwks(jwks)) ?? [];
  const named = parseNote(answered.note).signatures.map(({ keyId }) => ({
    label: "Key named in the note",
    value: keyId,
  }));
  let key: SignedCheckpoint["key"] | undefined;
  const { fault } = await holdsIf([], async () => {
    findings.signed = await verifyCheckpoint(answered.note, keys);
    key = findings.signed.key;
    assertVerifierKey(answered, key);
  });
  if (key === undefined) return { compared: named, fault };
  const compared = [
    { label: "Key id (RFC 7638)", value: key.thumbprint },
    { label: "Fingerprint (SHA-256)", value: key.fingerprint.replace("sha256:", "") },
    {
      label: "Published at",
      value: "/.well-known/jwks.json of this service: compare the fingerprint with the one you know",
    },
  ];
  return { compared, fault };
}
