import { createSecretKey, type KeyObject } from "node:crypto";
import { approvedForm, DIGEST_BYTES, digestOf, ownedBytes } from "./digests.ts";
import {
  OBSERVED_SOURCES,
  type ObservedSource,
  type SessionKnowledge,
  type Sighting,
  type ValueKind,
} from "./sources.ts";

/** Maximum digests of a session. */
export const MAX_SESSION_DIGESTS = 20_000;
/** Runs of digests after which they are merged into one, so that a lookup searches few. */
const MAX_RUNS = 12;

/** Origin of an observation: the agent's prompt, the result of a call, or the approval of a person. */
export type ObservedKind = "prompt" | "result" | "approval";

/** One observation of a session, as its row keeps it. */
export interface ObservedRow {
  /** Index of its entry in the log. */
  readonly seq: number;
  /** The observation; that of a result has the id of its decision. */
  readonly observationId: string;
  readonly kind: ObservedKind;
  /** Tool in whose result the values stand; undefined for a prompt and for an approval. */
  readonly tool: string | undefined;
  /** Keyed digest of the content, lower-case hexadecimal; empty for an approval. */
  readonly valuesDigest: string;
  /** Sorted digests by source, joined; those of an approval under `approved`. */
  readonly digests: Readonly<Partial<Record<ObservedSource | "approved", Buffer>>>;
}

type KeptSource = ObservedSource | "approved";

/** Sorted digests, each with the index of its row. */
interface Run {
  readonly high: Uint32Array;
  readonly low: Uint32Array;
  readonly tags: Uint32Array;
}

/** A row and one of its sources; a tag is an index of these. */
interface Origin {
  readonly row: ObservedRow;
  readonly source: KeptSource;
}

const countOf = (digests: Buffer | undefined): number => (digests?.length ?? 0) / DIGEST_BYTES;

/** Returns the number of digests of a row. */
export const digestCount = ({ digests }: ObservedRow): number =>
  Object.values(digests).reduce((sum, each) => sum + countOf(each), 0);

/** Addition of a row to a session, and the rows that make room for it. */
export interface Addition {
  readonly row: ObservedRow;
  /** Indexes of the entries of rows that the session forgets. */
  readonly dropped: readonly number[];
  /** True if values were left out or forgotten. */
  readonly isFull: boolean;
}

/**
 * The values of one session: sorted digests of what it observed, by source and tool. Immutable: a change makes another one, which
 * shares what stays.
 */
export class SessionValues implements SessionKnowledge {
  readonly key: Buffer;
  readonly isFull: boolean;
  readonly rows: readonly ObservedRow[];
  readonly #secret: KeyObject;
  readonly #origins: readonly Origin[];
  readonly #runs: readonly Run[];
  readonly count: number;

  private constructor(
    key: Buffer,
    content: Pick<SessionValues, "isFull" | "rows" | "count">,
    origins: readonly Origin[],
    runs: readonly Run[],
  ) {
    this.key = key;
    this.#secret = createSecretKey(key);
    this.isFull = content.isFull;
    this.rows = content.rows;
    this.count = content.count;
    this.#origins = origins;
    this.#runs = runs;
  }

  /** Builds the values of a session from its rows, in the order of the log. */
  static from(key: Buffer, rows: readonly ObservedRow[], isFull: boolean): SessionValues {
    const origins = rows.flatMap(originsOf);
    const count = rows.reduce((sum, row) => sum + digestCount(row), 0);
    const runs = origins.length === 0 ? [] : [runFrom(origins, 0)];
    return new SessionValues(key, { isFull, rows, count }, origins, runs);
  }

  get hasPrompt(): boolean {
    return this.rows.some(({ kind }) => kind === "prompt");
  }

  /** Finds an observation by its id. */
  row(observationId: string): ObservedRow | undefined {
    return this.rows.find((row) => row.observationId === observationId);
  }

  /** Bytes that it takes in memory, for the bound of a cache. */
  get bytes(): number {
    return 512 + this.rows.length * 768 + this.count * (DIGEST_BYTES + 12);
  }

