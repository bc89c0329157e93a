import { expect } from "chai";
import { isConsistent, rootFromInclusion } from "../../src/cli/verify/merkle.ts";
import { naiveLeaf, naiveTree } from "../log/naive-tree.ts";
import { LEAVES, PUBLISHED_CONSISTENCY, PUBLISHED_INCLUSION, ROOTS } from "../log/published-vectors.ts";

/** Every tree up to this size: all shapes of five levels, and the next one. */
const SIZES = Array.from({ length: 34 }, (_, size) => size + 1);
const OWN_LEAVES = SIZES.map((size) => naiveLeaf(`entry ${size}`));
const TREE = naiveTree(OWN_LEAVES);
const OTHER = naiveLeaf("another");

const bytes = (hex: string | undefined): Buffer => Buffer.from(hex ?? "", "hex");

/** A path with one thing wrong, every way to have one. */
function wrongPaths(path: readonly Buffer[]): (readonly Buffer[])[] {
  const changed = path.map((_, at) => path.with(at, OTHER));
  const reordered = path.length > 1 ? [path.toReversed()] : [];
  return [...changed, ...reordered, [...path, OTHER], ...(path.length > 0 ? [path.slice(1), path.slice(0, -1)] : [])];
}

describe("the verifier's proofs", () => {
  it("lead from every leaf of every tree to the root of RFC 9162's definition.", () => {
    for (const treeSize of SIZES) {
      for (const [leafIndex, leaf] of OWN_LEAVES.slice(0, treeSize).entries()) {
        const auditPath = TREE.path(leafIndex, treeSize);
        expect(rootFromInclusion(leaf, { leafIndex, treeSize, auditPath })).to.deep.equal(TREE.root(0, treeSize));
      }
    }
  });

  it("do not lead there for another leaf, index or path.", () => {
    for (const treeSize of SIZES) {
      const root = TREE.root(0, treeSize);
      for (const [leafIndex, leaf] of OWN_LEAVES.slice(0, treeSize).entries()) {
        const auditPath = TREE.path(leafIndex, treeSize);
        const others = [
          rootFromInclusion(OTHER, { leafIndex, treeSize, auditPath }),
          rootFromInclusion(leaf, { leafIndex: treeSize, treeSize, auditPath }),
          ...wrongPaths(auditPath).map((path) => rootFromInclusion(leaf, { leafIndex, treeSize, auditPath: path })),
        ];
        expect(others.some((other) => other?.equals(root))).to.equal(false);
      }
    }
  });

  it("connect every two sizes of a log, and none with another root or path.", () => {
    for (const to of SIZES) {
      const toRoot = TREE.root(0, to);
      for (let from = 1; from <= to; from++) {
        const path = TREE.proof(from, to);
        const proof = { from, to, fromRoot: TREE.root(0, from), toRoot, path };
        expect(isConsistent(proof), `${from} to ${to}`).to.equal(true);
        const wrong = [{ fromRoot: OTHER }, { toRoot: OTHER }, ...wrongPaths(path).map((other) => ({ path: other }))];
        expect(
          wrong.filter((change) => isConsistent({ ...proof, ...change })),
          `${from} to ${to}`,
        ).to.deep.equal([]);
        if (from < to) expect(isConsistent({ ...proof, from: to, to: from })).to.equal(false);
      }
    }
  });

  it("accept the published audit paths, and none of them for another leaf or size.", () => {
    for (const [leafIndex, treeSize, hexes] of PUBLISHED_INCLUSION) {
      const auditPath = hexes.map(bytes);
      const [leaf, other] = [LEAVES[leafIndex] as Buffer, LEAVES[leafIndex ^ 1] as Buffer];
      const root = bytes(ROOTS[treeSize - 1]);
      expect(rootFromInclusion(leaf, { leafIndex, treeSize, auditPath })).to.deep.equal(root);
      expect(rootFromInclusion(other, { leafIndex, treeSize, auditPath })).not.to.deep.equal(root);
      expect(rootFromInclusion(leaf, { leafIndex, treeSize, auditPath: [...auditPath, leaf] })).to.equal(undefined);
    }
  });

  it("accept the published consistency proofs, and none of them with another root.", () => {
    const other = LEAVES[7] as Buffer;
    for (const [from, to, hexes] of PUBLISHED_CONSISTENCY) {
      const path = hexes.map(bytes);
      const proof = { from, to, path, fromRoot: bytes(ROOTS[from - 1]), toRoot: bytes(ROOTS[to - 1]) };
      expect(isConsistent(proof), `${from} to ${to}`).to.equal(true);
      expect(isConsistent({ ...proof, fromRoot: other })).to.equal(false);
      expect(isConsistent({ ...proof, toRoot: other })).to.equal(false);
      expect(isConsistent({ ...proof, path: [...path, proof.toRoot] })).to.equal(false);
    }
  });
});
