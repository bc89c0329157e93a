import { expect } from "chai";
import { leafHash } from "../../src/tree/merkle.ts";
import { consistencyPath, inclusionPath } from "../../src/tree/proofs.ts";
import { areEqual } from "../../src/verify/bytes.ts";
import { hashOfLeaf, isConsistent, MerkleTree, rootFromInclusion } from "../../src/verify/merkle.ts";
import { naiveLeaf, naiveTree } from "../log/naive-tree.ts";
import { LEAVES, PUBLISHED_CONSISTENCY, PUBLISHED_INCLUSION, ROOTS } from "../log/published-vectors.ts";

/** Every tree up to this size: all shapes of five levels, and the next one. */
const SIZES = Array.from({ length: 34 }, (_, size) => size + 1);
const OWN_LEAVES = SIZES.map((size) => naiveLeaf(`entry ${size} – ü`));
const TREE = naiveTree(OWN_LEAVES);
const OTHER = naiveLeaf("another");

const bytes = (hex: string | undefined): Buffer => Buffer.from(hex ?? "", "hex");
const isSame = (found: Uint8Array | undefined, want: Uint8Array): boolean =>
  found !== undefined && areEqual(found, want);

/** A path with one thing wrong, every way to have one. */
function wrongPaths(path: readonly Buffer[]): (readonly Buffer[])[] {
  const changed = path.map((_, at) => path.with(at, OTHER));
  const shortened = path.map((hash, at) => path.with(at, hash.subarray(1)));
  const reordered = path.length > 1 ? [path.toReversed()] : [];
  const shorter = path.length > 0 ? [path.slice(1), path.slice(0, -1)] : [];
  return [...changed, ...shortened, ...reordered, [...path, OTHER], ...shorter];
}

describe("the verifier's tree", () => {
  it("hashes leaves as the log does.", async () => {
    for (const text of ["", "a", "entry – ü\u2028", "x".repeat(100_000)]) {
      expect(Buffer.from(await hashOfLeaf(text))).to.deep.equal(leafHash(text));
    }
  });

  it("has the roots of RFC 9162's definition at every size, in whatever batches its leaves are added.", async () => {
    for (const batch of [1, 2, 3, 5, 8, 13, 34]) {
      const tree = new MerkleTree();
      for (let start = 0; start < OWN_LEAVES.length; start += batch) {
        const leaves = OWN_LEAVES.slice(start, start + batch);
        const sizes = Array.from({ length: leaves.length + 1 }, (_, at) => start + at);
        const roots = await tree.add(leaves, sizes);
        for (const size of sizes)
          expect(isSame(roots.get(size), TREE.root(0, size)), `${batch}: ${size}`).to.equal(true);
        expect(isSame(await tree.root(), TREE.root(0, start + leaves.length))).to.equal(true);
      }
      expect(tree.size).to.equal(OWN_LEAVES.length);
    }
  });

  it("has the published roots.", async () => {
    const tree = new MerkleTree();
    const roots = await tree.add(
      LEAVES,
      ROOTS.map((_, at) => at + 1),
    );
    for (const [at, root] of ROOTS.entries()) expect(isSame(roots.get(at + 1), bytes(root))).to.equal(true);
  });
});

