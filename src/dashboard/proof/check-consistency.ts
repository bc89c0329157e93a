import { hex } from "../../verify/bytes.ts";
import { parseCheckpoint, verifyCheckpoint } from "../../verify/checkpoint.ts";
import { type AnsweredConsistency, assertGrown, assertSameLog } from "../../verify/consistency.ts";
import { publicKeysFromJwks } from "../../verify/public-key.ts";
import { holdsIf, type Step, type StepResult } from "./steps.ts";

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
  const earlier = parseCheckpoint(earlierNote);
  const compared = [
    { label: "Size then", value: String(earlier.treeSize) },
    { label: "Root then", value: hex(earlier.root) },
  ];
  return holdsIf(compared, async () => {
    assertSameLog(earlier, parseCheckpoint(laterNote));
    await verifyCheckpoint(earlierNote, (await publicKeysFromJwks(jwks)) ?? []);
  });
}

async function checkGrowth({ earlierNote, laterNote, proof }: ConsistencyEvidence): Promise<StepResult> {
  const [earlier, later] = [parseCheckpoint(earlierNote), parseCheckpoint(laterNote)];
  const compared = [
    { label: "Size now", value: String(later.treeSize) },
    { label: "Root now", value: hex(later.root) },
  ];
  return holdsIf(compared, () => assertGrown(earlier, later, proof));
}
