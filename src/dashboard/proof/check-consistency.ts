import { hex } from "../../verify/bytes.ts";
import { parseCheckpoint, verifyCheckpoint } from "../../verify/checkpoint.ts";
import { type AnsweredConsistency, assertGrown, assertSameLog } from "../../verify/consistency.ts";
import { publicKeysFromJwks } from "../../verify/public-key.ts";
import { holdsIf, type Step, type StepResult } from "./steps.ts";

/** Two notes of a log, and the service's proof that the later one extends the earlier one. */
export interface ConsistencyEvidence {
  /** Note kept by this browser; its signature was verified at the time. */
  readonly earlierNote: string;
  /** Note of the current checkpoint; its signature was verified. */
  readonly laterNote: string;
  /** Undefined if the sizes are equal or the earlier log was empty. */
  readonly proof: AnsweredConsistency | undefined;
  readonly jwks: unknown;
}

/** Makes the steps that prove that a log only grew since a kept checkpoint. */
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
