import { hash } from "node:crypto";

/** Bytes of a SHA-256 hash. */
export const HASH_BYTES = 32;

/** Hashes a leaf as RFC 6962 §2.1 defines it: SHA-256 over 0x00 and the entry. */
export function leafHash(body: string): Buffer {
  return hash("sha256", `\u0000${body}`, "buffer");
}

const NODE_PREFIX = Uint8Array.of(0x01);

/** Hashes an interior node as RFC 6962 §2.1 defines it: SHA-256 over 0x01, the left and the right child. */
export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  return hash("sha256", Buffer.concat([NODE_PREFIX, left, right]), "buffer");
}

/**
 * The right edge of a Merkle tree: the roots of its perfect subtrees, largest first, one for each set bit of the size.
 * Appending needs nothing else: 32 bytes × log2(size).
 */
export interface Frontier {
  /** Leaves of the tree. */
  readonly size: number;
  readonly roots: readonly Uint8Array[];
}

/** The frontier of the empty tree. */
export const EMPTY_FRONTIER: Frontier = { size: 0, roots: [] };

/**
 * Returns the frontier after more leaves, in order; amortised one node hash per leaf. Adds to `completed` the root of every
 * perfect subtree of two leaves or more that the leaves complete: leaf after leaf, the smallest subtree first.
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

/** Computes the root of the tree (RFC 6962 §2.1); for the empty tree the SHA-256 of the empty string. */
export function rootOf(frontier: Frontier): Uint8Array {
  const { roots } = frontier;
  if (roots.length === 0) return hash("sha256", "", "buffer");
  return roots.reduceRight((right, left) => nodeHash(left, right));
}

/** Returns the root in base64, as entries name it. */
export function rootText(frontier: Frontier): string {
  return Buffer.from(rootOf(frontier)).toString("base64");
}

/** Serialises a frontier as the log's head stores it: the roots one after the other. */
export function bytesFromFrontier(frontier: Frontier): Buffer {
  return Buffer.concat(frontier.roots);
}

/** Parses a stored frontier. Throws RangeError when the bytes do not fit the size. */
export function frontierFromBytes(size: number, bytes: Uint8Array): Frontier {
  const roots = Array.from({ length: bytes.length / HASH_BYTES }, (_, index) =>
    bytes.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES),
  );
  const expected = size.toString(2).replaceAll("0", "").length;
  if (roots.length !== expected)
    throw new RangeError(`a tree of ${size} leaves has ${expected} roots, not ${roots.length}`);
  return { size, roots };
}
