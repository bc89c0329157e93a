import type { Pool } from "pg";
import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { stored } from "../store/database.ts";
import { findDecision, readSealedEntries, readTreeHashes } from "../store/sql/read-vault.ts";
import { HASH_BYTES, rootOf } from "../tree/merkle.ts";
import {
  consistencyPath,
  inclusionPath,
  type LeafRange,
  nodesOf,
  rangeOf,
  rangeRoot,
  type TreeNode,
} from "../tree/proofs.ts";
import type { Checkpoint, SignCheckpoint } from "./checkpoint.ts";
import type { WorkspaceLogs } from "./workspace-logs.ts";
import type { WorkspaceLog } from "./writer.ts";

/** An entry in the form that was sealed. */
export interface SealedEntry {
  readonly seq: number;
  /** Number of its `EntryKind`. */
  readonly kind: number;
  readonly leafHash: Uint8Array;
  /** The exact text that is hashed, RFC 8785 JSON. */
  readonly body: string;
}

/** A range of the log. */
export interface EntryRange {
  /** First index. */
  readonly from: number;
  /** Index to stop before; undefined for the end of the log. */
  readonly to: number | undefined;
}

/** Consecutive entries, oldest first. */
export interface EntryPage {
  readonly entries: readonly SealedEntry[];
  /** Index at which the range continues; undefined at its end. */
  readonly next: number | undefined;
}

/** Proof that an entry is in the tree that a checkpoint signs. */
export interface InclusionProof {
  readonly index: number;
  readonly leafHash: Uint8Array;
  /** From the leaf's sibling upwards. */
  readonly path: readonly Uint8Array[];
  readonly checkpoint: Checkpoint;
}

/** Proof that a later tree begins with an earlier one. */
export interface ConsistencyProof {
  readonly from: number;
  readonly to: number;
  readonly path: readonly Uint8Array[];
  readonly fromRoot: Uint8Array;
  readonly toRoot: Uint8Array;
}

/** Dependencies of a vault. */
interface VaultOptions {
  readonly pool: Pool;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly sign: SignCheckpoint;
  /**
   * Seals the signing key in a log that does not hold it yet. Returns the state at the end of the log. Rejects with
   * SIGNING_KEY_RETIRED.
   */
  readonly sealKey: (log: WorkspaceLog) => Promise<WorkspaceState>;
}

/** Bytes of bodies after which a page ends: below 4 MiB, the default message limit of gRPC clients. */
const PAGE_BYTES = 2_097_152;

function outside(field: string, most: string, metadata: Readonly<Record<string, string>>): ControlPlaneError {
  const violations = [{ field, description: most, reason: "OUTSIDE_LOG" }];
  return new ControlPlaneError(ErrorReason.OUTSIDE_LOG, `\`${field}\` ${most}`, { field, ...metadata }, { violations });
}

function assertReached(field: string, size: number, logSize: number): void {
  if (size <= logSize) return;
  throw outside(field, `must be at most ${logSize}, the size of the log`, { log_size: String(logSize) });
}

function assertInTree(field: string, index: number, treeSize: number): void {
  if (index < treeSize) return;
  const most = field === "index" ? "must be below" : `names entry ${index}, which is not below`;
  throw outside(field, `${most} ${treeSize}, the size of the tree`, {
    tree_size: String(treeSize),
    ...(field === "index" ? {} : { index: String(index) }),
  });
}

function assertOrder(from: number, to: number | undefined): void {
  if (to !== undefined && from > to) throw invalidField("from", "must be at most `to`");
}

/** The tree of a log at its present size or an earlier one. */
interface Tree {
  readonly size: number;
  /** Set for the log as it is now: taken from the state on which decisions are sealed, instead of from the rows. */
  readonly root: Uint8Array | undefined;
}

/** Reads the hashes of some perfect subtrees from the entries that completed them. */
async function readNodes(
  pool: Pool,
  workspaceId: string,
  nodes: readonly TreeNode[],
): Promise<(node: TreeNode) => Uint8Array> {
  type Row = { seq: number; leafHash: Buffer; subtreeHashes: Buffer | null };
  const lastLeafOf = (node: TreeNode): number => rangeOf(node).end - 1;
  const seqs = [...new Set(nodes.map(lastLeafOf))];
  const { rows } = await pool.query<Row>({ ...readTreeHashes, values: [workspaceId, seqs] });
  const bySeq = new Map(rows.map((row) => [row.seq, row]));
  return (node) => {
    const { level } = node;
    const row = bySeq.get(lastLeafOf(node));
    const hash =
      level === 0 ? row?.leafHash : row?.subtreeHashes?.subarray((level - 1) * HASH_BYTES, level * HASH_BYTES);
    if (hash?.length === HASH_BYTES) return hash;
    throw new Error(`entry ${lastLeafOf(node)} or its hashes are missing from the log of \`${workspaceId}\``);
  };
}

/**
 * Reads the roots of some ranges of a log, in the same order. One statement reads one row for each perfect subtree, so that the
 * cost is logarithmic in the log's size. Every range MUST lie within the log.
 */
async function readRoots(
  pool: Pool,
  workspaceId: string,
  ranges: readonly LeafRange[],
): Promise<readonly Uint8Array[]> {
  const hashOf = await readNodes(pool, workspaceId, ranges.flatMap(nodesOf));
  return ranges.map((range) => rangeRoot(range, hashOf));
}

