import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { doToEnd } from "../../src/async/work.ts";
import { approvedForm, packDigests } from "../../src/provenance/digests.ts";
import { type ObservedRow, SessionValues } from "../../src/provenance/session-values.ts";
import { OBSERVED_SOURCES, type ObservedSource, VALUE_KINDS, type ValueKind } from "../../src/provenance/sources.ts";
import { seededBelow } from "../support/seeded-below.ts";

const KEY = randomBytes(32);
const FORMS = Array.from({ length: 24 }, (_, index) => `value ${index}`);
const TOOLS = ["read_inbox", "search", undefined];
const HISTORIES = 20_000;

const pack = (forms: Iterable<string>): Buffer => doToEnd(packDigests(KEY, forms));

const digests = new Map(FORMS.map((form) => [form, pack([form])]));
/** Orders forms as their digests are: what does not fit is cut in this order. */
const byDigest = (one: string, other: string): number =>
  Buffer.compare(digests.get(one) ?? Buffer.alloc(0), digests.get(other) ?? Buffer.alloc(0));

/** One row of the model: the values by where they were seen, and those that were approved. */
interface Told {
  readonly seq: number;
  readonly tool: string | undefined;
  readonly isPrompt: boolean;
  seen: { source: ObservedSource; form: string }[];
  readonly approved: { kind: ValueKind; form: string }[];
}

/** The same session on plain lists. */
class NaiveSession {
  readonly told: Told[] = [];
  isFull = false;

  get size(): number {
    return this.told.reduce((sum, { seen, approved }) => sum + seen.length + approved.length, 0);
  }

  add(told: Told, most: number): void {
    const knows = (source: ObservedSource, form: string) =>
      this.told.some(({ seen }) => seen.some((each) => each.source === source && each.form === form));
    const isApproved = ({ kind, form }: { kind: ValueKind; form: string }) =>
      this.told.some(({ approved }) => approved.some((each) => each.kind === kind && each.form === form));
    const approved = told.approved.filter((each) => !isApproved(each));
    const seen = told.seen.filter(({ source, form }) => !knows(source, form));
    const wanted = Math.min(most, approved.length + seen.length);
    for (const old of this.told) {
      if (most - this.size >= wanted) break;
      const isUntrusted = old.approved.length === 0 && old.seen.every(({ source }) => source === "untrusted");
      if (!isUntrusted || old.seen.length === 0) continue;
      old.seen = [];
      this.isFull = true;
    }
    let room = most - this.size;
    const kept: Told = { ...told, seen: [], approved: [] };
    const keptApproved = approved.slice(0, room);
    kept.approved.push(...keptApproved);
    room -= keptApproved.length;
    for (const source of OBSERVED_SOURCES) {
      const own = seen.filter((each) => each.source === source).sort((a, b) => byDigest(a.form, b.form));
      const fits = source === "untrusted" && own.length > room ? [] : own.slice(0, room);
      kept.seen.push(...fits);
      room -= fits.length;
      if (fits.length < own.length) this.isFull = true;
    }
    if (keptApproved.length < approved.length) this.isFull = true;
    this.told.push(kept);
  }
}

function rowFrom({ seq, tool, isPrompt, seen, approved }: Told): ObservedRow {
  const bySource = OBSERVED_SOURCES.map(
    (source) => [source, pack(seen.filter((each) => each.source === source).map(({ form }) => form))] as const,
  );
  const all = [...bySource, ["approved", pack(approved.map(({ kind, form }) => approvedForm(kind, form)))] as const];
  const kind = isPrompt ? "prompt" : approved.length > 0 ? "approval" : "result";
  const digests = Object.fromEntries(all.filter(([, packed]) => packed.length > 0));
  return { seq, observationId: `obs_${seq}`, kind, tool, valuesDigest: "", digests };
}

