import type { Pool } from "pg";
import { readTreeHashes } from "../store/sql/read-vault.ts";
import { appendLeaves, HASH_BYTES, rootOf } from "../tree/merkle.ts";
import { frontierOf, type LeafRange, nodesOf, rangeOf, rangeRoot, type TreeNode } from "../tree/proofs.ts";

interface Row {
  readonly seq: number;
  readonly leafHash: Buffer;
  readonly subtreeHashes: Buffer | null;
}

const nameOf = ({ level, index }: TreeNode): string => `${level}/${index}`;
const lastLeafOf = (node: TreeNode): number => rangeOf(node).end - 1;

/** The hash of a node as the entry that completed it holds it; undefined for an entry that holds none. */
function storedHash({ leafHash, subtreeHashes }: Row, level: number): Uint8Array | undefined {
  if (level === 0) return leafHash;
  return subtreeHashes?.subarray((level - 1) * HASH_BYTES, level * HASH_BYTES);
}

/**
 * While replicas are upgraded, one of the release before appends entries without the subtrees that they complete. Such a
 * node follows from the leaf and the subtrees to the left of it.
 */
async function rebuildHash(pool: Pool, workspaceId: string, node: TreeNode, leaf: Uint8Array): Promise<Uint8Array> {
  const { start, end } = rangeOf(node);
  const before = { start, end: end - 1 };
  const hashes = await readNodes(pool, workspaceId, nodesOf(before));
  return rootOf(appendLeaves(frontierOf(before, hashes), [leaf]));
}

async function readNodes(
  pool: Pool,
  workspaceId: string,
  nodes: readonly TreeNode[],
): Promise<(node: TreeNode) => Uint8Array> {
  const seqs = [...new Set(nodes.map(lastLeafOf))];
  const { rows } = await pool.query<Row>({ ...readTreeHashes, values: [workspaceId, seqs] });
  const bySeq = new Map(rows.map((row) => [row.seq, row]));
  const hashes = new Map<string, Uint8Array>();
  for (const node of nodes) {
    const row = bySeq.get(lastLeafOf(node));
    if (row === undefined) throw new Error(`entry ${lastLeafOf(node)} is missing from the log of \`${workspaceId}\``);
    const hash = storedHash(row, node.level) ?? (await rebuildHash(pool, workspaceId, node, row.leafHash));
    hashes.set(nameOf(node), hash);
  }
  return (node) => hashes.get(nameOf(node)) as Uint8Array;
}

/**
 * The roots of some ranges of a log, in the same order. One statement, and for each range a row for each perfect subtree
 * in it, so that it costs the logarithm of the log. Every range MUST lie within the log.
 */
export async function readRoots(
  pool: Pool,
  workspaceId: string,
  ranges: readonly LeafRange[],
): Promise<readonly Uint8Array[]> {
  const hashOf = await readNodes(pool, workspaceId, ranges.flatMap(nodesOf));
  return ranges.map((range) => rangeRoot(range, hashOf));
}
