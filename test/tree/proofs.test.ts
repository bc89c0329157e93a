import { expect } from "chai";
import fc from "fast-check";
import { appendLeaves, EMPTY_FRONTIER, HASH_BYTES, rootOf } from "../../src/tree/merkle.ts";
import {
  consistencyPath,
  frontierOf,
  inclusionPath,
  type LeafRange,
  nodesOf,
  rangeOf,
  rangeRoot,
  type TreeNode,
} from "../../src/tree/proofs.ts";
import { type NaiveTree, naiveTree } from "../log/naive-tree.ts";
import { LEAVES, PUBLISHED_CONSISTENCY, PUBLISHED_INCLUSION, ROOTS } from "../log/published-vectors.ts";

/** More leaves than any property asks for. */
const MOST = 5_000;
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

/** Content of a log's rows: each leaf's hash, and the roots of the subtrees that it completes. */
function rowsOf(leaves: readonly Buffer[]): (node: TreeNode) => Uint8Array {
  let frontier = EMPTY_FRONTIER;
  const rows = leaves.map((leaf) => {
    const completed: Uint8Array[] = [];
    frontier = appendLeaves(frontier, [leaf], completed);
    return [leaf, ...completed];
  });
  return (node) => rows[rangeOf(node).end - 1]?.[node.level] as Uint8Array;
}

const leavesOf = (count: number): Buffer[] =>
  Array.from({ length: count }, (_, index) => {
    const leaf = Buffer.alloc(HASH_BYTES);
    leaf.writeUInt32BE(index);
    return leaf;
  });

describe("proofs", () => {
  const published = rowsOf(LEAVES);
  const rootsOf = (ranges: readonly LeafRange[], hashOf = published): string[] =>
    ranges.map((range) => hex(rangeRoot(range, hashOf)));

  for (const [index, size, path] of PUBLISHED_INCLUSION) {
    it(`have the published audit path of leaf ${index} in the tree of ${size}.`, () => {
      expect(rootsOf(inclusionPath(index, size))).to.deep.equal(path);
    });
  }

  for (const [from, to, path] of PUBLISHED_CONSISTENCY) {
    it(`have the published path from the tree of ${from} to the tree of ${to}.`, () => {
      expect(rootsOf(consistencyPath(from, to))).to.deep.equal(path);
    });
  }

  it("have the published roots, of every size up to 8.", () => {
    expect(rootsOf(ROOTS.map((_, index) => ({ start: 0, end: index + 1 })))).to.deep.equal(ROOTS);
  });

  describe("over any tree", () => {
    let tree: NaiveTree;
    let hashOf: (node: TreeNode) => Uint8Array;
    before(() => {
      const leaves = leavesOf(MOST);
      tree = naiveTree(leaves);
      hashOf = rowsOf(leaves);
    });
    const size = fc.integer({ min: 1, max: MOST });
    const pair = fc.tuple(size, size).map(([one, other]) => [Math.min(one, other), Math.max(one, other)] as const);

    it("are the audit paths of the definition.", () => {
      fc.assert(
        fc.property(pair, ([end, of]) => {
          expect(rootsOf(inclusionPath(end - 1, of), hashOf)).to.deep.equal(tree.path(end - 1, of).map(hex));
        }),
        { numRuns: 300 },
      );
    });

    it("are the consistency proofs of the definition.", () => {
      fc.assert(
        fc.property(pair, ([from, to]) => {
          expect(rootsOf(consistencyPath(from, to), hashOf)).to.deep.equal(tree.proof(from, to).map(hex));
        }),
        { numRuns: 300 },
      );
    });

    it("read perfect subtrees alone, of which a proof and its root need twice the logarithm of the tree.", () => {
      fc.assert(
        fc.property(pair, ([end, of]) => {
          const ranges = [{ start: 0, end: of }, ...inclusionPath(end - 1, of)];
          const nodes = new Set(ranges.flatMap(nodesOf).map(({ level, index }) => `${level}/${index}`));
          expect(nodes.size).to.be.at.most(2 * Math.ceil(Math.log2(of)) + 1);
        }),
      );
    });

    it("give the tree back that more leaves are appended to.", () => {
      fc.assert(
        fc.property(pair, ([from, to]) => {
          const leaves = leavesOf(to).slice(from);
          const grown = appendLeaves(frontierOf({ start: 0, end: from }, hashOf), leaves);
          expect(hex(rootOf(grown))).to.equal(hex(tree.root(0, to)));
        }),
        { numRuns: 30 },
      );
    });
  });

  it("reach beyond 2^32 leaves.", () => {
    const size = 2 ** 40 + 1;
    expect(inclusionPath(2 ** 40, size)).to.deep.equal([{ start: 0, end: 2 ** 40 }]);
    expect(nodesOf({ start: 0, end: 2 ** 40 - 1 })).to.have.length(40);
    expect(inclusionPath(0, 2 ** 40)).to.have.length(40);
  });
});
