import { expect } from "chai";
import fc from "fast-check";
import {
  appendLeaves,
  bytesFromFrontier,
  EMPTY_FRONTIER,
  frontierFromBytes,
  leafHash,
  nodeHash,
  rootOf,
} from "../../src/tree/merkle.ts";
import { LEAVES, ROOTS } from "../log/published-vectors.ts";

/** RFC 6962 §2.1 word for word: split at the largest power of two below the size. */
function naiveRoot(leaves: readonly Uint8Array[]): Uint8Array {
  if (leaves.length === 0) return rootOf(EMPTY_FRONTIER);
  if (leaves.length === 1) return leaves[0] as Uint8Array;
  let split = 1;
  while (split * 2 < leaves.length) split *= 2;
  return nodeHash(naiveRoot(leaves.slice(0, split)), naiveRoot(leaves.slice(split)));
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
const leavesOf = (count: number): Buffer[] => Array.from({ length: count }, (_, index) => leafHash(`entry ${index}`));

describe("the Merkle tree", () => {
  it("has the published roots for sizes 1 to 8", () => {
    const roots = ROOTS.map((_, index) => hex(rootOf(appendLeaves(EMPTY_FRONTIER, LEAVES.slice(0, index + 1)))));
    expect(roots).to.deep.equal(ROOTS);
  });

  it("has SHA-256 of nothing as the root of the empty tree", () => {
    expect(hex(rootOf(EMPTY_FRONTIER))).to.equal("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  });

  it("gives the root of the recursive definition, however the leaves are cut into batches", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 1, max: 70 }), (count, batch) => {
        const leaves = leavesOf(count);
        let frontier = EMPTY_FRONTIER;
        for (let from = 0; from < count; from += batch)
          frontier = appendLeaves(frontier, leaves.slice(from, from + batch));
        expect(hex(rootOf(frontier))).to.equal(hex(naiveRoot(leaves)));
      }),
    );
  });

  it("is the same after its frontier was stored and read", () => {
    for (let size = 0; size < 70; size++) {
      const frontier = appendLeaves(EMPTY_FRONTIER, leavesOf(size));
      expect(hex(rootOf(frontierFromBytes(size, bytesFromFrontier(frontier))))).to.equal(hex(rootOf(frontier)));
    }
  });

  it("refuses a stored frontier that does not fit the size", () => {
    expect(() => frontierFromBytes(3, Buffer.alloc(32))).to.throw(RangeError, "a tree of 3 leaves has 2 roots, not 1");
  });
});
