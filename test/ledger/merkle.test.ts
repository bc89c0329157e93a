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
} from "../../src/ledger/index.ts";

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
  // The leaves and roots that implementations of RFC 6962 test against.
  const inputs = ["", "\u0000", "\u0010", " !", "01", "@ABC", "PQRSTUVW", "`abcdefghijklmno"];
  const roots = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
  ];

  it("has the published roots for sizes 1 to 8", () => {
    // The vectors write their leaves in hexadecimal; these are the same bytes as text.
    const leaves = [
      "",
      "00",
      "10",
      "2021",
      "3031",
      "40414243",
      "5051525354555657",
      "606162636465666768696a6b6c6d6e6f",
    ].map((text) => leafHash(Buffer.from(text, "hex").toString("latin1")));
    expect(leaves.length).to.equal(inputs.length);
    roots.forEach((root, index) => {
      expect(hex(rootOf(appendLeaves(EMPTY_FRONTIER, leaves.slice(0, index + 1)))), `size ${index + 1}`).to.equal(root);
    });
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
