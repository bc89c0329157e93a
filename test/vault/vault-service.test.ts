import { createPublicKey } from "node:crypto";
import { toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import {
  type Checkpoint,
  type GetInclusionProofResponse,
  type ListEntriesResponse,
  ListEntriesResponseSchema,
} from "../../gen/agentcontrol/v1/vault_service_pb.js";
import { hex } from "../../src/verify/bytes.ts";
import { hashOfLeaf, isConsistent, rootFromInclusion } from "../../src/verify/merkle.ts";
import { attempt, failureOf, ORIGIN, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";
import { readNote } from "./read-note.ts";

const SIZE = 70;
/** Bytes: the default maximum of a received message in gRPC. */
const GRPC_MESSAGE_LIMIT = 4 * 1024 * 1024;

const numbersIn = <T extends { readonly from: bigint; readonly to: bigint }>(proof: T) => ({
  ...proof,
  from: Number(proof.from),
  to: Number(proof.to),
});

/** Returns the root that a checkpoint signs. Fails if its note and its fields differ, or if the signature is wrong. */
async function signedRoot(checkpoint: Omit<Checkpoint, "$typeName"> | undefined): Promise<Uint8Array> {
  if (checkpoint === undefined) throw new Error("no checkpoint");
  const { origin, treeSize, rootHash, note, verifierKey } = checkpoint;
  const read = await readNote(note, verifierKey);
  expect(read).to.include({ origin, treeSize: Number(treeSize) });
  expect(read.root).to.deep.equal(Uint8Array.from(rootHash));
  return read.root;
}

/** Returns the root that an inclusion proof leads to in a tree of a size. */
const rootOf = (proof: Pick<GetInclusionProofResponse, "leafIndex" | "leafHash" | "auditPath">, treeSize: number) =>
  rootFromInclusion(proof.leafHash, { leafIndex: Number(proof.leafIndex), treeSize, auditPath: proof.auditPath });

/** Decides actions of one agent until the log has this many entries. Gives the ids of the decisions. */
async function grow(workspace: TestWorkspace, size: number): Promise<string[]> {
  const agentId = await workspace.agent("payer");
  const { seq } = await workspace.log.caughtUp();
  const actions = Array.from({ length: size - seq }, () => attempt(workspace.log, { agentId, actionType: "read" }));
  return (await Promise.all(actions)).map(({ decisionId }) => decisionId);
}

describe("VaultService", () => {
  let workspace: TestWorkspace;
  let decisions: string[];
  before(async () => {
    workspace = await openWorkspace();
    decisions = await grow(workspace, SIZE);
  });
  after(() => workspace.close());

  it("signs the log as it is now, under its name and with the key that jwks publishes.", async () => {
    const checkpoint = await workspace.vault.getCheckpoint({});
    expect(checkpoint).to.include({ origin: `${ORIGIN}/vault/default`, treeSize: BigInt(SIZE) });
    await signedRoot(checkpoint);
    const [jwk] = (await workspace.keys.jwks()).keys;
    const published = createPublicKey({ key: jwk as never, format: "jwk" }).export({ type: "spki", format: "der" });
    const encoded = Buffer.concat([Buffer.of(2), published]).toString("base64");
    expect(checkpoint.verifierKey.endsWith(`+${encoded}`)).to.equal(true);
  });

  it("signs a tree once, and again only when it grew.", async () => {
    const [one, other] = [await workspace.vault.getCheckpoint({}), await workspace.vault.getCheckpoint({})];
    expect(other.note).to.equal(one.note);
    const earlier = await workspace.vault.getCheckpoint({ treeSize: 9n });
    expect(await signedRoot(earlier)).not.to.deep.equal(await signedRoot(one));
    const empty = await signedRoot(await workspace.vault.getCheckpoint({ treeSize: 0n }));
    expect(hex(empty)).to.match(/^e3b0c44298fc1c14/);
  });

  it("lists every entry with the text that its leaf is the hash of, page after page.", async () => {
    const bodies: string[] = [];
    for (let pageToken = ""; ; ) {
      const page = await workspace.vault.listEntries({ pageSize: 32, pageToken });
      for (const { index, leafHash, body } of page.entries) {
        expect(Number(index)).to.equal(bodies.length);
        expect(Uint8Array.from(leafHash)).to.deep.equal(await hashOfLeaf(body));
        bodies.push(body);
      }
      if (page.nextPageToken === undefined) break;
      pageToken = page.nextPageToken;
    }
    expect(bodies).to.have.length(SIZE);
    expect(bodies.map((body) => JSON.parse(body).seq)).to.deep.equal(bodies.map((_, index) => index));
  });

  it("lists a range alone.", async () => {
    const { entries, nextPageToken } = await workspace.vault.listEntries({ from: 3n, to: 9n });
    expect(entries.map(({ index }) => Number(index))).to.deep.equal([3, 4, 5, 6, 7, 8]);
    expect(nextPageToken).to.equal(undefined);
    expect((await workspace.vault.listEntries({ from: BigInt(SIZE) })).entries).to.deep.equal([]);
  });

  it("proves every entry in every tree that holds it.", async () => {
    for (let treeSize = 1; treeSize <= SIZE; treeSize += 3) {
      for (let index = 0; index < treeSize; index += 5) {
        const proof = await workspace.vault.getInclusionProof({ index: BigInt(index), treeSize: BigInt(treeSize) });
        expect(proof).to.include({ leafIndex: BigInt(index), treeSize: BigInt(treeSize) });
        const root = await rootOf(proof, treeSize);
        expect(root).to.deep.equal(Uint8Array.from(proof.rootHash));
        expect(root).to.deep.equal(await signedRoot(proof.checkpoint));
      }
    }
  });

  it("proves a decision by its id.", async () => {
    const decisionId = decisions[17] as string;
    const proof = await workspace.vault.getInclusionProof({ decisionId });
    const { entries } = await workspace.vault.listEntries({ from: proof.leafIndex, pageSize: 1 });
    expect(JSON.parse(entries[0]?.body ?? "")).to.include({ decision_id: decisionId });
    expect(Uint8Array.from(proof.leafHash)).to.deep.equal(await hashOfLeaf(entries[0]?.body ?? ""));
    expect(await rootOf(proof, SIZE)).to.deep.equal(await signedRoot(proof.checkpoint));
  });

  it("proves that every tree begins with every earlier one.", async () => {
    for (let to = 1; to <= SIZE; to += 3) {
      for (let from = 1; from <= to; from += 4) {
        const proof = await workspace.vault.getConsistencyProof({ from: BigInt(from), to: BigInt(to) });
        expect(await isConsistent(numbersIn(proof)), `${from} to ${to}`).to.equal(true);
        const checkpoint = await workspace.vault.getCheckpoint({ treeSize: BigInt(from) });
        expect(Uint8Array.from(proof.fromRoot)).to.deep.equal(await signedRoot(checkpoint));
      }
    }
  });

  it("shows what another replica appended a moment before.", async () => {
    const replica = await workspace.replica();
    const { vault } = replica;
    const before = await vault.getCheckpoint({});
    await grow(workspace, Number(before.treeSize) + 1);
    const proof = numbersIn(await vault.getConsistencyProof({ from: before.treeSize }));
    expect(proof.to).to.equal(proof.from + 1);
    expect(await isConsistent(proof)).to.equal(true);
  });

  describe("refuses", () => {
    const CASES = [
      ["a checkpoint beyond the log", "getCheckpoint", { treeSize: 10_000n }, "OUTSIDE_LOG", "tree_size"],
      ["entries up to beyond the log", "listEntries", { to: 10_000n }, "OUTSIDE_LOG", "to"],
      ["entries from beyond the log", "listEntries", { from: 10_000n }, "OUTSIDE_LOG", "from"],
      ["entries of a range that is turned around", "listEntries", { from: 5n, to: 4n }, "INVALID_FIELD", "from"],
      ["an index beyond the log", "getInclusionProof", { index: 10_000n }, "OUTSIDE_LOG", "index"],
      ["an index at the end of a tree", "getInclusionProof", { index: 5n, treeSize: 5n }, "OUTSIDE_LOG", "index"],
      ["a tree beyond the log", "getInclusionProof", { index: 0n, treeSize: 2n ** 62n }, "OUTSIDE_LOG", "tree_size"],
      ["the empty tree", "getInclusionProof", { index: 0n, treeSize: 0n }, "OUTSIDE_LOG", "index"],
      ["a proof of nothing", "getInclusionProof", {}, "INVALID_FIELD", "decision_id"],
      ["a proof of two things", "getInclusionProof", { index: 0n, decisionId: "dec_x" }, "INVALID_FIELD", "index"],
      ["a later tree beyond the log", "getConsistencyProof", { from: 1n, to: 10_000n }, "OUTSIDE_LOG", "to"],
      ["an earlier tree beyond the log", "getConsistencyProof", { from: 10_000n }, "OUTSIDE_LOG", "from"],
      ["trees in the wrong order", "getConsistencyProof", { from: 5n, to: 4n }, "INVALID_FIELD", "from"],
      ["a proof from nothing", "getConsistencyProof", { from: 0n }, "INVALID_FIELD", "from"],
      ["a negative index", "getInclusionProof", { index: -1n }, "INVALID_FIELD", "index"],
    ] as const;
    for (const [what, method, request, reason, field] of CASES) {
      it(`${what}.`, async () => {
        const call = workspace.vault[method] as (request: object) => Promise<unknown>;
        expect(await reasonOf(call(request))).to.equal(reason);
        expect((await failureOf(call(request))).violations.map((violation) => violation.field)).to.deep.equal([field]);
      });
    }

    it("a decision in a tree that ends before it.", async () => {
      const failure = await failureOf(
        workspace.vault.getInclusionProof({ decisionId: decisions[9] as string, treeSize: 3n }),
      );
      expect(failure.message).to.match(/^`decision_id` names entry \d+, which is not below 3, the size of the tree$/);
    });

    it("an unknown decision, and a change by its id.", async () => {
      expect(await reasonOf(workspace.vault.getInclusionProof({ decisionId: "dec_none" }))).to.equal(
        "DECISION_NOT_FOUND",
      );
      const { rows } = await workspace.database.pool.query("select entry_id from ledger_entry where kind = 1");
      const decisionId = rows[0].entry_id;
      expect(await reasonOf(workspace.vault.getInclusionProof({ decisionId }))).to.equal("DECISION_NOT_FOUND");
    });
  });
});

describe("a page of large entries", () => {
  it("stays within the message limit of gRPC clients, however many entries were asked for, and the list goes on.", async () => {
    const workspace = await openWorkspace();
    try {
      const action = { agentId: await workspace.agent(), actionType: "write", actionContent: "x".repeat(65_536) };
      await Promise.all(Array.from({ length: 80 }, () => attempt(workspace.log, action)));
      const indexes: bigint[] = [];
      let pageToken: string | undefined = "";
      for (; pageToken !== undefined; ) {
        const page: ListEntriesResponse = await workspace.vault.listEntries({ pageSize: 500, pageToken });
        expect(toBinary(ListEntriesResponseSchema, page).length).to.be.lessThan(GRPC_MESSAGE_LIMIT);
        indexes.push(...page.entries.map(({ index }) => index));
        pageToken = page.nextPageToken;
      }
      const { seq } = await workspace.log.caughtUp();
      expect(indexes).to.deep.equal(Array.from({ length: seq }, (_, index) => BigInt(index)));
    } finally {
      await workspace.close();
    }
  });
});
