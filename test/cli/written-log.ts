import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { createCheckpoints } from "../../src/log/checkpoint.ts";
import { canonicalJson, type JsonObject, type JsonValue } from "../../src/tree/canonical.ts";
import { naiveLeaf, naiveTree } from "../log/naive-tree.ts";

/** An entry as a log bundle holds it. */
export interface BundleEntry {
  readonly index: number;
  readonly leaf_hash: string;
  readonly body: string;
}

/** A log that was written and signed as the service does it. */
export interface WrittenLog {
  readonly entries: readonly BundleEntry[];
  readonly publicPem: string;
  /** The signed note of a size, by default of all. */
  checkpoint(size?: number): string;
  /** The audit path of an entry in base64. */
  auditPath(index: number, size?: number): string[];
}

export const ORIGIN = "log.example";
export const WORKSPACE = "default";

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
  /** The workspace in the log's name. Default: the one of its entries. */
  readonly named?: string;
  /** Rewrites a body after it was sealed and before it is hashed, as a writer gone wrong would. */
  readonly distort?: (body: string, index: number) => string;
}

const atOf = (index: number): string => new Date(Date.UTC(2026, 0, 1) + index * 500).toISOString();

/** Writes a log of drafts. */
export function writeLog(
  drafts: readonly Draft[],
  { key = newKey(), batches = [1], named = WORKSPACE, distort }: WriteOptions = {},
): WrittenLog {
  const leaves: Buffer[] = [];
  const sizes = [...batches];
  const entries: BundleEntry[] = [];
  while (entries.length < drafts.length) {
    const start = entries.length;
    const size = (sizes.length > 1 ? sizes.shift() : sizes[0]) ?? 1;
    const previous = { previous_root: naiveTree(leaves).root().toString("base64"), previous_size: start };
    for (const [at, draft] of drafts.slice(start, start + size).entries()) {
      const index = start + at;
      const sealed = { ...draft, ...previous, seq: index, at: atOf(index), workspace_id: WORKSPACE };
      const body = distort?.(canonicalJson(sealed as JsonValue), index) ?? canonicalJson(sealed as JsonValue);
      leaves.push(naiveLeaf(body));
      entries.push({ index, leaf_hash: naiveLeaf(body).toString("base64"), body });
    }
  }
  const signer = { publicPem: key.publicPem, sign: (bytes: Uint8Array) => sign("sha256", bytes, key.privateKey) };
  const signCheckpoint = createCheckpoints(ORIGIN, signer);
  return {
    entries,
    publicPem: key.publicPem,
    checkpoint: (size = entries.length) => signCheckpoint(named, size, naiveTree(leaves).root(0, size)).note,
    auditPath: (index, size = entries.length) =>
      naiveTree(leaves)
        .path(index, size)
        .map((hash) => hash.toString("base64")),
  };
}
