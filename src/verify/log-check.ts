import { ApprovalCheck } from "./approvals.ts";
import { areEqual, base64 } from "./bytes.ts";
import { type Checkpoint, nameOf, type SignedCheckpoint } from "./checkpoint.ts";
import { assertNotCutOff, assertSameLog } from "./consistency.ts";
import { assertSealedAs, assertWorkspace, type LogEntry } from "./entry.ts";
import { type JsonRecord, listAt, parseCanonicalObject, valueAt } from "./json.ts";
import { hashOfLeaf, MerkleTree } from "./merkle.ts";
import { assertSignedInTime } from "./public-key.ts";
import { SealedKeys } from "./sealed-keys.ts";
import { VerificationError, type VerificationFault } from "./verification-error.ts";

/** Time as `YYYY-MM-DDTHH:MM:SS.sssZ`. The length is fixed, so texts sort like times. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
/** Entries hashed together; larger batches are not faster. */
const BATCH_ENTRIES = 1_000;
/** Characters after which a batch is full, so that large bodies do not pile up. */
const BATCH_CHARACTERS = 4_194_304;

function fail(fault: VerificationFault, index: number, message: string): never {
  throw new VerificationError(fault, message, index);
}

/** An entry with the values computed from it for the checks. */
interface HashedEntry {
  readonly entry: LogEntry;
  readonly leaf: Uint8Array;
  /** Undefined if the text is not a canonical object. */
  readonly body: JsonRecord | undefined;
}

/**
 * Checks the entries of a log in order, and that approvals meet the demands that they seal. It keeps ids in memory, but no bodies. Entries are hashed in batches and
 * checked one by one, so the reported fault is that of the first entry to distrust.
 *
 * Every entry names the size and root of the log that it was sealed on. So changing one entry requires changing all later
 * ones, and then the signed roots.
 */
export class LogCheck {
  readonly #checkpoint: SignedCheckpoint | undefined;
  readonly #earlier: readonly SignedCheckpoint[];
  readonly #roots: RootCheck;
  readonly #keys = new SealedKeys();
  readonly #approvals = new ApprovalCheck();
  readonly #claimedIds = new Set<string>();
  #lastTime = "";

  /**
   * The checkpoint covers the whole log, the earlier ones its beginnings; their signatures MUST have been verified. Without
   * a checkpoint the entries are checked against each other and the earlier checkpoints only, which finds faults but
   * verifies nothing.
   */
  constructor(checkpoint: SignedCheckpoint | undefined, earlier: readonly SignedCheckpoint[] = []) {
    if (checkpoint !== undefined) {
      for (const each of earlier) {
        assertSameLog(each, checkpoint);
        assertNotCutOff(each, checkpoint);
      }
    }
    this.#checkpoint = checkpoint;
    this.#earlier = earlier;
    this.#roots = new RootCheck(earlier);
  }

