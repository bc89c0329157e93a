import { expect } from "chai";
import { LEAVES, PUBLISHED_CONSISTENCY, PUBLISHED_INCLUSION, ROOTS } from "../log/published-vectors.ts";
import { isConsistent, rootFromPath } from "./verify.ts";

const bytes = (hex: string | undefined): Buffer => Buffer.from(hex ?? "", "hex");

describe("the verifier of these tests", () => {
  it("accepts the published audit paths, and none of them for another leaf or size.", () => {
    for (const [index, size, hexes] of PUBLISHED_INCLUSION) {
      const path = hexes.map(bytes);
      const leaf = LEAVES[index] as Buffer;
      expect(rootFromPath(index, size, leaf, path)).to.deep.equal(bytes(ROOTS[size - 1]));
      expect(rootFromPath(index, size, LEAVES[index ^ 1] as Buffer, path)).not.to.deep.equal(bytes(ROOTS[size - 1]));
      expect(rootFromPath(index, size, leaf, [...path, leaf])).to.equal(undefined);
    }
  });

  it("accepts the published consistency proofs, and none of them with another root.", () => {
    const other = LEAVES[7] as Buffer;
    for (const [from, to, hexes] of PUBLISHED_CONSISTENCY) {
      const proof = {
        from,
        to,
        path: hexes.map(bytes),
        fromRoot: bytes(ROOTS[from - 1]),
        toRoot: bytes(ROOTS[to - 1]),
      };
      expect(isConsistent(proof), `${from} to ${to}`).to.equal(true);
      expect(isConsistent({ ...proof, fromRoot: other })).to.equal(false);
      expect(isConsistent({ ...proof, toRoot: other })).to.equal(false);
      expect(isConsistent({ ...proof, path: [...proof.path, proof.toRoot] })).to.equal(false);
    }
  });
});
