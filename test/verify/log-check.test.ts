import { expect } from "chai";
import { verifyCheckpoint } from "../../src/verify/checkpoint.ts";
import type { LogEntry } from "../../src/verify/entry.ts";
import { LogCheck } from "../../src/verify/log-check.ts";
import { publicKeyFromPem } from "../../src/verify/public-key.ts";
import { type Draft, decisions, type WriteOptions, writeLog } from "../cli/written-log.ts";

/** More entries than are hashed together, so that the log has a second batch. */
const SIZE = 1_100;
const LAST = SIZE - 1;

async function checked(options: WriteOptions = {}, drafts: readonly Draft[] = decisions(SIZE)) {
  const log = writeLog(drafts, { batches: [1, 200], ...options });
  const key = await publicKeyFromPem(log.publicPem);
  if (key === undefined) throw new Error("no key");
  const entries = log.entries.map(
    ({ index, leaf_hash, body }): LogEntry => ({ index, leafHash: Buffer.from(leaf_hash, "base64"), body }),
  );
  const signed = (size?: number) => verifyCheckpoint(log.checkpoint(size), [key]);
  return { entries, checkpoint: await signed(), signed };
}

/** Yields entries, and fails at some point. */
async function* broken(entries: readonly LogEntry[], error: unknown): AsyncGenerator<LogEntry> {
  yield* entries;
  throw error;
}

async function* all(entries: readonly LogEntry[]): AsyncGenerator<LogEntry> {
  yield* entries;
}

const refusalOf = (checking: Promise<void>): Promise<unknown> =>
  checking.then(
    () => undefined,
    (error: unknown) => error,
  );

describe("the check of a log", () => {
  it("holds across batches, and gives every entry in order once it was checked.", async () => {
    const { entries, checkpoint, signed } = await checked();
    const seen: number[] = [];
    const earlier = [await signed(0), await signed(601), await signed(1_000), await signed(SIZE)];
    await new LogCheck(checkpoint, earlier).run(all(entries), ({ seq }, { index }) => {
      expect(seq).to.equal(index);
      seen.push(index);
    });
    expect(seen).to.deep.equal(entries.map(({ index }) => index));
  });

  for (const index of [0, 1, 999, 1_000, 1_001, LAST]) {
    it(`finds a changed leaf at entry ${index}, and gives none from there on.`, async () => {
      const { entries, checkpoint } = await checked();
      const wrong = entries.with(index, { ...(entries[index] as LogEntry), leafHash: new Uint8Array(32) });
      let count = 0;
      const refusal = await refusalOf(new LogCheck(checkpoint).run(all(wrong), () => count++));
      expect(refusal).to.include({ fault: "leaf_hash", index });
      expect(count).to.equal(index);
    });
  }

  it("finds the first of several faults, whatever they are.", async () => {
    const { entries, checkpoint } = await checked({
      distort: (body, at) => (at === 700 ? body.replace(":", ": ") : body),
    });
    const wrong = entries.with(800, { ...(entries[800] as LogEntry), leafHash: new Uint8Array(32) });
    const refusal = await refusalOf(new LogCheck(checkpoint).run(all(wrong)));
    expect(refusal).to.include({ fault: "canonical", index: 700 });
  });

  const ABOUT = { decision_id: "dec_1" };
  const CLAIM = { ...ABOUT, type: "claim", claim_id: "c1" };
  const OUTCOME = { ...ABOUT, type: "outcome", status: "unknown", settles: false };
  const SETTLEMENT = { ...OUTCOME, status: "failed", settles: true };
  const FOLLOW_UPS: readonly (readonly [what: string, drafts: readonly Draft[], refusedAt: number | undefined])[] = [
    ["a claim, an unknown outcome and its settlement", [CLAIM, OUTCOME, SETTLEMENT], undefined],
    ["claims of several decisions", [CLAIM, { ...CLAIM, decision_id: "dec_2" }], undefined],
    ["two claims of one decision", [CLAIM, { ...CLAIM, claim_id: "c2" }], 4],
    ["two outcomes of one decision", [OUTCOME, CLAIM, { ...OUTCOME, status: "succeeded" }], 5],
    ["two settlements", [OUTCOME, SETTLEMENT, SETTLEMENT], 5],
    ["a claim of an action that its decision claims", [{ ...CLAIM, decision_id: "dec_mine" }], 4],
  ];
  for (const [what, drafts, refusedAt] of FOLLOW_UPS) {
    it(`${refusedAt === undefined ? "takes" : "refuses"} ${what}.`, async () => {
      const own = { ...(decisions(1)[0] as Draft), decision_id: "dec_mine", claim_id: "c0" };
      const begin = refusedAt === 4 && drafts.length === 1 ? [...decisions(3), own] : decisions(3);
      const { entries, checkpoint } = await checked({}, [...begin, ...drafts]);
      const refusal = await refusalOf(new LogCheck(checkpoint).run(all(entries)));
      if (refusedAt === undefined) expect(refusal).to.equal(undefined);
      else expect(refusal).to.include({ fault: "duplicate_id", index: refusedAt });
    });
  }

  it("reports a fault before the place where reading broke off, and otherwise why it did.", async () => {
    const { entries, checkpoint } = await checked();
    const error = new Error("the cable");
    const some = entries.slice(0, 50);
    expect(await refusalOf(new LogCheck(checkpoint).run(broken(some, error)))).to.equal(error);
    const wrong = some.with(20, { ...(some[20] as LogEntry), body: "{}" });
    const refusal = await refusalOf(new LogCheck(checkpoint).run(broken(wrong, error)));
    expect(refusal).to.include({ fault: "leaf_hash", index: 20 });
  });

  it("stops reading at the first fault.", async () => {
    const { entries, checkpoint } = await checked();
    let isClosed = false;
    async function* endless(): AsyncGenerator<LogEntry> {
      try {
        for (;;) yield entries[0] as LogEntry;
      } finally {
        isClosed = true;
      }
    }
    const refusal = await refusalOf(new LogCheck(checkpoint).run(endless()));
    expect(refusal).to.include({ fault: "order", index: 1 });
    expect(isClosed).to.equal(true);
  });

  it("does not let large bodies pile up before they are checked.", async () => {
    const body = "x".repeat(3_000_000);
    let read = 0;
    async function* large(): AsyncGenerator<LogEntry> {
      for (; read < 100; read++) yield { index: read, leafHash: new Uint8Array(32), body };
    }
    const { checkpoint } = await checked();
    await refusalOf(new LogCheck(checkpoint).run(large()));
    expect(read).to.be.below(3);
  });
});
