import { type JsonMembers, objectFromCanonical } from "./canonical-text.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { claimedIds } from "./claimed-ids.ts";
import { hashOfLeaf } from "./merkle.ts";
import { assertOfLog } from "./of-log.ts";
import { createRootCheck } from "./root-check.ts";
import { VerificationError, type VerificationFault } from "./verification-error.ts";

/** An entry as a bundle or a server gives it. */
export interface LogEntry {
  readonly index: number;
  readonly leafHash: Uint8Array;
  /** The exact text that was hashed. */
  readonly body: string;
}

/** Checks the entries of a log one after the other, keeping none of their bodies. */
export interface LogCheck {
  /** Checks the next entry and gives its parsed body. Throws `VerificationError` for the first that cannot be trusted. */
  add(entry: LogEntry): JsonMembers;
  /** Checks that these were all of them. MUST be called after the last. */
  finish(): void;
}

/** `YYYY-MM-DDTHH:MM:SS.sssZ`: of one length, so that texts compare as times do. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

const fail = (fault: VerificationFault, index: number, message: string): never => {
  throw new VerificationError(fault, message, index);
};

function assertPlace({ index }: LogEntry, expected: number): void {
  if (index === expected) return;
  const where = index > expected ? `is missing: entry ${index} follows` : `is not there: entry ${index} comes again`;
  fail("order", expected, `entry ${expected} ${where} entry ${expected - 1}`);
}

function bodyOf({ index, leafHash, body }: LogEntry, hashed: Buffer): JsonMembers {
  if (!hashed.equals(leafHash)) {
    fail("leaf_hash", index, `entry ${index} was changed: its body does not hash to its leaf`);
  }
  const members = objectFromCanonical(body);
  if (members === undefined) return fail("canonical", index, `entry ${index} is no canonical JSON object (RFC 8785)`);
  if (members.seq !== index) {
    fail("order", index, `entry ${index} stands at another place: it was sealed as entry \`${String(members.seq)}\``);
  }
  return members;
}

function assertTime({ at }: JsonMembers, index: number, before: string): string {
  if (typeof at !== "string" || !TIME.test(at)) return fail("time", index, `entry ${index} has no time`);
  if (at < before) fail("time", index, `entry ${index} is older (${at}) than the one before it (${before})`);
  return at;
}

/** Remembers who claimed an id; the ids of a log are unique. */
function createIdCheck(): (members: JsonMembers, index: number) => void {
  const claimed = new Set<string>();
  return (members, index) => {
    for (const id of claimedIds(members)) {
      if (claimed.has(id)) fail("duplicate_id", index, `entry ${index} claims \`${id}\`, as an earlier one does`);
      claimed.add(id);
    }
  };
}

/**
 * Creates the check of a whole log against its checkpoint, whose signature MUST have been verified, and against earlier
 * ones of the same log. An entry names the root and the size of the log that it was sealed on, so that whoever changes
 * one has to change all after it, and then the roots that were signed. Without a checkpoint the entries are checked against
 * each other and the earlier ones alone, which finds faults and verifies nothing.
 */
export function createLogCheck(checkpoint: Checkpoint | undefined, earlier: readonly Checkpoint[] = []): LogCheck {
  if (checkpoint !== undefined) for (const each of earlier) assertCovered(each, checkpoint);
  const roots = createRootCheck(earlier);
  const assertUnique = createIdCheck();
  let before = "";
  return {
    add(entry) {
      const { index, body } = entry;
      roots.assertEarlier();
      assertPlace(entry, roots.size);
      const leaf = hashOfLeaf(body);
      const members = bodyOf(entry, leaf);
      if (checkpoint !== undefined) assertOfLog(members, checkpoint.origin, index);
      before = assertTime(members, index, before);
      roots.assertSealedOn(members.previous_size, members.previous_root);
      assertUnique(members, index);
      roots.add(leaf);
      return members;
    },
    finish() {
      roots.assertEarlier();
      if (checkpoint === undefined) return;
      const { treeSize, root } = checkpoint;
      const { size } = roots;
      if (size < treeSize) fail("order", size, `entry ${size} is missing: the checkpoint covers ${treeSize} entries`);
      if (size > treeSize) fail("order", treeSize, `entry ${treeSize} lies beyond the checkpoint`);
      roots.assertWhole(root);
    },
  };
}

/** Refuses an earlier checkpoint that is of another log, or covers what is no longer there. */
function assertCovered(earlier: Checkpoint, { origin, treeSize }: Checkpoint): void {
  if (earlier.origin !== origin) {
    throw new VerificationError(
      "checkpoint",
      `the earlier checkpoint is of \`${earlier.origin}\`, not of \`${origin}\``,
    );
  }
  if (earlier.treeSize <= treeSize) return;
  const what = `the log was cut off: an earlier checkpoint covers ${earlier.treeSize} entries, this one ${treeSize}`;
  throw new VerificationError("truncated", what, treeSize, earlier.treeSize - 1);
}