  sightingsOf(form: string): readonly Sighting[] {
    return this.#originsOf(digestOf(this.#secret, form)).flatMap(({ row: { tool }, source }): Sighting[] =>
      source === "approved" ? [] : [{ source, tool }],
    );
  }

  isApproved(kind: ValueKind, form: string): boolean {
    if (!this.#origins.some(({ source }) => source === "approved")) return false;
    return this.#originsOf(digestOf(this.#secret, approvedForm(kind, form))).some(
      ({ source }) => source === "approved",
    );
  }

  /**
   * Returns what is new in a row, within the room of the session: its oldest rows that are untrusted alone make room; untrusted values
   * that still do not fit are left out, then trusted ones from the end. `most`: digests of a session.
   */
  fit(row: ObservedRow, most = MAX_SESSION_DIGESTS): Addition {
    const fresh = Object.fromEntries(
      Object.entries(row.digests).map(([source, digests]) => [
        source,
        this.#withoutKnown(source as KeptSource, digests),
      ]),
    ) as Partial<Record<KeptSource, Buffer>>;
    const trusted = KEPT_SOURCES.filter((source) => source !== "untrusted").reduce(
      (sum, source) => sum + countOf(fresh[source]),
      0,
    );
    const untrusted = countOf(fresh.untrusted);
    let room = most - this.count;
    const dropped: number[] = [];
    const wanted = Math.min(most, trusted + untrusted);
    for (const old of this.rows) {
      if (room >= wanted) break;
      const ofOld = digestCount(old);
      if (ofOld === 0 || countOf(old.digests.untrusted) < ofOld) continue;
      dropped.push(old.seq);
      room += ofOld;
    }
    const digests: Partial<Record<KeptSource, Buffer>> = {};
    let isCut = false;
    for (const source of KEPT_SOURCES) {
      const all = fresh[source];
      if (all === undefined || all.length === 0) continue;
      const fits = source === "untrusted" && countOf(all) > room ? 0 : Math.min(countOf(all), room);
      isCut ||= fits < countOf(all);
      if (fits > 0) digests[source] = ownedBytes(all.subarray(0, fits * DIGEST_BYTES));
      room -= fits;
    }
    return { row: { ...row, digests }, dropped, isFull: this.isFull || isCut || dropped.length > 0 };
  }

  /** Returns the values with what `fit` gave. */
  with({ row, dropped, isFull }: Addition): SessionValues {
    const before = dropped.length === 0 ? this : this.#without(new Set(dropped));
    const added = originsOf(row);
    const runs = added.length === 0 ? before.#runs : [...before.#runs, runFrom(added, before.#origins.length)];
    return new SessionValues(
      this.key,
      { isFull, rows: [...before.rows, row], count: before.count + digestCount(row) },
      [...before.#origins, ...added],
      runs.length > MAX_RUNS ? [mergeAll(runs)] : runs,
    );
  }

  /** Returns the values without those of some rows, which stay as empty ones. */
  #without(gone: ReadonlySet<number>): SessionValues {
    const rows = this.rows.map((row) => (gone.has(row.seq) ? { ...row, digests: {} } : row));
    const origins = this.#origins.filter(({ row }) => !gone.has(row.seq));
    let tag = 0;
    const tags = Int32Array.from(this.#origins, ({ row }) => (gone.has(row.seq) ? -1 : tag++));
    const runs = this.#runs.map((run) => retagged(run, tags)).filter(({ high }) => high.length > 0);
    const count = runs.reduce((sum, { high }) => sum + high.length, 0);
    return new SessionValues(this.key, { isFull: true, rows, count }, origins, runs);
  }

  #withoutKnown(source: KeptSource, digests: Buffer): Buffer {
    const wanted = runOf(digests, 0);
    const isKnown = new Uint8Array(wanted.high.length);
    for (const run of this.#runs) {
      // Both are sorted.
      for (let at = 0, place = 0; at < wanted.high.length && place < run.high.length; ) {
        const difference = compare(wanted, at, run, place);
        if (difference === 0 && this.#origins[run.tags[place] as number]?.source === source) isKnown[at] = 1;
        if (difference < 0) at++;
        else place++;
      }
    }
    const fresh = Buffer.alloc(digests.length);
    let end = 0;
    for (let at = 0; at < wanted.high.length; at++) {
      if (isKnown[at] === 1) continue;
      end = fresh.writeUInt32BE(wanted.high[at] as number, end);
      end = fresh.writeUInt32BE(wanted.low[at] as number, end);
    }
    return fresh.subarray(0, end);
  }

  #originsOf(digest: Buffer): readonly Origin[] {
    const high = digest.readUInt32BE(0);
    const low = digest.readUInt32BE(4);
    const tags = this.#runs.flatMap((run) => tagsIn(run, high, low));
    return tags.sort((a, b) => a - b).map((tag) => this.#origins[tag] as Origin);
  }
}

