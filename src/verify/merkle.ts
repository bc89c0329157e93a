import { areEqual, type Bytes, HASH_BYTES, sha256, utf8 } from "./bytes.ts";

/** Hashes an entry to its leaf (RFC 9162 §2.1.1): SHA-256 over 0x00 and the entry's exact text. */
export const hashOfLeaf = (body: string): Promise<Bytes> => sha256(utf8(`\u0000${body}`));

/** Hashes two children (RFC 9162 §2.1.1): SHA-256 over 0x01 and both. */
function hashOfNode(left: Uint8Array, right: Uint8Array): Promise<Bytes> {
  const node = new Uint8Array(1 + 2 * HASH_BYTES);
  node[0] = 1;
  node.set(left, 1);
  node.set(right, 1 + HASH_BYTES);
  return sha256(node);
}

const isOdd = (n: number): boolean => n % 2 === 1;
// Not `n >> 1`: bitwise operators are limited to 32 bits.
const half = (n: number): number => Math.floor(n / 2);

/** Complete nodes of one level of a tree, next to each other. */
interface Level {
  /** Index of the first of them in its level. */
  readonly first: number;
  readonly nodes: readonly Uint8Array[];
}

/**
 * A growing Merkle tree. Keeps only the roots of its perfect subtrees, not its leaves. Leaves are added many at a time: Web
 * Crypto hashes beside this thread, and one hash after the other costs ten times as much as a level at once.
 */
export class MerkleTree {
  /** Root of the perfect subtree of 2^level leaves, by level; undefined at levels that the size does not use. */
  #subtrees: readonly (Uint8Array | undefined)[] = [];
  #size = 0;

  /** Number of leaves. */
  get size(): number {
    return this.#size;
  }

  /**
   * Adds leaves. Returns the roots that the tree has at some sizes on the way, by size. The sizes MUST lie between the size
   * before and the one afterwards.
   */
  async add(leaves: readonly Uint8Array[], sizes: Iterable<number> = []): Promise<ReadonlyMap<number, Uint8Array>> {
    const levels = await this.#grow(leaves);
    this.#size += leaves.length;
    this.#subtrees = subtreesAt(levels, this.#size);
    const wanted = [...sizes];
    const roots = await rootsOf(wanted.map((size) => subtreesAt(levels, size)));
    return new Map(wanted.map((size, at) => [size, roots[at] as Uint8Array]));
  }

  /** Returns the root (RFC 9162 §2.1.1): SHA-256 of the empty string for an empty tree. */
  async root(): Promise<Uint8Array> {
    const [root] = await rootsOf([this.#subtrees]);
    return root as Uint8Array;
  }

  /** Hashes the nodes that the leaves complete, level by level. Each level begins with the subtree left from before. */
  async #grow(leaves: readonly Uint8Array[]): Promise<readonly Level[]> {
    const levels: Level[] = [];
    let first = this.#size;
    let added = leaves;
    while (first > 0 || added.length > 0) {
      const before = this.#subtrees[levels.length];
      const level: Level =
        before === undefined ? { first, nodes: added } : { first: first - 1, nodes: [before, ...added] };
      levels.push(level);
      first = half(first);
      added = await parentsOf(level.nodes);
    }
    return levels;
  }
}

/** Hashes the pairs of nodes; the first of them MUST be a left child. */
function parentsOf(nodes: readonly Uint8Array[]): Promise<readonly Uint8Array[]> {
  return Promise.all(
    Array.from({ length: half(nodes.length) }, (_, pair) =>
      hashOfNode(nodes[2 * pair] as Uint8Array, nodes[2 * pair + 1] as Uint8Array),
    ),
  );
}

/** Returns the roots of the perfect subtrees that a tree of this size consists of, by level. */
function subtreesAt(levels: readonly Level[], size: number): readonly (Uint8Array | undefined)[] {
  let count = size;
  return levels.map(({ first, nodes }) => {
    const last = count - 1;
    const isPart = isOdd(count);
    count = half(count);
    return isPart ? nodes[last - first] : undefined;
  });
}

/** Computes the roots of trees from their subtrees, level by level for all of them. */
async function rootsOf(trees: readonly (readonly (Uint8Array | undefined)[])[]): Promise<readonly Uint8Array[]> {
  const levels = Math.max(0, ...trees.map(({ length }) => length));
  let roots: readonly (Uint8Array | undefined)[] = trees.map(() => undefined);
  for (let level = 0; level < levels; level++) {
    const merged = trees.map((tree, at) => {
      const [left, right] = [tree[level], roots[at]];
      return left === undefined || right === undefined ? (left ?? right) : hashOfNode(left, right);
    });
    roots = await Promise.all(merged);
  }
  return Promise.all(roots.map((root) => root ?? sha256(new Uint8Array())));
}

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

/** Position of a leaf in a tree, and the sibling hashes on its path to the root. */
export interface InclusionProof {
  readonly leafIndex: number;
  readonly treeSize: number;
  readonly auditPath: readonly Uint8Array[];
}

/** Computes the root from a leaf and its proof (RFC 9162 §2.1.3.2); undefined if the path does not fit the tree. */
export async function rootFromInclusion(leaf: Uint8Array, proof: InclusionProof): Promise<Uint8Array | undefined> {
  const { leafIndex, treeSize, auditPath } = proof;
  if (leafIndex < 0 || leafIndex >= treeSize || !areHashes([leaf, ...auditPath])) return undefined;
  let at: Position = { index: leafIndex, last: treeSize - 1 };
  let root = leaf;
  for (const sibling of auditPath) {
    if (at.last === 0) return undefined;
    const isRight = isOdd(at.index) || at.index === at.last;
    root = await (isRight ? hashOfNode(sibling, root) : hashOfNode(root, sibling));
    at = above(at, isRight);
  }
  return at.last === 0 ? root : undefined;
}

/** Two sizes of one log with their roots, and the path between them. */
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

/** Tests whether the later tree is the earlier one with entries appended. `from` MUST be above 0. */
export async function isConsistent(proof: ConsistencyProof): Promise<boolean> {
  const roots = await rootsFromConsistency(proof);
  return roots !== undefined && areEqual(roots.earlier, proof.fromRoot) && areEqual(roots.later, proof.toRoot);
}
