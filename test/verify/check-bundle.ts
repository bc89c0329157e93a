import { bundleHeadFrom, DECISION_FORMAT, decisionProofFrom, entryFrom } from "../../src/verify/bundle.ts";
import { verifyCheckpoint } from "../../src/verify/checkpoint.ts";
import { verifyDecision } from "../../src/verify/decision.ts";
import type { LogEntry } from "../../src/verify/entry.ts";
import type { JsonRecord } from "../../src/verify/json.ts";
import { LogCheck } from "../../src/verify/log-check.ts";
import { publicKeyFromPem } from "../../src/verify/public-key.ts";
import { VerificationError, type VerificationFault } from "../../src/verify/verification-error.ts";

/** The outcome of a check, as it can leave a page. */
export type Verdict =
  | { readonly verified: true }
  | { readonly verified: false; readonly fault: VerificationFault; readonly index: number | null };

/** Checks a bundle in memory with one trusted key. Runs in browsers. */
export async function checkBundle(text: string, pinned: string): Promise<Verdict> {
  try {
    await verify(text, pinned);
    return { verified: true };
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    return { verified: false, fault: error.fault, index: error.index };
  }
}

async function verify(text: string, pinned: string): Promise<void> {
  const [first = "", ...lines] = text.trimEnd().split("\n");
  const head = JSON.parse(first) as JsonRecord;
  const key = await publicKeyFromPem(pinned);
  const checkpoint = await verifyCheckpoint((await bundleHeadFrom(head)).checkpoint, key === undefined ? [] : [key]);
  if (head.format === DECISION_FORMAT) await verifyDecision(decisionProofFrom(head), checkpoint);
  else await new LogCheck(checkpoint).run(entriesOf(lines));
}

async function* entriesOf(lines: readonly string[]): AsyncGenerator<LogEntry> {
  for (const [at, line] of lines.entries()) yield entryFrom(JSON.parse(line), `line ${at + 2}`);
}