/** Sources in the order in which a row keeps them when room is short: trusted ones first. */
const KEPT_SOURCES: readonly KeptSource[] = ["approved", ...OBSERVED_SOURCES];

function originsOf(row: ObservedRow): Origin[] {
  return KEPT_SOURCES.filter((source) => countOf(row.digests[source]) > 0).map((source) => ({ row, source }));
}

/** Merges the digests of some origins, whose tags begin at a number. */
function runFrom(origins: readonly Origin[], firstTag: number): Run {
  return mergeAll(origins.map(({ row, source }, index) => runOf(row.digests[source] as Buffer, firstTag + index)));
}

function mergeAll(all: readonly Run[]): Run {
  let runs = all;
  while (runs.length > 1) {
    const merged: Run[] = [];
    for (let index = 0; index < runs.length; index += 2) {
      const [one, other] = runs.slice(index, index + 2) as [Run, Run?];
      merged.push(other === undefined ? one : mergeRuns(one, other));
    }
    runs = merged;
  }
  return runs[0] as Run;
}

const createRun = (size: number): Run => ({
  high: new Uint32Array(size),
  low: new Uint32Array(size),
  tags: new Uint32Array(size),
});

function runOf(digests: Buffer, tag: number): Run {
  const run = createRun(countOf(digests));
  for (let at = 0; at < run.high.length; at++) {
    run.high[at] = digests.readUInt32BE(at * DIGEST_BYTES);
    run.low[at] = digests.readUInt32BE(at * DIGEST_BYTES + DIGEST_BYTES / 2);
    run.tags[at] = tag;
  }
  return run;
}

/** Merges two runs. Of equal digests those of the first come first. */
function mergeRuns(one: Run, other: Run): Run {
  const merged = createRun(one.high.length + other.high.length);
  let left = 0;
  let right = 0;
  for (let at = 0; at < merged.high.length; at++) {
    const isLeft = right === other.high.length || (left < one.high.length && compare(one, left, other, right) <= 0);
    const [from, place] = isLeft ? [one, left++] : [other, right++];
    merged.high[at] = from.high[place] as number;
    merged.low[at] = from.low[place] as number;
    merged.tags[at] = from.tags[place] as number;
  }
  return merged;
}

/** Gives the digests of a run other tags, and leaves out those whose tag becomes -1. */
function retagged({ high, low, tags }: Run, others: Int32Array): Run {
  const run = createRun(high.length);
  let size = 0;
  for (let place = 0; place < high.length; place++) {
    const tag = others[tags[place] as number] as number;
    if (tag < 0) continue;
    run.high[size] = high[place] as number;
    run.low[size] = low[place] as number;
    run.tags[size++] = tag;
  }
  return { high: run.high.slice(0, size), low: run.low.slice(0, size), tags: run.tags.slice(0, size) };
}

/** Compares digests of two runs: negative if the first one's comes first. */
const compare = (one: Run, left: number, other: Run, right: number): number =>
  (one.high[left] as number) - (other.high[right] as number) ||
  (one.low[left] as number) - (other.low[right] as number);

function tagsIn({ high, low, tags }: Run, wantedHigh: number, wantedLow: number): number[] {
  let first = 0;
  let end = high.length;
  while (first < end) {
    const middle = (first + end) >>> 1;
    const at = high[middle] as number;
    if (at < wantedHigh || (at === wantedHigh && (low[middle] as number) < wantedLow)) first = middle + 1;
    else end = middle;
  }
  const found: number[] = [];
  for (let at = first; high[at] === wantedHigh && low[at] === wantedLow; at++) found.push(tags[at] as number);
  return found;
}