describe("the verifier's proofs", () => {
  it("lead from every leaf of every tree to the root of RFC 9162's definition.", async () => {
    for (const treeSize of SIZES) {
      for (const [leafIndex, leaf] of OWN_LEAVES.slice(0, treeSize).entries()) {
        const root = await rootFromInclusion(leaf, { leafIndex, treeSize, auditPath: TREE.path(leafIndex, treeSize) });
        expect(isSame(root, TREE.root(0, treeSize))).to.equal(true);
      }
    }
  });

  it("follow the paths that the log gives.", async () => {
    for (const treeSize of SIZES) {
      const toRoot = TREE.root(0, treeSize);
      for (const [leafIndex, leaf] of OWN_LEAVES.slice(0, treeSize).entries()) {
        const auditPath = inclusionPath(leafIndex, treeSize).map(({ start, end }) => TREE.root(start, end - start));
        expect(isSame(await rootFromInclusion(leaf, { leafIndex, treeSize, auditPath }), toRoot)).to.equal(true);
        const from = leafIndex + 1;
        const path = consistencyPath(from, treeSize).map(({ start, end }) => TREE.root(start, end - start));
        const proof = { from, to: treeSize, fromRoot: TREE.root(0, from), toRoot, path };
        expect(await isConsistent(proof), `${from} to ${treeSize}`).to.equal(true);
      }
    }
  });

  it("do not lead there for another leaf, index or path.", async () => {
    for (const treeSize of SIZES) {
      const root = TREE.root(0, treeSize);
      for (const [leafIndex, leaf] of OWN_LEAVES.slice(0, treeSize).entries()) {
        const auditPath = TREE.path(leafIndex, treeSize);
        const others = [
          rootFromInclusion(OTHER, { leafIndex, treeSize, auditPath }),
          rootFromInclusion(leaf, { leafIndex: treeSize, treeSize, auditPath }),
          rootFromInclusion(leaf, { leafIndex: -1, treeSize, auditPath }),
          ...wrongPaths(auditPath).map((path) => rootFromInclusion(leaf, { leafIndex, treeSize, auditPath: path })),
        ];
        expect((await Promise.all(others)).some((other) => isSame(other, root))).to.equal(false);
      }
    }
  });

  it("connect every two sizes of a log, and none with another root or path.", async () => {
    for (const to of SIZES) {
      const toRoot = TREE.root(0, to);
      for (let from = 1; from <= to; from++) {
        const path = TREE.proof(from, to);
        const proof = { from, to, fromRoot: TREE.root(0, from), toRoot, path };
        expect(await isConsistent(proof), `${from} to ${to}`).to.equal(true);
        const wrong = [{ fromRoot: OTHER }, { toRoot: OTHER }, ...wrongPaths(path).map((other) => ({ path: other }))];
        const accepted = await Promise.all(wrong.map((change) => isConsistent({ ...proof, ...change })));
        expect(accepted.includes(true), `${from} to ${to}`).to.equal(false);
        if (from < to) expect(await isConsistent({ ...proof, from: to, to: from })).to.equal(false);
      }
    }
  });

  it("accept the published audit paths, and none of them for another leaf or size.", async () => {
    for (const [leafIndex, treeSize, hexes] of PUBLISHED_INCLUSION) {
      const auditPath = hexes.map(bytes);
      const [leaf, other] = [LEAVES[leafIndex] as Buffer, LEAVES[leafIndex ^ 1] as Buffer];
      const root = bytes(ROOTS[treeSize - 1]);
      const proof = { leafIndex, treeSize, auditPath };
      expect(isSame(await rootFromInclusion(leaf, proof), root)).to.equal(true);
      expect(isSame(await rootFromInclusion(other, proof), root)).to.equal(false);
      expect(await rootFromInclusion(leaf, { ...proof, auditPath: [...auditPath, leaf] })).to.equal(undefined);
    }
  });

  it("accept the published consistency proofs, and none of them with another root.", async () => {
    const other = LEAVES[7] as Buffer;
    for (const [from, to, hexes] of PUBLISHED_CONSISTENCY) {
      const path = hexes.map(bytes);
      const proof = { from, to, path, fromRoot: bytes(ROOTS[from - 1]), toRoot: bytes(ROOTS[to - 1]) };
      expect(await isConsistent(proof), `${from} to ${to}`).to.equal(true);
      expect(await isConsistent({ ...proof, fromRoot: other })).to.equal(false);
      expect(await isConsistent({ ...proof, toRoot: other })).to.equal(false);
      expect(await isConsistent({ ...proof, path: [...path, proof.toRoot] })).to.equal(false);
    }
  });
});
