import type { Checkpoint } from "./checkpoint.ts";
import { createTree, type Tree } from "./merkle.ts";
import { VerificationError, type VerificationFault } from "./verification-error.ts";

/** Grows the tree of a log and compares its root with what others say it was. */
export interface RootCheck {
  /** Entries so far. */
  readonly size: number;
  add(leaf: Uint8Array): void;
  /** Compares with what the next entry says it was sealed on. Throws `previous_root`. */
  assertSealedOn(size: unknown, root: unknown): void;
  /** Compares with the earlier checkpoint of this size, where there is one. Throws `rewritten`. */
  assertEarlier(): void;
  /** Compares with the checkpoint of the whole log. Throws `root`. */
  assertWhole(root: Uint8Array): void;
}

/** The entries between what is vouched for and a root that does not fit, in words. */
const range = (first: number, last: number): string =>
  first === last ? `entry ${first}` : `one of the entries ${first} to ${last}`;

/** A root that somebody says a tree has. */
interface Claim {
  readonly root: string;
  readonly who: string;
  readonly fault: VerificationFault;
}

/** Compares a tree with a claim. Entries below `since` are vouched for otherwise. */
function assertRoot(tree: Tree, since: number, { root, who, fault }: Claim): void {
  const found = tree.root().toString("base64");
  if (found === root) return;
  const last = tree.size - 1;
  const first = Math.min(since, last);
  const what = `${range(first, last)} was changed, left out or put in: the ${tree.size} entries hash to`;
  throw new VerificationError(fault, `${what} \`${found}\`, and ${who} says \`${root}\``, first, last);
}

/** Creates the check, with earlier checkpoints of the log whose signatures were verified. */
export function createRootCheck(earlier: readonly Checkpoint[]): RootCheck {
  const tree = createTree();
  const signed = [...earlier].sort((a, b) => a.treeSize - b.treeSize);
  /** The size and root that the entries of the current batch were sealed on. */
  let sealedOn: { size: unknown; root: unknown } = { size: -1, root: "" };
  /** Entries below this index are vouched for by a root that a later entry was sealed on. */
  let vouched = 0;
  /** Entries below this index are vouched for by a root that was signed. */
  let confirmed = 0;

  return {
    get size() {
      return tree.size;
    },
    add: (leaf) => tree.add(leaf),
    assertSealedOn(size, root) {
      if (size === sealedOn.size && root === sealedOn.root) return;
      const index = tree.size;
      const isNamed = size === index && typeof root === "string";
      // Where a signature vouches for the entries before it, it is this one that was changed.
      const isOwnFault = confirmed === index && tree.root().toString("base64") !== root;
      if (!isNamed || isOwnFault) {
        const message = `entry ${index} does not say that it was sealed on the entries before it`;
        throw new VerificationError("previous_root", message, index);
      }
      sealedOn = { size, root };
      assertRoot(tree, Math.max(vouched, confirmed), { root, who: `entry ${index}`, fault: "previous_root" });
      vouched = index;
    },
    assertEarlier() {
      while (signed[0]?.treeSize === tree.size) {
        const { root, treeSize } = signed.shift() as Checkpoint;
        // What vouches for an entry may have been rewritten along with it; only a signature cannot.
        const who = `the earlier checkpoint of size ${treeSize}`;
        assertRoot(tree, confirmed, { root: root.toString("base64"), who, fault: "rewritten" });
        confirmed = treeSize;
      }
    },
    assertWhole(root) {
      const claim = { root: Buffer.from(root).toString("base64"), who: "the checkpoint", fault: "root" } as const;
      assertRoot(tree, Math.max(vouched, confirmed), claim);
    },
  };
}
