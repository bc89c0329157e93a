import { createHash, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { createCheckpoints } from "../../src/log/checkpoint.ts";
import { canonicalJson, type JsonObject, type JsonValue } from "../../src/tree/canonical.ts";

/** An entry as a log bundle holds it. */
export interface BundleEntry {
  readonly index: number;
  readonly leaf_hash: string;
  readonly body: string;
}

/** A log on paper, written and signed as the service does it. */
export interface WrittenLog {
  readonly entries: readonly BundleEntry[];
  readonly publicPem: string;
  /** The signed note of a size, by default of all. */
  checkpoint(size?: number): string;
  /** RFC 9162 §2.1.3.1, as the definition reads. */
  auditPath(index: number, size?: number): string[];
}

export const ORIGIN = "log.example";
export const WORKSPACE = "default";

const sha256 = (...parts: readonly Uint8Array[]): Buffer => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** RFC 9162 §2.1.1. */
export const leafOf = (body: string): Buffer => sha256(Uint8Array.of(0), Buffer.from(body));

function splitOf(size: number): number {
  let split = 1;
  while (split * 2 < size) split *= 2;
  return split;
}

/** The root of a tree, by the definition. */
export function rootOf(leaves: readonly Buffer[]): Buffer {
  if (leaves.length === 0) return sha256();
  if (leaves.length === 1) return leaves[0] as Buffer;
  const split = splitOf(leaves.length);
  return sha256(Uint8Array.of(1), rootOf(leaves.slice(0, split)), rootOf(leaves.slice(split)));
}

/** The audit path of a leaf, by the definition. */
export function pathOf(index: number, leaves: readonly Buffer[]): Buffer[] {
  if (leaves.length === 1) return [];
  const split = splitOf(leaves.length);
  if (index < split) return [...pathOf(index, leaves.slice(0, split)), rootOf(leaves.slice(split))];
  return [...pathOf(index - split, leaves.slice(split)), rootOf(leaves.slice(0, split))];
}

/** RFC 9162 §2.1.4.1, by the definition; `isWhole` while the earlier tree is a subtree as it stands. */
export function consistencyPathOf(from: number, leaves: readonly Buffer[], isWhole = true): Buffer[] {
  if (from === leaves.length) return isWhole ? [] : [rootOf(leaves)];
  const split = splitOf(leaves.length);
  if (from <= split) return [...consistencyPathOf(from, leaves.slice(0, split), isWhole), rootOf(leaves.slice(split))];
  return [...consistencyPathOf(from - split, leaves.slice(split), false), rootOf(leaves.slice(0, split))];
}

/** Makes a signing key. */
export function newKey(): { readonly privateKey: KeyObject; readonly publicPem: string } {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  return { privateKey, publicPem: publicKey.export({ type: "spki", format: "pem" }).toString() };
}

/** A body before it has a place. */
export type Draft = { readonly type: string } & JsonObject;

/** Drafts of decisions, each with an id of its own. */
export function decisions(count: number): Draft[] {
  return Array.from({ length: count }, (_, at) => ({
    type: "decision",
    decision_id: `dec_${at}`,
    decision: at % 3 === 0 ? "block" : "allow",
    action: { action_content: `pay 1,5 € – ${at}\u2028`, agent_id: "agt_1" },
    trust: { after: 50.2, before: 50 },
  }));
}

/** How a log is written. */
export interface WriteOptions {
  readonly key?: ReturnType<typeof newKey>;
  /** Entries that are sealed together, one batch after the other; the last size goes on. */
  readonly batches?: readonly number[];
  /** Rewrites a body after it was sealed and before it is hashed, as a writer gone wrong would. */
  readonly distort?: (body: string, index: number) => string;
}

const atOf = (index: number): string => new Date(Date.UTC(2026, 0, 1) + index * 500).toISOString();

/** Writes a log of drafts. */
export function writeLog(
  drafts: readonly Draft[],
  { key = newKey(), batches = [1], distort }: WriteOptions = {},
): WrittenLog {
  const leaves: Buffer[] = [];
  const sizes = [...batches];
  const entries: BundleEntry[] = [];
  while (entries.length < drafts.length) {
    const start = entries.length;
    const size = (sizes.length > 1 ? sizes.shift() : sizes[0]) ?? 1;
    const previous = { previous_root: rootOf(leaves).toString("base64"), previous_size: start };
    for (const [at, draft] of drafts.slice(start, start + size).entries()) {
      const index = start + at;
      const sealed = { ...draft, ...previous, seq: index, at: atOf(index), workspace_id: WORKSPACE };
      const body = distort?.(canonicalJson(sealed as JsonValue), index) ?? canonicalJson(sealed as JsonValue);
      leaves.push(leafOf(body));
      entries.push({ index, leaf_hash: leafOf(body).toString("base64"), body });
    }
  }
  const signer = { publicPem: key.publicPem, sign: (bytes: Uint8Array) => sign("sha256", bytes, key.privateKey) };
  const signCheckpoint = createCheckpoints(ORIGIN, signer);
  return {
    entries,
    publicPem: key.publicPem,
    checkpoint: (size = entries.length) => signCheckpoint(WORKSPACE, size, rootOf(leaves.slice(0, size))).note,
    auditPath: (index, size = entries.length) =>
      pathOf(index, leaves.slice(0, size)).map((hash) => hash.toString("base64")),
  };
}
