import { hash } from "node:crypto";

/** Bytes of a hash. */
const HASH_BYTES = 32;

/** RFC 9162 §2.1.1: SHA-256 over 0x00 and the entry. */
export function hashOfLeaf(body: string): Buffer {
  return hash("sha256", Buffer.concat([Uint8Array.of(0), Buffer.from(body, "utf8")]), "buffer");
}

const node = Buffer.alloc(1 + 2 * HASH_BYTES, 1);

/** RFC 9162 §2.1.1: SHA-256 over 0x01 and both children. */
function hashOfNode(left: Uint8Array, right: Uint8Array): Buffer {
  node.set(left, 1);
  node.set(right, 1 + HASH_BYTES);
  return hash("sha256", node, "buffer");
}

const isOdd = (n: number): boolean => n % 2 === 1;
// Not `n >> 1`: bitwise operators stop at 32 bits.
const half = (n: number): number => Math.floor(n / 2);

/** A Merkle tree that keeps of its leaves only what the next ones need. */
export interface Tree {
  /** Leaves so far. */
  readonly size: number;
  add(leaf: Uint8Array): void;
  /** RFC 9162 §2.1.1: the root; SHA-256 of nothing while the tree is empty. */
  root(): Buffer;
}

/** Creates an empty tree. */
export function createTree(): Tree {
  // Perfect subtrees from left to right; each holds more leaves than the one after it.
  const subtrees: { hash: Uint8Array; leaves: number }[] = [];
  let size = 0;
  return {
    get size() {
      return size;
    },
    add(leaf) {
      let last = { hash: leaf, leaves: 1 };
      for (let left = subtrees.at(-1); left?.leaves === last.leaves; left = subtrees.at(-1)) {
        subtrees.pop();
        last = { hash: hashOfNode(left.hash, last.hash), leaves: 2 * last.leaves };
      }
      subtrees.push(last);
      size += 1;
    },
    root() {
      let right = subtrees.at(-1)?.hash;
      if (right === undefined) return hash("sha256", "", "buffer");
      for (let at = subtrees.length - 2; at >= 0; at--) right = hashOfNode(subtrees[at]?.hash as Uint8Array, right);
      return Buffer.from(right);
    },
  };
}

/** A leaf's place in a tree, and the siblings on its way up. */
export interface InclusionProof {
  readonly leafIndex: number;
  readonly treeSize: number;
  readonly auditPath: readonly Uint8Array[];
}

/** RFC 9162 §2.1.3.2: the root that a leaf and its proof lead to; undefined when the path does not fit the tree. */
export function rootFromInclusion(leaf: Uint8Array, proof: InclusionProof): Buffer | undefined {
  if (proof.leafIndex >= proof.treeSize) return undefined;
  let index = proof.leafIndex;
  let last = proof.treeSize - 1;
  let root: Buffer = Buffer.from(leaf);
  for (const sibling of proof.auditPath) {
    if (last === 0) return undefined;
    if (isOdd(index) || index === last) {
      root = hashOfNode(sibling, root);
      for (; !isOdd(index) && index !== 0; index = half(index)) last = half(last);
    } else {
      root = hashOfNode(root, sibling);
    }
    index = half(index);
    last = half(last);
  }
  return last === 0 ? root : undefined;
}

/** Two sizes of one log with their roots, and what connects them. */
export interface ConsistencyProof {
  readonly from: number;
  readonly to: number;
  readonly fromRoot: Uint8Array;
  readonly toRoot: Uint8Array;
  readonly path: readonly Uint8Array[];
}

const areEqual = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

/** RFC 9162 §2.1.4.2: whether the later tree is the earlier one with leaves appended. `from` MUST be above 0. */
export function isConsistent({ from, to, fromRoot, toRoot, path }: ConsistencyProof): boolean {
  if (from === to) return path.length === 0 && areEqual(fromRoot, toRoot);
  if (from > to || path.length === 0) return false;
  let index = from - 1;
  let last = to - 1;
  for (; isOdd(index); index = half(index)) last = half(last);
  // A perfect earlier tree is its own first node, which the proof leaves out.
  const [first, ...rest] = index === 0 ? [fromRoot, ...path] : path;
  let earlier: Buffer = Buffer.from(first as Uint8Array);
  let later = earlier;
  for (const sibling of rest) {
    if (last === 0) return false;
    if (isOdd(index) || index === last) {
      earlier = hashOfNode(sibling, earlier);
      later = hashOfNode(sibling, later);
      for (; !isOdd(index) && index !== 0; index = half(index)) last = half(last);
    } else {
      later = hashOfNode(later, sibling);
    }
    index = half(index);
    last = half(last);
  }
  return last === 0 && areEqual(earlier, fromRoot) && areEqual(later, toRoot);
}
