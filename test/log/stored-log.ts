import { expect } from "chai";
import { canonicalJson, type JsonValue } from "../../src/tree/canonical.ts";
import { frontierFromBytes, rootOf } from "../../src/tree/merkle.ts";
import { withOwner } from "../support/owner.ts";
import { naiveLeaf, naiveTree } from "./naive-tree.ts";

/** One row of the log as the database holds it. */
export interface StoredEntry {
  readonly seq: number;
  readonly atMs: number;
  /** 0 for a decision. */
  readonly kind: number;
  readonly entryId: string;
  readonly leafHash: Buffer;
  readonly subtreeHashes: Buffer | null;
  readonly body: string;
}

/** A workspace's log and its head, read past everything of the product. */
export interface StoredLog {
  /** In the order of their indexes. */
  readonly entries: readonly StoredEntry[];
  readonly head: { readonly seq: number; readonly frontier: Buffer; readonly lastAtMs: number };
}

/** A decision's entry, as far as tests look into it. */
export interface StoredDecision {
  readonly type: "decision";
  readonly decision_id: string;
  readonly decision: "allow" | "block" | "escalate";
  readonly decision_path: string;
  readonly on_behalf_of?: string;
  readonly seq: number;
  readonly action: { readonly agent_id: string; readonly action_type: string };
  readonly authorisation: { readonly collective_limits?: readonly { readonly count: number }[] };
  readonly trust: { readonly before: number; readonly after: number };
  readonly used_escalation_id?: string;
}

/** Reads the log of a workspace, by default `default`, as it is at one moment: outcomes may become unknown meanwhile. */
export function readLog(url: string, workspaceId = "default"): Promise<StoredLog> {
  return withOwner(url, async (client) => {
    await client.query("begin isolation level repeatable read read only");
    const entries = await client.query<StoredEntry>(
      `select seq::float8 as seq, at_ms::float8 as "atMs", kind, entry_id as "entryId", leaf_hash as "leafHash",
         subtree_hashes as "subtreeHashes", body
       from ledger_entry where workspace_id = $1 order by seq`,
      [workspaceId],
    );
    const head = await client.query<StoredLog["head"]>(
      `select seq::float8 as seq, frontier, last_at_ms::float8 as "lastAtMs" from ledger_head where workspace_id = $1`,
      [workspaceId],
    );
    return { entries: entries.rows, head: head.rows[0] as StoredLog["head"] };
  });
}

/** The decisions of a log, in order. */
export function decisionsOf({ entries }: StoredLog): StoredDecision[] {
  const decisions = entries.filter(({ kind }) => kind === 0 || kind === 2);
  return decisions.map(({ body }) => ({ decision_path: "default", authorisation: {}, ...JSON.parse(body) }));
}

/**
 * Asserts that a log is whole: indexes without a gap, ids unique, times never going back, bodies canonical and hashed into
 * their leaves, every entry naming the root before it and holding the subtrees that it completes, and the head carrying the
 * root of exactly these bodies.
 */
export function assertIntact({ entries, head }: StoredLog): void {
  const leaves = entries.map(({ body }) => naiveLeaf(body));
  const tree = naiveTree(leaves);
  expect(entries.map(({ seq }) => seq)).to.deep.equal(entries.map((_, index) => index));
  expect(new Set(entries.map(({ entryId }) => entryId)).size).to.equal(entries.length);
  let lastAtMs = 0;
  entries.forEach(({ body, leafHash, subtreeHashes, atMs, seq }, index) => {
    expect(leafHash.equals(leaves[index] as Buffer), `the leaf of entry ${seq}`).to.equal(true);
    expect(subtreeHashes, `the subtrees of entry ${seq}`).to.deep.equal(tree.subtreesEndingWith(index));
    expect(atMs, `the time of entry ${seq}`).to.be.at.least(lastAtMs);
    lastAtMs = atMs;
    const parsed = JSON.parse(body) as { seq: number; at: string; previous_root: string; previous_size: number };
    expect(canonicalJson(parsed as unknown as JsonValue), `the body of entry ${seq}`).to.equal(body);
    expect(parsed).to.include({ seq, at: new Date(atMs).toISOString() });
    expect(parsed.previous_size, `what entry ${seq} follows`).to.be.at.most(seq);
    const previous = tree.root(0, parsed.previous_size);
    expect(parsed.previous_root, `the root before entry ${seq}`).to.equal(previous.toString("base64"));
  });
  expect(head).to.include({ seq: entries.length, lastAtMs });
  const root = rootOf(frontierFromBytes(head.seq, head.frontier));
  expect(Buffer.from(root).toString("hex")).to.equal(tree.root().toString("hex"));
}
