import { hash } from "node:crypto";

/** Bytes of a SHA-256 hash. */
export const HASH_BYTES = 32;

/** RFC 6962 §2.1: the hash of a leaf, SHA-256 over 0x00 and the entry. */
export function leafHash(body: string): Buffer {
  return hash("sha256", `\u0000${body}`, "buffer");
}

/**
 * The same for an entry that stands in a buffer, without copying it. The byte before the entry is lent to the prefix
 * meanwhile: `start` MUST be at least 1.
 */
export function leafHashAt(bytes: Buffer, start: number, end: number): Buffer {
  const lent = bytes[start - 1] ?? 0;
  bytes[start - 1] = 0x00;
  const leaf = hash("sha256", bytes.subarray(start - 1, end), "buffer");
  bytes[start - 1] = lent;
  return leaf;
}

// One buffer for every interior node: hashing is synchronous, so nothing else can be using it.
const pair = Buffer.alloc(1 + 2 * HASH_BYTES);
pair[0] = 0x01;

/** RFC 6962 §2.1: the hash of an interior node, SHA-256 over 0x01, the left and the right child. */
export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  pair.set(left, 1);
  pair.set(right, 1 + HASH_BYTES);
  return hash("sha256", pair, "buffer");
}

/**
 * The right edge of a Merkle tree: the roots of its perfect subtrees, largest first, one for each set bit of the size.
 * It is all that appending needs, 32 bytes × log2(size).
 */
export interface Frontier {
  /** Leaves of the tree. */
  readonly size: number;
  readonly roots: readonly Uint8Array[];
}

/** The frontier of the empty tree. */
export const EMPTY_FRONTIER: Frontier = { size: 0, roots: [] };

/**
 * Appends leaves, in order; the frontier given stays as it is. Amortised one node hash a leaf. Adds to `completed` the root
 * of every perfect subtree of two leaves or more that the leaves complete: leaf after leaf, the smallest subtree first.
 */
export function appendLeaves(
  frontier: Frontier,
  leaves: readonly Uint8Array[],
  completed: Uint8Array[] = [],
): Frontier {
  const roots = [...frontier.roots];
  let size = frontier.size;
  for (const leaf of leaves) {
    let node = leaf;
    // Not `size & 1`: bitwise operators stop at 32 bits.
    for (let index = size; index % 2 === 1; index = (index - 1) / 2) {
      node = nodeHash(roots.pop() as Uint8Array, node);
      completed.push(node);
    }
    roots.push(node);
    size += 1;
  }
  return { size, roots };
}

/** RFC 6962 §2.1: the root of the tree; SHA-256 of nothing for the empty one. */
export function rootOf(frontier: Frontier): Uint8Array {
  const { roots } = frontier;
  if (roots.length === 0) return hash("sha256", "", "buffer");
  return roots.reduceRight((right, left) => nodeHash(left, right));
}

/** Gives the root as entries name it, in base64. Remembers the last one, which is asked for again. */
export function createRootText(): (frontier: Frontier) => string {
  let known: Frontier | undefined;
  let text = "";
  return (frontier) => {
    if (frontier !== known) {
      text = Buffer.from(rootOf(frontier)).toString("base64");
      known = frontier;
    }
    return text;
  };
}

/** The frontier as the head stores it: the roots one after the other. */
export function bytesFromFrontier(frontier: Frontier): Buffer {
  return Buffer.concat(frontier.roots);
}

/** Reads a stored frontier. Throws when the bytes do not fit the size. */
export function frontierFromBytes(size: number, bytes: Uint8Array): Frontier {
  const roots = Array.from({ length: bytes.length / HASH_BYTES }, (_, index) =>
    bytes.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES),
  );
  const expected = size.toString(2).replaceAll("0", "").length;
  if (roots.length !== expected)
    throw new RangeError(`a tree of ${size} leaves has ${expected} roots, not ${roots.length}`);
  return { size, roots };
}
