import { base64, bytesFromBase64, HASH_BYTES, hashesFrom } from "./bytes.ts";
import type { DecisionProof } from "./decision.ts";
import type { LogEntry } from "./entry.ts";
import { indexFrom, isJsonRecord, type JsonRecord, required, stringFrom } from "./json.ts";
import { type PublicKey, publicKeyFromPem } from "./public-key.ts";

/** The `format` of a log bundle: a first line with the checkpoint and its keys, then one line per entry. */
export const LOG_FORMAT = "agent-control-plane.log/1";
/** The `format` of a decision bundle: one JSON text. */
export const DECISION_FORMAT = "agent-control-plane.decision/1";

/** Head shared by both kinds of bundle. */
export interface BundleHead {
  /** C2SP note. */
  readonly checkpoint: string;
  /** Untrusted keys of the bundle. */
  readonly publicKeys: readonly PublicKey[];
}

const WHERE = "the bundle";

/** Reads the head of a bundle. Throws `malformed`. */
export async function bundleHeadFrom({ checkpoint, public_keys: pems }: JsonRecord): Promise<BundleHead> {
  const list = required(Array.isArray(pems) ? pems : undefined, WHERE, "`public_keys`");
  const keys = await Promise.all(list.map((pem) => publicKeyFromPem(String(pem))));
  const what = "ECDSA P-256 key in PEM in each of its `public_keys`";
  return {
    publicKeys: keys.map((key) => required(key, WHERE, what)),
    checkpoint: required(stringFrom(checkpoint), WHERE, "`checkpoint`"),
  };
}

/** Reads the proof of a decision bundle. Throws `malformed`. */
export function decisionProofFrom({ body, leaf_index: index, audit_path: path }: JsonRecord): DecisionProof {
  return {
    body: required(stringFrom(body), WHERE, "`body`"),
    leafIndex: required(indexFrom(index), WHERE, "`leaf_index`"),
    auditPath: required(hashesFrom(path), WHERE, "`audit_path` of hashes"),
  };
}

/** Reads an entry from its JSON in a bundle or a response of the service. Throws `malformed`. */
export function entryFrom(value: unknown, where: string): LogEntry {
  const { index, leaf_hash, body } = required(isJsonRecord(value) ? value : undefined, where, "JSON object");
  return {
    index: required(indexFrom(index), where, "`index`"),
    leafHash: required(bytesFromBase64(leaf_hash, HASH_BYTES), where, "`leaf_hash` of 32 bytes in base64"),
    body: required(stringFrom(body), where, "`body`"),
  };
}

/** Writes the first line of a log bundle. */
export function logBundleHead(checkpoint: string, publicKeys: readonly PublicKey[]): string {
  const head = { format: LOG_FORMAT, checkpoint, public_keys: publicKeys.map(({ pem }) => pem) };
  return `${JSON.stringify(head)}\n`;
}

/** Writes the line of an entry in a log bundle. */
export function logBundleLine({ index, leafHash, body }: LogEntry): string {
  return `${JSON.stringify({ index, leaf_hash: base64(leafHash), body })}\n`;
}

/** Writes a decision bundle. */
export function decisionBundleText(proof: DecisionProof, checkpoint: string, publicKeys: readonly PublicKey[]): string {
  const bundle = {
    format: DECISION_FORMAT,
    body: proof.body,
    leaf_index: proof.leafIndex,
    audit_path: proof.auditPath.map(base64),
    checkpoint,
    public_keys: publicKeys.map(({ pem }) => pem),
  };
  return `${JSON.stringify(bundle)}\n`;
}
