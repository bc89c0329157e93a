import { areEqual, type Bytes, HASH_BYTES, joined, sha256, utf8 } from "./bytes.ts";

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

/** Hashes an entry to its leaf (RFC 6962 §2.1): SHA-256 over 0x00 and the entry's exact text. */
export const hashOfLeaf = (body: string): Promise<Bytes> => sha256(joined(LEAF, utf8(body)));

const hashOfNode = (left: Uint8Array, right: Uint8Array): Promise<Bytes> => sha256(joined(NODE, left, right));

const isOdd = (n: number): boolean => n % 2 === 1;
// Not `n >> 1`: bitwise operators are limited to 32 bits.
const half = (n: number): number => Math.floor(n / 2);
const areHashes = (path: readonly Uint8Array[]): boolean => path.every(({ length }) => length === HASH_BYTES);

/** A position on the way from a leaf to the root: its index in its level, and the last index there. */
interface Position {
  readonly index: number;
  readonly last: number;
}

/** Moves one level up, or several where the node has no sibling. */
function above({ index, last }: Position, isRight: boolean): Position {
  let at: Position = { index, last };
  if (isRight) while (!isOdd(at.index) && at.index !== 0) at = { index: half(at.index), last: half(at.last) };
  return { index: half(at.index), last: half(at.last) };
}

/** A leaf, its place in the tree, and the siblings on its way to the root. */
export interface InclusionProof {
  readonly leaf: Uint8Array;
  readonly leafIndex: number;
  readonly treeSize: number;
  readonly path: readonly Uint8Array[];
}

/** Computes the root from a leaf and its proof (RFC 9162 §2.1.3.2); undefined if the path does not fit the tree. */
export async function rootFromInclusion(proof: InclusionProof): Promise<Uint8Array | undefined> {
  const { leaf, leafIndex, treeSize, path } = proof;
  if (leafIndex < 0 || leafIndex >= treeSize || !areHashes(path)) return undefined;
  let at: Position = { index: leafIndex, last: treeSize - 1 };
  let root = leaf;
  for (const sibling of path) {
    if (at.last === 0) return undefined;
    const isRight = isOdd(at.index) || at.index === at.last;
    root = await (isRight ? hashOfNode(sibling, root) : hashOfNode(root, sibling));
    at = above(at, isRight);
  }
  return at.last === 0 ? root : undefined;
}

/** Two sizes of one log with their roots, and the path that connects them. */
export interface ConsistencyProof {
  readonly from: number;
  readonly to: number;
  readonly fromRoot: Uint8Array;
  readonly toRoot: Uint8Array;
  readonly path: readonly Uint8Array[];
}

/** The two roots that a consistency proof leads to. */
export interface ProvenRoots {
  readonly earlier: Uint8Array;
  readonly later: Uint8Array;
}

/**
 * Computes the roots of both trees from a consistency proof (RFC 9162 §2.1.4.2); undefined if the path does not fit the sizes.
 * `from` MUST be above 0.
 */
export async function rootsFromConsistency(proof: ConsistencyProof): Promise<ProvenRoots | undefined> {
  const { from, to, fromRoot, path } = proof;
  if (from === to) return path.length === 0 ? { earlier: fromRoot, later: fromRoot } : undefined;
  if (from < 1 || from > to || path.length === 0 || !areHashes(path)) return undefined;
  let at: Position = { index: from - 1, last: to - 1 };
  while (isOdd(at.index)) at = { index: half(at.index), last: half(at.last) };
  // The proof omits its first node when the earlier tree is perfect, because that node is the earlier root.
  const [first, ...rest] = at.index === 0 ? [fromRoot, ...path] : path;
  let earlier = first as Uint8Array;
  let later = earlier;
  for (const sibling of rest) {
    if (at.last === 0) return undefined;
    const isRight = isOdd(at.index) || at.index === at.last;
    if (isRight) earlier = await hashOfNode(sibling, earlier);
    later = await (isRight ? hashOfNode(sibling, later) : hashOfNode(later, sibling));
    at = above(at, isRight);
  }
  return at.last === 0 ? { earlier, later } : undefined;
}

/** Tests that the later tree is the earlier one with entries appended. */
export async function isConsistent(proof: ConsistencyProof): Promise<boolean> {
  const roots = await rootsFromConsistency(proof);
  return roots !== undefined && areEqual(roots.earlier, proof.fromRoot) && areEqual(roots.later, proof.toRoot);
}
