import { createHash } from "node:crypto";

const sha256 = (...parts: readonly Uint8Array[]): Buffer => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** RFC 6962 §2.1: the hash of an entry. */
export const naiveLeaf = (body: string): Buffer => sha256(Uint8Array.of(0), Buffer.from(body));

/** The tree as the definitions of RFC 9162 §2.1 read, over the hashes of its leaves. Remembers perfect subtrees. */
export interface NaiveTree {
  /** The root over `size` leaves from `start` on; without arguments of all. */
  root(start?: number, size?: number): Buffer;
  /** PATH(index, the first `size` leaves). */
  path(index: number, size: number): Buffer[];
  /** PROOF(from, the first `to` leaves). */
  proof(from: number, to: number): Buffer[];
  /** The roots of the perfect subtrees of 2, 4, 8… leaves that end with a leaf, one after the other; null for none. */
  subtreesEndingWith(index: number): Buffer | null;
}

/** The largest power of two below a size. */
function splitOf(size: number): number {
  let split = 1;
  while (split * 2 < size) split *= 2;
  return split;
}

/** Creates a tree that recomputes everything it is asked for. */
export function naiveTree(leaves: readonly Buffer[]): NaiveTree {
  const known = new Map<string, Buffer>();

  function root(start = 0, size = leaves.length): Buffer {
    if (size === 0) return sha256();
    if (size === 1) return leaves[start] as Buffer;
    const key = `${start} ${size}`;
    const remembered = known.get(key);
    if (remembered !== undefined) return remembered;
    const split = splitOf(size);
    const made = sha256(Uint8Array.of(1), root(start, split), root(start + split, size - split));
    if (split * 2 === size) known.set(key, made);
    return made;
  }

  function pathIn(index: number, start: number, size: number): Buffer[] {
    if (size === 1) return [];
    const split = splitOf(size);
    if (index < split) return [...pathIn(index, start, split), root(start + split, size - split)];
    return [...pathIn(index - split, start + split, size - split), root(start, split)];
  }

  function subproof(from: number, start: number, size: number, isKnown: boolean): Buffer[] {
    if (from === size) return isKnown ? [] : [root(start, size)];
    const split = splitOf(size);
    if (from <= split) return [...subproof(from, start, split, isKnown), root(start + split, size - split)];
    return [...subproof(from - split, start + split, size - split, false), root(start, split)];
  }

  return {
    root,
    path: (index, size) => pathIn(index, 0, size),
    proof: (from, to) => subproof(from, 0, to, true),
    subtreesEndingWith(index) {
      const roots: Buffer[] = [];
      for (let size = 2; (index + 1) % size === 0; size *= 2) roots.push(root(index + 1 - size, size));
      return roots.length === 0 ? null : Buffer.concat(roots);
    },
  };
}
