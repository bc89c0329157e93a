import { assertSignedInTime, type Checkpoint, type SignedCheckpoint } from "./checkpoint.ts";
import { type JsonRecord, listAt, parseCanonicalObject, valueAt } from "./json.ts";
import { hashOfLeaf, MerkleTree, rootFromInclusion } from "./merkle.ts";
import { SealedKeys } from "./sealed-keys.ts";
import { VerificationError, type VerificationFault } from "./verification-error.ts";

/** An entry from a bundle or a server. */
export interface LogEntry {
  readonly index: number;
  readonly leafHash: Uint8Array;
  /** The exact text that was hashed. */
  readonly body: string;
}

/** `YYYY-MM-DDTHH:MM:SS.sssZ`: of fixed length, so that texts sort like times. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

function fail(fault: VerificationFault, index: number, message: string): never {
  throw new VerificationError(fault, message, index);
}

/**
 * Checks the entries of a log one by one, in memory that holds their ids but not their bodies.
 *
 * Every entry names the size and root of the log that it was sealed on. Changing one entry therefore requires changing all
 * later ones, and then the roots that were signed.
 */
export class LogCheck {
  readonly #checkpoint: SignedCheckpoint | undefined;
  readonly #earlier: readonly SignedCheckpoint[];
  readonly #roots: RootCheck;
  readonly #keys = new SealedKeys();
  readonly #claimedIds = new Set<string>();
  #lastTime = "";

  /**
   * The checkpoint covers the whole log, the earlier ones its beginnings; their signatures MUST have been verified. Without
   * a checkpoint the entries are checked against each other and the earlier checkpoints only, which finds faults but
   * verifies nothing.
   */
  constructor(checkpoint: SignedCheckpoint | undefined, earlier: readonly SignedCheckpoint[] = []) {
    if (checkpoint !== undefined) for (const each of earlier) assertCovered(each, checkpoint);
    this.#checkpoint = checkpoint;
    this.#earlier = earlier;
    this.#roots = new RootCheck(earlier);
  }

