import { zstdDecompressSync } from "node:zlib";
import { expect } from "chai";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { bodiesFrom, encodedBodies, type StoredBodies, storedBodies } from "../../src/log/body-packs.ts";
import { listDecisionReceipts } from "../../src/registry/decisions.ts";
import type { PackedRow } from "../../src/store/sql/packed-bodies.ts";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";
import { assertIntact, decisionsOf, readLog } from "./stored-log.ts";

const bodiesOf = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => JSON.stringify({ text: `naïve \u2028 \n ${index}`, seq: index }));

const part = (
  { bytes, starts, lengths }: Pick<StoredBodies["packs"], "bytes" | "starts" | "lengths">,
  index: number,
): Buffer => bytes.subarray((starts[index] ?? 0) - 1, (starts[index] ?? 0) - 1 + (lengths[index] ?? 0));

/** The rows that a batch becomes, its first entry at index 7. */
function rowsOf({ inRows, packs }: StoredBodies): PackedRow[] {
  return inRows.lengths.map((length, index) => {
    const seq = 7 + index;
    if (length > 0) return { seq, body: part(inRows, index).toString(), packSeq: null, pack: null };
    const pack = packs.firsts.findLastIndex((first) => first <= index);
    const isFirst = inRows.lengths.findIndex((other, at) => other === 0 && at >= (packs.firsts[pack] ?? 0)) === index;
    return { seq, body: null, packSeq: 7 + (packs.firsts[pack] ?? 0), pack: isFirst ? part(packs, pack) : null };
  });
}

describe("packs of bodies", () => {
  for (const count of [1, 2, 7, 8, 63, 64, 65, 72, 73, 200, 256]) {
    it(`give ${count} bodies back, whichever are read alone.`, async () => {
      const bodies = bodiesOf(count);
      for (const isReadAlone of [() => false, () => true, (index: number) => index % 3 === 0]) {
        const stored = storedBodies(encodedBodies(bodies), isReadAlone);
        expect(await bodiesFrom(rowsOf(stored))).to.deep.equal(bodies);
        expect(await bodiesFrom(rowsOf(stored).toReversed())).to.deep.equal(bodies.toReversed());
      }
    });
  }

  it("hold up to 64 entries in a row, a line each, empty for those that lie in their rows.", () => {
    const bodies = bodiesOf(130);
    const { inRows, packs } = storedBodies(encodedBodies(bodies), (index) => index === 3);
    expect(packs.firsts).to.deep.equal([0, 64]);
    const lines = packs.firsts.map((_, index) => zstdDecompressSync(part(packs, index)).toString().split("\n"));
    expect(lines).to.deep.equal([
      [...bodies.slice(0, 64).with(3, ""), ""],
      [...bodies.slice(64, 128), ""],
    ]);
    // The last two are too few for a pack of their own.
    expect(inRows.lengths.flatMap((length, index) => (length > 0 ? [index] : []))).to.deep.equal([3, 128, 129]);
  });

  it("leave large bodies in their rows, so that none takes long to read.", async () => {
    const bodies = bodiesOf(64).map((body, index) => (index % 2 === 0 ? body : body.padEnd(20_000)));
    const stored = storedBodies(encodedBodies(bodies), () => false);
    expect(stored.inRows.lengths.filter((length) => length > 0)).to.have.length(32);
    expect(zstdDecompressSync(stored.packs.bytes)).to.have.length.below(64 * 100);
    expect(await bodiesFrom(rowsOf(stored))).to.deep.equal(bodies);
  });

  it("are a small part of what they hold.", () => {
    const { packs } = storedBodies(encodedBodies(bodiesOf(64).map((body) => body.padEnd(3_000, "x"))), () => false);
    expect(packs.bytes.length * 20).to.be.below(64 * 3_000);
  });

  it("give nothing for what they do not hold, so that it does not fit its hash.", async () => {
    const lost = { seq: 7, body: null, packSeq: null, pack: null };
    const broken = { seq: 8, body: null, packSeq: 8, pack: Buffer.from("no frame") };
    expect(await bodiesFrom([lost, broken])).to.deep.equal(["", ""]);
  });
});

describe("a log whose bodies lie in packs", () => {
  const COUNT = 300;
  let workspace: TestWorkspace;
  let agentId: string;
  before(async () => {
    workspace = await openWorkspace();
    agentId = await workspace.agent();
    const conditions = {
      rules: [{ field: "blocked", operator: "==", value: { kind: { case: "boolValue", value: true } } }],
    };
    await workspace.mandate([{ type: RuleType.METADATA, decision: Decision.BLOCK, conditions } as never]);
    const actions = Array.from({ length: COUNT }, (_, index) => ({
      agentId,
      actionType: "read",
      metadata: { blocked: index % 50 === 0 },
    }));
    await Promise.all(actions.map((action) => workspace.intercept(action)));
  });
  after(() => workspace.close());

  it("is as whole as any.", async () => {
    const log = await readLog(workspace.url);
    expect(decisionsOf(log)).to.have.length(COUNT);
    assertIntact(log);
  });

  it("keeps in rows what is not allowed, and nearly all else in packs.", async () => {
    const { pool } = workspace.database;
    const { rows } = await pool.query(
      "select decision, count(*)::int as entries, count(body)::int as bodies from ledger_entry where kind = 0 group by 1",
    );
    const [allowed, blocked] = [1, 2].map((decision) => rows.find((row) => row.decision === decision));
    expect(blocked).to.include({ entries: COUNT / 50, bodies: COUNT / 50 });
    expect(allowed.entries).to.equal(COUNT - COUNT / 50);
    expect(allowed.bodies).to.be.below(COUNT / 10);
  });

  it("shows the same receipts one by one and in pages, newest first.", async () => {
    const { pool } = workspace.database;
    const decisions = decisionsOf(await readLog(workspace.url)).toReversed();
    for (const filter of [{}, { agentId }]) {
      const page = await listDecisionReceipts(pool, "default", filter, { size: COUNT, after: undefined });
      expect(page.items.map(({ body }) => body.decision_id)).to.deep.equal(decisions.map((each) => each.decision_id));
    }
    for (const { decision_id, seq } of decisions.slice(0, 40)) {
      const { body, canonicalBody } = await workspace.receipt(decision_id);
      expect([body.seq, JSON.parse(canonicalBody).seq]).to.deep.equal([seq, seq]);
    }
  });
});
