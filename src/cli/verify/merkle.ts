import { hash } from "node:crypto";

/** Hashes an entry to its leaf (RFC 9162 §2.1.1): SHA-256 over 0x00 and the entry. */
export function hashOfLeaf(body: string): Buffer {
  return hash("sha256", Buffer.concat([Uint8Array.of(0), Buffer.from(body, "utf8")]), "buffer");
}

/** Hashes two children (RFC 9162 §2.1.1): SHA-256 over 0x01 and both. */
function hashOfNode(left: Uint8Array, right: Uint8Array): Buffer {
  return hash("sha256", Buffer.concat([Uint8Array.of(1), left, right]), "buffer");
}

const isOdd = (n: number): boolean => n % 2 === 1;
// Not `n >> 1`: bitwise operators are limited to 32 bits.
const half = (n: number): number => Math.floor(n / 2);

/** A growing Merkle tree. Keeps only the roots of its perfect subtrees, not its leaves. */
export class MerkleTree {
  /** From left to right; each holds more leaves than the next one. */
  readonly #subtrees: { hash: Uint8Array; leaves: number }[] = [];
  #size = 0;

  /** Number of leaves. */
  get size(): number {
    return this.#size;
  }

  add(leaf: Uint8Array): void {
    let last = { hash: leaf, leaves: 1 };
    for (let left = this.#subtrees.at(-1); left?.leaves === last.leaves; left = this.#subtrees.at(-1)) {
      this.#subtrees.pop();
      last = { hash: hashOfNode(left.hash, last.hash), leaves: 2 * last.leaves };
    }
    this.#subtrees.push(last);
    this.#size += 1;
  }

  /** Returns the root (RFC 9162 §2.1.1): SHA-256 of the empty string for an empty tree. */
  root(): Buffer {
    const hashes = this.#subtrees.map((subtree) => subtree.hash);
    if (hashes.length === 0) return hash("sha256", "", "buffer");
    return Buffer.from(hashes.reduceRight((right, left) => hashOfNode(left, right)));
  }
}

/** The position of a leaf in a tree, and the siblings on its path to the root. */
export interface InclusionProof {
  readonly leafIndex: number;
  readonly treeSize: number;
  readonly auditPath: readonly Uint8Array[];
}

/** Computes the root from a leaf and its proof (RFC 9162 §2.1.3.2); undefined if the path does not fit the tree. */
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

/** Two sizes of one log with their roots, and the path that connects them. */
export interface ConsistencyProof {
  readonly from: number;
  readonly to: number;
  readonly fromRoot: Uint8Array;
  readonly toRoot: Uint8Array;
  readonly path: readonly Uint8Array[];
}

const areEqual = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

/** Tests that the later tree is the earlier one with leaves appended (RFC 9162 §2.1.4.2). `from` MUST be above 0. */
export function isConsistent({ from, to, fromRoot, toRoot, path }: ConsistencyProof): boolean {
  if (from === to) return path.length === 0 && areEqual(fromRoot, toRoot);
  if (from > to || path.length === 0) return false;
  let index = from - 1;
  let last = to - 1;
  for (; isOdd(index); index = half(index)) last = half(last);
  // The proof omits its first node when the earlier tree is perfect, because that node is the earlier root.
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
