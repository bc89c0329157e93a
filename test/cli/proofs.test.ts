import { expect } from "chai";
import { isConsistent, rootFromInclusion } from "../../src/cli/verify/merkle.ts";
import { consistencyPathOf, leafOf, pathOf, rootOf } from "./written-log.ts";

/** Every tree up to this size: all shapes of five levels, and the next one. */
const SIZES = Array.from({ length: 34 }, (_, size) => size + 1);
const LEAVES = SIZES.map((size) => leafOf(`entry ${size}`));
const OTHER = leafOf("another");

/** A path with one thing wrong, every way to have one. */
function wrongPaths(path: readonly Buffer[]): (readonly Buffer[])[] {
  const changed = path.map((_, at) => path.with(at, OTHER));
  const reordered = path.length > 1 ? [path.toReversed()] : [];
  return [...changed, ...reordered, [...path, OTHER], ...(path.length > 0 ? [path.slice(1), path.slice(0, -1)] : [])];
}

describe("the verifier's proofs", () => {
  it("lead from every leaf of every tree to the root of RFC 9162's definition.", () => {
    for (const treeSize of SIZES) {
      const leaves = LEAVES.slice(0, treeSize);
      for (const [leafIndex, leaf] of leaves.entries()) {
        const auditPath = pathOf(leafIndex, leaves);
        expect(rootFromInclusion(leaf, { leafIndex, treeSize, auditPath })).to.deep.equal(rootOf(leaves));
      }
    }
  });

  it("do not lead there for another leaf, index or path.", () => {
    for (const treeSize of SIZES) {
      const leaves = LEAVES.slice(0, treeSize);
      const root = rootOf(leaves);
      for (const [leafIndex, leaf] of leaves.entries()) {
        const auditPath = pathOf(leafIndex, leaves);
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
      const toRoot = rootOf(LEAVES.slice(0, to));
      for (let from = 1; from <= to; from++) {
        const fromRoot = rootOf(LEAVES.slice(0, from));
        const path = consistencyPathOf(from, LEAVES.slice(0, to));
        const proof = { from, to, fromRoot, toRoot, path };
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
});
