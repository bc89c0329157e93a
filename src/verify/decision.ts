import type { SignedCheckpoint } from "./checkpoint.ts";
import { assertWorkspace, parseEntry } from "./entry.ts";
import { assertLeadsTo } from "./inclusion.ts";
import { isJsonRecord, type JsonRecord, valueAt } from "./json.ts";
import { hashOfLeaf, rootFromInclusion } from "./merkle.ts";
import { assertSignedInTime } from "./public-key.ts";
import { VerificationError } from "./verification-error.ts";

/** Entry of a decision with its inclusion proof. */
export interface DecisionProof {
  /** Exact text that was hashed. */
  readonly body: string;
  readonly leafIndex: number;
  /** Sibling hashes from the leaf up to the root. */
  readonly auditPath: readonly Uint8Array[];
}

/**
 * Verifies that a decision is an entry of the log at its index, by a checkpoint whose signature MUST have been verified.
 * Returns the parsed body. Throws `VerificationError`.
 */
export async function verifyDecision(
  { body: text, leafIndex, auditPath }: DecisionProof,
  { treeSize, root, origin, key }: SignedCheckpoint,
): Promise<JsonRecord> {
  assertLeadsTo(root, await rootFromInclusion(await hashOfLeaf(text), { leafIndex, treeSize, auditPath }), leafIndex);
  const body = parseEntry(text, leafIndex);
  if (body.type !== "decision") throw new VerificationError("malformed", `entry ${leafIndex} is no decision`);
  assertWorkspace(body, origin, leafIndex);
  assertSignedInTime(key, "the decision", body.at);
  return body;
}

/** Arguments and other metadata of an action. */
export interface ActionParts {
  readonly arguments: JsonRecord | undefined;
  readonly metadata: JsonRecord | undefined;
}

/** Splits the metadata of a sealed action as typed rules read it. */
export function actionPartsOf(body: JsonRecord): ActionParts {
  const metadata = valueAt(body, "action.metadata");
  if (!isJsonRecord(metadata)) return { arguments: undefined, metadata: undefined };
  const nested = valueAt(metadata, "arguments");
  if (!isJsonRecord(nested)) return { arguments: unlessEmpty(metadata), metadata: undefined };
  const { arguments: _arguments, tool: _tool, ...rest } = metadata;
  return { arguments: unlessEmpty(nested), metadata: unlessEmpty(rest) };
}

const unlessEmpty = (object: JsonRecord): JsonRecord | undefined =>
  Object.keys(object).length === 0 ? undefined : object;
