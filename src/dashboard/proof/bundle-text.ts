import { base64 } from "./bytes.ts";
import type { AnsweredEntry, AnsweredProof } from "./check-decision.ts";
import { type PublishedKey, pemOf } from "./signed-note.ts";

/** First member of the bundles that `agentctl vault verify` reads. */
const DECISION_FORMAT = "agent-control-plane.decision/1";
const LOG_FORMAT = "agent-control-plane.log/1";

/** Writes a decision with its proof as a bundle that `agentctl vault verify` takes. */
export function decisionBundle(body: string, proof: AnsweredProof, note: string, key: PublishedKey): string {
  const bundle = {
    ...{ format: DECISION_FORMAT, body, leaf_index: Number(proof.leafIndex) },
    audit_path: proof.auditPath.map(base64),
    ...{ checkpoint: note, public_keys: [pemOf(key)] },
  };
  return `${JSON.stringify(bundle)}\n`;
}

/** Writes the first line of a log bundle. */
export const logBundleHead = (note: string, key: PublishedKey): string =>
  `${JSON.stringify({ format: LOG_FORMAT, checkpoint: note, public_keys: [pemOf(key)] })}\n`;

/** Writes the line of an entry in a log bundle. */
export const logBundleLine = ({ index, leafHash, body }: AnsweredEntry): string =>
  `${JSON.stringify({ index: Number(index), leaf_hash: base64(leafHash), body })}\n`;
