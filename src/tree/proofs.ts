import { type Frontier, rootOf } from "./merkle.ts";

/** Leaves of a tree from index `start` up to, but without, `end`. */
export interface LeafRange {
  readonly start: number;
  readonly end: number;
}

/** A perfect subtree of 2^level leaves: the `index`-th of its size from the left. Level 0 is a leaf. */
export interface TreeNode {
  readonly level: number;
  readonly index: number;
}

// Sizes are not shifted or masked: bitwise operators stop at 32 bits.
function levelBelow(limit: number): number {
  let level = 0;
  while (2 ** (level + 1) < limit) level += 1;
  return level;
}

/** Splits a range of two leaves or more as RFC 9162 does: after the largest power of two below its size. */
const middleOf = ({ start, end }: LeafRange): number => start + 2 ** levelBelow(end - start);

/**
 * Returns the ranges whose roots prove that a leaf is in the tree of `size` leaves (RFC 9162 §2.1.3.1), from the leaf
 * upwards. `index` MUST be below `size`.
 */
export function inclusionPath(index: number, size: number): LeafRange[] {
  const path: LeafRange[] = [];
  let range: LeafRange = { start: 0, end: size };
  while (range.end - range.start > 1) {
    const middle = middleOf(range);
    const left = { start: range.start, end: middle };
    const right = { start: middle, end: range.end };
    path.push(index < middle ? right : left);
    range = index < middle ? left : right;
  }
  return path.reverse();
}

/**
 * Returns the ranges whose roots prove that the tree of `to` leaves begins with the tree of `from` leaves (RFC 9162
 * §2.1.4.1), in the order of the proof; empty when the sizes are equal. `from` MUST be at least 1 and at most `to`.
 */
export function consistencyPath(from: number, to: number): LeafRange[] {
  const path: LeafRange[] = [];
  let range: LeafRange = { start: 0, end: to };
  while (from < range.end) {
    const middle = middleOf(range);
    const left = { start: range.start, end: middle };
    const right = { start: middle, end: range.end };
    path.push(from <= middle ? right : left);
    range = from <= middle ? left : right;
  }
  // The verifier knows only the root of the first tree, so the part of it that the path ends in is given as well.
  if (range.start > 0) path.push(range);
  return path.reverse();
}

/**
 * Splits a range into perfect subtrees, largest first. The range MUST begin a tree, or be one that RFC 9162 divides a tree
 * into.
 */
export function nodesOf({ start, end }: LeafRange): TreeNode[] {
  const nodes: TreeNode[] = [];
  for (let first = start; first < end; ) {
    const level = levelBelow(end - first + 1);
    nodes.push({ level, index: first / 2 ** level });
    first += 2 ** level;
  }
  return nodes;
}

/** Returns the leaves of a perfect subtree. The last one completes it. */
export function rangeOf({ level, index }: TreeNode): LeafRange {
  return { start: index * 2 ** level, end: (index + 1) * 2 ** level };
}

/** Builds the tree over a range from the roots of its perfect subtrees. */
export function frontierOf(range: LeafRange, hashOf: (node: TreeNode) => Uint8Array): Frontier {
  return { size: range.end - range.start, roots: nodesOf(range).map(hashOf) };
}

/** Computes the root of a range; for an empty one the SHA-256 of the empty string. */
export function rangeRoot(range: LeafRange, hashOf: (node: TreeNode) => Uint8Array): Uint8Array {
  return rootOf(frontierOf(range, hashOf));
}
