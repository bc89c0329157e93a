import { areEqual, hex } from "./bytes.ts";
import { parseNote, publishedKeys, signerOf } from "./signed-note.ts";
import type { Step, StepResult } from "./steps.ts";
import { rootsFromConsistency } from "./tree-walk.ts";

/** A consistency proof as the service answers it. */
export interface AnsweredConsistency {
  readonly from: bigint;
  readonly to: bigint;
  readonly path: readonly Uint8Array[];
  readonly fromRoot: Uint8Array;
  readonly toRoot: Uint8Array;
}

/** Two notes of a log, and the service's proof that the later one continues the earlier one. */
export interface ConsistencyEvidence {
  /** Kept by this browser, whose signature was verified then. */
  readonly earlierNote: string;
  /** Of the checkpoint as it is now, whose signature was verified. */
  readonly laterNote: string;
  /** Undefined when the sizes are equal or nothing was asked. */
  readonly proof: AnsweredConsistency | undefined;
  readonly jwks: unknown;
}

/** Makes the steps that prove that a log only grew since a checkpoint that was kept. */
export function consistencySteps(evidence: ConsistencyEvidence): readonly Step[] {
  return [
    {
      name: "kept",
      title: "The checkpoint that this browser kept is one of this log, and signed",
      run: () => checkKept(evidence),
    },
    {
      name: "growth",
      title: "The log has every entry that it had then, unchanged and in the same order",
      run: () => checkGrowth(evidence),
    },
  ];
}

async function checkKept({ earlierNote, laterNote, jwks }: ConsistencyEvidence): Promise<StepResult> {
  const [earlier, later] = [parseNote(earlierNote), parseNote(laterNote)];
  const compared = [
    { label: "Size then", value: String(earlier.treeSize) },
    { label: "Root then", value: hex(earlier.root) },
  ];
  if (earlier.origin !== later.origin) {
    const fault = `the log was named ${earlier.origin} and is named ${later.origin} now`;
    return { compared, fault };
  }
  const signer = await signerOf(earlier, await publishedKeys(jwks));
  const fault =
    "the key that signed the kept checkpoint is no longer published, so another log may have taken its place";
  return { compared, fault: signer === undefined ? fault : undefined };
}

async function checkGrowth({ earlierNote, laterNote, proof }: ConsistencyEvidence): Promise<StepResult> {
  const [earlier, later] = [parseNote(earlierNote), parseNote(laterNote)];
  const [from, to] = [earlier.treeSize, later.treeSize];
  const compared = [
    { label: "Size now", value: String(to) },
    { label: "Root now", value: hex(later.root) },
  ];
  if (from > to) return { compared, fault: `the log was cut off: it had ${from} entries and has ${to}` };
  if (from === 0) return { compared };
  if (from === to) {
    const fault = "the log was rewritten: it has as many entries as then, and another root";
    return { compared, fault: areEqual(earlier.root, later.root) ? undefined : fault };
  }
  if (proof === undefined) return { compared, fault: "the service gave no consistency proof" };
  return { compared, fault: await proofFault(proof, { from, to, fromRoot: earlier.root, toRoot: later.root }) };
}

/** The sizes and roots that two signed notes say. */
interface SignedEnds {
  readonly from: number;
  readonly to: number;
  readonly fromRoot: Uint8Array;
  readonly toRoot: Uint8Array;
}

async function proofFault(proof: AnsweredConsistency, ends: SignedEnds): Promise<string | undefined> {
  const { from, to, fromRoot, toRoot } = ends;
  const isOfThese = proof.from === BigInt(from) && proof.to === BigInt(to);
  if (!isOfThese)
    return `the service proved growth from ${proof.from} to ${proof.to} entries, not from ${from} to ${to}`;
  if (!areEqual(proof.fromRoot, fromRoot))
    return `the log was rewritten: its first ${from} entries have another root now`;
  if (!areEqual(proof.toRoot, toRoot)) return "the proof leads to another root than the signed one";
  const roots = await rootsFromConsistency({ ...ends, path: proof.path });
  if (roots === undefined) return "the proof has the wrong length for these sizes";
  const isProven = areEqual(roots.earlier, fromRoot) && areEqual(roots.later, toRoot);
  return isProven ? undefined : `the service does not prove that its ${to} entries begin with the ${from} from then`;
}