/**
 * Serves the logs of this replica as evidence: checkpoints, entries and proofs. Every method catches the log up first. Sizes
 * and indexes are whole numbers of at least 0. Rejects with OUTSIDE_LOG for anything beyond the log or the tree, and
 * INVALID_FIELD for sizes in the wrong order.
 */
export class Vault {
  readonly #pool: Pool;
  readonly #logs: Pick<WorkspaceLogs, "of">;
  readonly #sign: SignCheckpoint;
  readonly #sealKey: VaultOptions["sealKey"];

  constructor({ pool, logs, sign, sealKey }: VaultOptions) {
    this.#pool = pool;
    this.#logs = logs;
    this.#sign = sign;
    this.#sealKey = sealKey;
  }

  /** Signs the tree of a size. Undefined: the log as it is now. */
  async checkpoint(workspaceId: string, treeSize: number | undefined): Promise<Checkpoint> {
    const tree = await this.#signedTreeOf(workspaceId, treeSize);
    const [root] = await this.#rootsIn(workspaceId, tree, []);
    return this.#sign(workspaceId, tree.size, root as Uint8Array);
  }

  /** Reads at most `limit` entries: fewer when their bodies are large, but at least one if the range holds any. */
  async entries(workspaceId: string, { from, to }: EntryRange, limit: number): Promise<EntryPage> {
    assertOrder(from, to);
    const { size: end } = await this.#treeOf(workspaceId, "to", to);
    assertReached("from", from, end);
    const values = [workspaceId, from, end, limit, PAGE_BYTES];
    const { rows: entries } = await stored(this.#pool.query<SealedEntry>({ ...readSealedEntries, values }));
    // If someone deleted rows, the page lacks their indexes, which a verifier notices.
    const next = (entries.at(-1)?.seq ?? end - 1) + 1;
    return { entries, next: next < end ? next : undefined };
  }

  /** Proves a decision by id, or any entry by index. Rejects with DECISION_NOT_FOUND. */
  async inclusion(workspaceId: string, entry: string | number, treeSize: number | undefined): Promise<InclusionProof> {
    const tree = await this.#signedTreeOf(workspaceId, treeSize);
    const index = typeof entry === "number" ? entry : await this.#indexOf(workspaceId, entry);
    assertInTree(typeof entry === "number" ? "index" : "decision_id", index, tree.size);
    const ranges = [{ start: index, end: index + 1 }, ...inclusionPath(index, tree.size)];
    const [root, leafHash, ...path] = await this.#rootsIn(workspaceId, tree, ranges);
    const checkpoint = this.#sign(workspaceId, tree.size, root as Uint8Array);
    return { index, leafHash: leafHash as Uint8Array, path, checkpoint };
  }

  /** Proves that the tree of `to` entries begins with the tree of `from` entries. `to` undefined: the log as it is now. */
  async consistency(workspaceId: string, from: number, to: number | undefined): Promise<ConsistencyProof> {
    assertOrder(from, to);
    const tree = await this.#treeOf(workspaceId, "to", to);
    assertReached("from", from, tree.size);
    const ranges = [{ start: 0, end: from }, ...consistencyPath(from, tree.size)];
    const [toRoot, fromRoot, ...path] = await this.#rootsIn(workspaceId, tree, ranges);
    return { from, to: tree.size, path, fromRoot: fromRoot as Uint8Array, toRoot: toRoot as Uint8Array };
  }

  /** Returns a tree that is to be signed, after its log holds the key. */
  async #signedTreeOf(workspaceId: string, size: number | undefined): Promise<Tree> {
    return this.#treeIn(await this.#sealKey(await this.#logs.of(workspaceId)), "tree_size", size);
  }

  async #treeOf(workspaceId: string, field: string, size: number | undefined): Promise<Tree> {
    return this.#treeIn(await (await this.#logs.of(workspaceId)).caughtUp(), field, size);
  }

  #treeIn({ seq, frontier }: WorkspaceState, field: string, size: number | undefined): Tree {
    if (size === undefined || size === seq) return { size: seq, root: rootOf(frontier) };
    assertReached(field, size, seq);
    return { size, root: undefined };
  }

  /** Returns the roots of a tree and of ranges in it. */
  async #rootsIn(
    workspaceId: string,
    { size, root }: Tree,
    ranges: readonly LeafRange[],
  ): Promise<readonly Uint8Array[]> {
    if (root === undefined) return stored(readRoots(this.#pool, workspaceId, [{ start: 0, end: size }, ...ranges]));
    return [root, ...(ranges.length === 0 ? [] : await stored(readRoots(this.#pool, workspaceId, ranges)))];
  }

  async #indexOf(workspaceId: string, decisionId: string): Promise<number> {
    const search = { ...findDecision, values: [workspaceId, decisionId] };
    const { rows } = await stored(this.#pool.query<{ seq: number }>(search));
    const [row] = rows;
    if (row !== undefined) return row.seq;
    throw new ControlPlaneError(ErrorReason.DECISION_NOT_FOUND, `no decision \`${decisionId}\``, {
      decision_id: decisionId,
    });
  }
}