  /** Checks the next entry and returns its parsed body. Throws `VerificationError` for the first one to distrust. */
  add(entry: LogEntry): JsonRecord {
    this.#roots.assertEarlier();
    assertIndex(entry, this.#roots.size);
    const leaf = hashOfLeaf(entry.body);
    const body = parseBody(entry, leaf);
    if (this.#checkpoint !== undefined) assertWorkspace(body, this.#checkpoint.origin, entry.index);
    this.#assertTime(body, entry.index);
    this.#roots.assertSealedOn(body.previous_size, body.previous_root);
    this.#assertUnique(body, entry.index);
    this.#roots.add(leaf);
    this.#keys.add(body, entry.index);
    return body;
  }

  /** Checks that the log ends here. MUST be called after the last entry. */
  finish(): void {
    this.#roots.assertEarlier();
    if (this.#checkpoint === undefined) return;
    const { treeSize, root } = this.#checkpoint;
    const { size } = this.#roots;
    if (size < treeSize) fail("order", size, `entry ${size} is missing: the checkpoint covers ${treeSize} entries`);
    if (size > treeSize) fail("order", treeSize, `entry ${treeSize} lies beyond the checkpoint`);
    this.#roots.assertWhole(root);
    for (const each of [...this.#earlier, this.#checkpoint]) this.#keys.assertSigned(each);
    if (treeSize > 0) assertSignedInTime(this.#checkpoint.key, "the last entry", this.#lastTime);
  }

  #assertTime({ at }: JsonRecord, index: number): void {
    if (typeof at !== "string" || !TIME.test(at)) fail("time", index, `entry ${index} has no time`);
    const before = this.#lastTime;
    if (at < before) fail("time", index, `entry ${index} is older (${at}) than the one before it (${before})`);
    this.#lastTime = at;
  }

  #assertUnique(body: JsonRecord, index: number): void {
    for (const id of claimedIds(body)) {
      if (this.#claimedIds.has(id))
        fail("duplicate_id", index, `entry ${index} claims \`${id}\`, as an earlier one does`);
      this.#claimedIds.add(id);
    }
  }
}

/** Refuses an earlier checkpoint of another log, or one that covers more entries than the log has. */
function assertCovered(earlier: Checkpoint, { origin, treeSize }: Checkpoint): void {
  if (earlier.origin !== origin) {
    const message = `the earlier checkpoint is of \`${earlier.origin}\`, not of \`${origin}\``;
    throw new VerificationError("checkpoint", message);
  }
  if (earlier.treeSize <= treeSize) return;
  const what = `the log was cut off: an earlier checkpoint covers ${earlier.treeSize} entries, this one ${treeSize}`;
  throw new VerificationError("truncated", what, treeSize, earlier.treeSize - 1);
}

function assertIndex({ index }: LogEntry, expected: number): void {
  if (index === expected) return;
  const found = index > expected ? `entry ${index} follows` : `entry ${index} is repeated after`;
  fail("order", expected, `entry ${expected} is missing: ${found} entry ${expected - 1}`);
}

function parseBody({ index, leafHash, body: text }: LogEntry, hashed: Buffer): JsonRecord {
  if (!hashed.equals(leafHash)) {
    fail("leaf_hash", index, `entry ${index} was changed: its body does not hash to its leaf`);
  }
  const body = parseCanonicalObject(text);
  if (body === undefined) fail("canonical", index, `entry ${index} is no canonical JSON object (RFC 8785)`);
  if (body.seq !== index) {
    fail("order", index, `entry ${index} is misplaced: it was sealed as entry \`${String(body.seq)}\``);
  }
  return body;
}

/** Refuses an entry of another workspace: the last part of a log's origin is the id of its workspace. */
function assertWorkspace({ workspace_id: workspaceId }: JsonRecord, origin: string, index: number): void {
  if (workspaceId === origin.slice(origin.lastIndexOf("/") + 1)) return;
  fail(
    "workspace",
    index,
    `entry ${index} belongs to workspace \`${String(workspaceId)}\`, not to the log \`${origin}\``,
  );
}

/** A claim that a tree has a root. */
interface RootClaim {
  readonly root: string;
  readonly who: string;
  readonly fault: VerificationFault;
}

/** Grows the tree of a log and compares its root with the claims of entries and checkpoints. */
class RootCheck {
  readonly #tree = new MerkleTree();
  /** Earlier checkpoints that are still to be compared, by size. */
  readonly #earlier: Checkpoint[];
  /** The size and root that the entries of the current batch were sealed on. */
  #sealedOn: { size: unknown; root: unknown } = { size: -1, root: "" };
  /** Entries below this index are confirmed by the root that a later entry was sealed on. */
  #confirmedByEntry = 0;
  /** Entries below this index are confirmed by a signed root. */
  #confirmedBySignature = 0;

  constructor(earlier: readonly Checkpoint[]) {
    this.#earlier = [...earlier].sort((a, b) => a.treeSize - b.treeSize);
  }

  get size(): number {
    return this.#tree.size;
  }

  add(leaf: Uint8Array): void {
    this.#tree.add(leaf);
  }

  /** Compares with the size and root that the next entry was sealed on. Throws `previous_root`. */
  assertSealedOn(size: unknown, root: unknown): void {
    if (size === this.#sealedOn.size && root === this.#sealedOn.root) return;
    const index = this.#tree.size;
    const isNamed = size === index && typeof root === "string";
    // If a signature confirms all entries before this one, then this one was changed.
    const isOwnFault = this.#confirmedBySignature === index && this.#tree.root().toString("base64") !== root;
    if (!isNamed || isOwnFault) {
      fail("previous_root", index, `entry ${index} does not say that it was sealed on the entries before it`);
    }
    this.#sealedOn = { size, root };
    this.#assertRoot({ root, who: `entry ${index}`, fault: "previous_root" });
    this.#confirmedByEntry = index;
  }

  /** Compares with the earlier checkpoints of this size. Throws `rewritten`. */
  assertEarlier(): void {
    for (; this.#earlier[0]?.treeSize === this.#tree.size; this.#earlier.shift()) {
      const { root, treeSize } = this.#earlier[0];
      const who = `the earlier checkpoint of size ${treeSize}`;
      // A root in an entry may have been rewritten with the entries before it, a signed root cannot.
      const since = this.#confirmedBySignature;
      this.#assertRoot({ root: root.toString("base64"), who, fault: "rewritten" }, since);
      this.#confirmedBySignature = treeSize;
    }
  }

  /** Compares with the checkpoint of the whole log. Throws `root`. */
  assertWhole(root: Buffer): void {
    this.#assertRoot({ root: root.toString("base64"), who: "the checkpoint", fault: "root" });
  }

  /** Compares the tree with a claim. A fault lies in the entries from `since` on. */
  #assertRoot(
    { root, who, fault }: RootClaim,
    since = Math.max(this.#confirmedByEntry, this.#confirmedBySignature),
  ): void {
    const found = this.#tree.root().toString("base64");
    if (found === root) return;
    const last = this.#tree.size - 1;
    const first = Math.min(since, last);
    const range = first === last ? `entry ${first}` : `one of the entries ${first} to ${last}`;
    const what = `${range} was changed, left out or put in: the ${this.#tree.size} entries hash to`;
    throw new VerificationError(fault, `${what} \`${found}\`, and ${who} says \`${root}\``, first, last);
  }
}

/** Unique ids in each type of entry, as paths to members; two paths make one id together. */
const CLAIMS: ReadonlyMap<unknown, readonly (readonly string[])[]> = new Map([
  ["workspace_created", [["workspace_id"]]],
  ["agent_registered", [["agent.agent_id"]]],
  ["agent_revoked", [["revocation_id"]]],
  ["department_created", [["department.department_id"]]],
  ["tool_registered", [["tool.name", "tool.version"]]],
  ["mandate_published", [["mandate.mandate_id", "mandate.version"]]],
  ["pack_applied", [["pack.name", "pack.version"]]],
  ["key_created", [["key.key_id"]]],
  ["authority_created", [["authority.id"]]],
  ["escalation_resolved", [["escalation_id"]]],
  // An approval is used by one decision only. Several may ask for it, and only the first seals when it expires.
  ["decision", [["decision_id"], ["escalation_id", "escalation_expires_at"], ["used_escalation_id"]]],
]);

/** Returns the ids that no other entry of the log may claim; an unknown type claims none. */
function claimedIds(body: JsonRecord): string[] {
  const claims = CLAIMS.get(body.type) ?? [];
  const own = claims.flatMap((paths) => {
    const values = paths.map((path) => valueAt(body, path));
    return values.includes(undefined) ? [] : `${String(body.type)} ${paths[0]?.split(".").at(-1)} ${values.join(" ")}`;
  });
  if (body.type !== "pack_applied") return own;
  const published = listAt(body, "published");
  return [...own, ...published.flatMap((mandate) => claimedIds({ type: "mandate_published", mandate }))];
}

/** The entry of a decision, and its proof. */
export interface DecisionProof {
  /** The exact text that was hashed. */
  readonly body: string;
  readonly leafIndex: number;
  /** The siblings from the leaf up to the root. */
  readonly auditPath: readonly Uint8Array[];
}

/**
 * Verifies that a decision is an entry of the log at its index, by a checkpoint whose signature MUST have been verified.
 * Returns the parsed body. Throws `VerificationError`.
 */
export function verifyDecision(
  { body: text, leafIndex, auditPath }: DecisionProof,
  checkpoint: Checkpoint,
): JsonRecord {
  const { treeSize, root, origin } = checkpoint;
  const found = rootFromInclusion(hashOfLeaf(text), { leafIndex, treeSize, auditPath });
  if (found === undefined || !found.equals(root)) {
    const why = found === undefined ? "has the wrong length for its position" : "leads to another root";
    throw new VerificationError("proof", `entry ${leafIndex} is not in the log of size ${treeSize}: its proof ${why}`);
  }
  const body = parseCanonicalObject(text);
  if (body === undefined) {
    fail("canonical", leafIndex, "the decision's body is no canonical JSON object (RFC 8785)");
  }
  if (body.seq !== leafIndex) {
    const sealedAs = `the decision was sealed as entry \`${String(body.seq)}\``;
    fail("order", leafIndex, `${sealedAs}, but the proof is for entry ${leafIndex}`);
  }
  if (body.type !== "decision") throw new VerificationError("malformed", `entry ${leafIndex} is no decision`);
  assertWorkspace(body, origin, leafIndex);
  return body;
}