describe("the values of a session", () => {
  it(`are those of plain lists, in ${HISTORIES.toLocaleString("en")} random histories with little room.`, function () {
    this.timeout(120_000);
    const below = seededBelow(46);
    const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T;
    for (let history = 0; history < HISTORIES; history++) {
      const most = 6 + below(30);
      let values = SessionValues.from(KEY, [], false);
      const naive = new NaiveSession();
      // A long history merges its runs.
      const steps = 1 + below(history % 20 === 0 ? 60 : 8);
      for (let seq = 0; seq < steps; seq++) {
        const kind = pick(["prompt", "result", "result", "approval"]);
        const forms = [...new Set(Array.from({ length: below(7) }, () => pick(FORMS)))];
        const sources: readonly ObservedSource[] =
          kind === "prompt" ? ["prompt"] : ["lookup", "session", "untrusted", "untrusted"];
        // One approval at a time, since the order of cut ones is that of their own digests.
        const approved =
          kind === "approval" ? forms.slice(0, 1).map((form) => ({ kind: pick(VALUE_KINDS), form })) : [];
        const seen = kind === "approval" ? [] : forms.map((form) => ({ source: pick(sources), form }));
        const told = {
          seq,
          tool: kind === "result" ? pick(TOOLS) : undefined,
          isPrompt: kind === "prompt",
          seen,
          approved,
        };
        const addition = values.fit(rowFrom(told), most);
        values = values.with(addition);
        naive.add(told, most);
      }
      // As a replica reads them from their rows.
      const read = SessionValues.from(KEY, values.rows, values.isFull);
      for (const each of [values, read]) {
        expect({ count: each.count, isFull: each.isFull }, `history ${history}`).to.deep.equal({
          count: naive.size,
          isFull: naive.isFull,
        });
        expect(each.hasPrompt).to.equal(naive.told.some(({ isPrompt }) => isPrompt));
      }
      for (const form of [pick(FORMS), pick(FORMS), pick(FORMS)]) {
        const want = naive.told.flatMap(({ tool, seen }) =>
          OBSERVED_SOURCES.flatMap((source) =>
            seen.some((each) => each.source === source && each.form === form) ? [{ source, tool }] : [],
          ),
        );
        expect(values.sightingsOf(form), `history ${history}, ${form}`).to.deep.equal(want);
        expect(read.sightingsOf(form)).to.deep.equal(want);
        const kind = pick(VALUE_KINDS);
        const isApproved = naive.told.some(({ approved }) =>
          approved.some((each) => each.kind === kind && each.form === form),
        );
        expect(values.isApproved(kind, form)).to.equal(isApproved);
      }
    }
  });

  it("keep no memory but that of their digests, whatever those were a part of.", () => {
    const inPool = (bytes: Buffer): Buffer => Buffer.from(Buffer.concat([Buffer.alloc(8), bytes])).subarray(8);
    const packed = inPool(pack(FORMS));
    expect(packed.buffer.byteLength).to.be.greaterThan(packed.length);
    const row = (seq: number, digests: ObservedRow["digests"]): ObservedRow => ({
      ...rowFrom({ seq, tool: "read", isPrompt: true, seen: [], approved: [] }),
      digests,
    });
    let values = SessionValues.from(KEY, [], false);
    // All are new, then some, then there is room for some.
    for (const [seq, digests] of [packed.subarray(0, 80), packed.subarray(40, 120), packed].entries())
      values = values.with(values.fit(row(seq, { prompt: inPool(digests), session: inPool(digests) }), 40));
    const kept = values.rows.map(({ digests: { prompt, session } }) => [prompt, session]);
    expect(kept.map((each) => each.map((digests) => (digests?.length ?? 0) / 8))).to.deep.equal([
      [10, 10],
      [5, 5],
      [9, 1],
    ]);
    for (const digests of kept.flat()) expect(digests?.buffer.byteLength).to.equal(digests?.length);
  });

  it("share what stays, so that a change leaves earlier values as they were.", () => {
    const row = (seq: number, forms: readonly string[]): ObservedRow =>
      rowFrom({
        seq,
        tool: "read",
        isPrompt: false,
        seen: forms.map((form) => ({ source: "untrusted", form })),
        approved: [],
      });
    const before = SessionValues.from(KEY, [], false);
    const after = before.with(before.fit(row(1, ["value 1"])));
    expect(before.sightingsOf("value 1")).to.deep.equal([]);
    expect(after.sightingsOf("value 1")).to.deep.equal([{ source: "untrusted", tool: "read" }]);
  });
});