  /**
   * Checks every entry of a log, and that it ends where the checkpoint says. `onEntry` gets each with its parsed body once it
   * was checked. MUST be called once. Throws `VerificationError` for the first entry to distrust.
   */
  async run(
    entries: AsyncIterable<LogEntry>,
    onEntry: (body: JsonRecord, entry: LogEntry) => void = () => undefined,
  ): Promise<void> {
    for await (const batch of batchesOf(entries)) {
      const hashed = await hashAll(batch);
      await this.#roots.compute(hashed);
      for (const each of hashed) onEntry(this.#check(each), each.entry);
    }
    await this.#finish();
  }

  #check({ entry, leaf, body: parsed }: HashedEntry): JsonRecord {
    this.#roots.assertEarlier();
    const { index } = entry;
    assertIndex(index, this.#roots.size);
    if (!areEqual(leaf, entry.leafHash)) {
      fail("leaf_hash", index, `entry ${index} was changed: its body does not hash to its leaf`);
    }
    const body = assertSealedAs(parsed, index);
    if (this.#checkpoint !== undefined) assertWorkspace(body, this.#checkpoint.origin, index);
    this.#assertTime(body, index);
    this.#roots.assertSealedOn(body.previous_size, body.previous_root);
    this.#assertUnique(body, index);
    this.#roots.pass();
    this.#keys.add(body, index);
    this.#approvals.check(body, index);
    return body;
  }

  async #finish(): Promise<void> {
    await this.#roots.computeLast();
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

/** Gathers entries into batches. If reading fails, the entries before the failure come first, then the error. */
async function* batchesOf(entries: AsyncIterable<LogEntry>): AsyncGenerator<readonly LogEntry[]> {
  let batch: LogEntry[] = [];
  let characters = 0;
  try {
    for await (const entry of entries) {
      batch.push(entry);
      characters += entry.body.length;
      if (batch.length < BATCH_ENTRIES && characters < BATCH_CHARACTERS) continue;
      yield batch;
      batch = [];
      characters = 0;
    }
  } catch (error) {
    if (batch.length > 0) yield batch;
    throw error;
  }
  if (batch.length > 0) yield batch;
}

/** Hashes and parses entries. Web Crypto hashes off this thread, which parses meanwhile. */
async function hashAll(entries: readonly LogEntry[]): Promise<readonly HashedEntry[]> {
  const leaves = entries.map(({ body }) => hashOfLeaf(body));
  const bodies = entries.map(({ body }) => parseCanonicalObject(body));
  const hashed = await Promise.all(leaves);
  return entries.map((entry, at) => ({ entry, leaf: hashed[at] as Uint8Array, body: bodies[at] }));
}

function assertIndex(index: number, expected: number): void {
  if (index === expected) return;
  const found = index > expected ? `entry ${index} follows` : `entry ${index} is repeated after`;
  fail("order", expected, `entry ${expected} is missing: ${found} entry ${expected - 1}`);
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
  /** Earlier checkpoints still to be compared, by size. */
  readonly #earlier: Checkpoint[];
  /** Roots in base64 at the sizes at which entries of the batch, or earlier checkpoints, claim one. */
  #roots: ReadonlyMap<number, string> = new Map();
  /** Number of checked entries. */
  #size = 0;
  /** Size and root that the entries of the current batch were sealed on. */
  #sealedOn: Sealing = { size: -1, root: "" };
  /** Entries below this index are confirmed by the root that a later entry was sealed on. */
  #confirmedByEntry = 0;
  /** Entries below this index are confirmed by a signed root. */
  #confirmedBySignature = 0;

  constructor(earlier: readonly Checkpoint[]) {
    this.#earlier = [...earlier].sort((a, b) => a.treeSize - b.treeSize);
  }

  get size(): number {
    return this.#size;
  }

  /** Adds a batch to the tree and computes the roots to compare its entries with. */
  async compute(batch: readonly HashedEntry[]): Promise<void> {
    const start = this.#size;
    const end = start + batch.length;
    const sizes = new Set(this.#earlier.map(({ treeSize }) => treeSize).filter((size) => size >= start && size < end));
    let sealedOn = this.#sealedOn;
    for (const [at, { body }] of batch.entries()) {
      const next = { size: body?.previous_size, root: body?.previous_root };
      if (!isSameSealing(next, sealedOn)) sizes.add(start + at);
      sealedOn = next;
    }
    const leaves = batch.map(({ leaf }) => leaf);
    const roots = await this.#tree.add(leaves, sizes);
    this.#roots = new Map(Array.from(roots, ([size, root]) => [size, base64(root)]));
  }

  /** Computes the root of all entries. */
  async computeLast(): Promise<void> {
    this.#roots = new Map([[this.#size, base64(await this.#tree.root())]]);
  }

  /** Advances to the next entry. */
  pass(): void {
    this.#size += 1;
  }

  /** Compares with the size and root that the next entry was sealed on. Throws `previous_root`. */
  assertSealedOn(size: unknown, root: unknown): void {
    if (isSameSealing({ size, root }, this.#sealedOn)) return;
    const index = this.#size;
    const isNamed = size === index && typeof root === "string";
    // If a signature confirms all entries before this one, then this one was changed.
    const isOwnFault = this.#confirmedBySignature === index && this.#roots.get(index) !== root;
    if (!isNamed || isOwnFault) {
      fail("previous_root", index, `entry ${index} does not say that it was sealed on the entries before it`);
    }
    this.#sealedOn = { size, root };
    this.#assertRoot({ root, who: `entry ${index}`, fault: "previous_root" });
    this.#confirmedByEntry = index;
  }

  /** Compares with the earlier checkpoints of this size. Throws `rewritten`. */
  assertEarlier(): void {
    for (; this.#earlier[0]?.treeSize === this.#size; this.#earlier.shift()) {
      const { root, treeSize } = this.#earlier[0];
      const who = nameOf(this.#earlier[0]);
      // A root in an entry may have been rewritten with the entries before it, a signed root cannot.
      const since = this.#confirmedBySignature;
      this.#assertRoot({ root: base64(root), who, fault: "rewritten" }, since);
      this.#confirmedBySignature = treeSize;
    }
  }

  /** Compares with the checkpoint of the whole log. Throws `root`. */
  assertWhole(root: Uint8Array): void {
    this.#assertRoot({ root: base64(root), who: "the checkpoint", fault: "root" });
  }

  /** Compares the tree with a claim. A fault lies in the entries from `since` on. */
  #assertRoot(
    { root, who, fault }: RootClaim,
    since = Math.max(this.#confirmedByEntry, this.#confirmedBySignature),
  ): void {
    const found = this.#roots.get(this.#size);
    if (found === root) return;
    const last = this.#size - 1;
    const first = Math.min(since, last);
    const range = first === last ? `entry ${first}` : `one of the entries ${first} to ${last}`;
    const what = `${range} was changed, left out or put in: the ${this.#size} entries hash to`;
    throw new VerificationError(fault, `${what} \`${found}\`, and ${who} says \`${root}\``, first, last);
  }
}

/** Size and root that an entry claims to be sealed on. */
interface Sealing {
  readonly size: unknown;
  readonly root: unknown;
}

const isSameSealing = (a: Sealing, b: Sealing): boolean => a.size === b.size && a.root === b.root;

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
  ["session_observed", [["observation_id"]]],
  ["claim", [["decision_id"]]],
  // The first of a decision, and that by which it is settled if it is unknown or awaits confirmation.
  ["outcome", [["decision_id", "settles"]]],
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
  // An action that is claimed in the entry of its decision is not claimed again.
  if (body.type === "decision" && "claim_id" in body) own.push(...claimedIds({ ...body, type: "claim" }));
  if (body.type !== "pack_applied") return own;
  const published = listAt(body, "published");
  return [...own, ...published.flatMap((mandate) => claimedIds({ type: "mandate_published", mandate }))];
}
