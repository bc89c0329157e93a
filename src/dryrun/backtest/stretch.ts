import type { ControlChange } from "../../state/control-changes.ts";
import type { EscalationStatus } from "../../state/escalations.ts";
import { escalationStatusFromNumber } from "../../state/types.ts";
import { findFirstAfter, readChanges, readStretch } from "../../store/sql/read-decisions.ts";
import { readAuthorityFacts, readEscalationStatuses } from "../../store/sql/read-workspace.ts";
import type { Reader, ReadOnlyDatabase } from "../../store/transaction.ts";
import type { Pace } from "../pace.ts";

/**
 * Maximum entries of a page, and maximum bytes of their bodies: parsing them keeps the event loop busy for some milliseconds.
 */
const PAGE = 128;
const PAGE_BYTES = 1_048_576;
/** Maximum number of changes of a page. */
const CHANGES = 1_000;

/** One entry of a stretch. */
export interface StretchEntry {
  readonly seq: number;
  readonly atMs: number;
  readonly kind: number;
  readonly entryId: string;
  /** Normalised; null for a change. */
  readonly actionType: string | null;
  readonly body: string;
}

/** Facts of a grant or token that decisions depend on, ended or not. */
export interface AuthorityFact {
  readonly id: string;
  readonly grantorAgentId: string | null;
  readonly maxTrustTenths: number | null;
}

/** A change with its place in the log. */
export interface PlacedChange {
  readonly change: ControlChange;
  readonly seq: number;
  readonly atMs: number;
  /** Author of the change. */
  readonly by: string;
}

/** Reads the log of a workspace, up to a size, in READ ONLY transactions. */
export class Stretch {
  readonly #database: ReadOnlyDatabase;
  readonly #workspaceId: string;

  constructor(database: ReadOnlyDatabase, workspaceId: string) {
    this.#database = database;
    this.#workspaceId = workspaceId;
  }

  /** Runs `read` in a READ ONLY transaction. */
  within<T>(read: (reader: Reader) => Promise<T>): Promise<T> {
    return this.#database.snapshot(read);
  }

  /** Returns the time of an entry, epoch milliseconds; 0 before the first. */
  timeOf(seq: number): Promise<number> {
    return this.within(async (reader) => {
      const values = [this.#workspaceId, seq, seq + 1, 1, PAGE_BYTES];
      return (await reader.query<StretchEntry & {}>({ ...readStretch, values })).rows[0]?.atMs ?? 0;
    });
  }

  /** Returns the first index whose entry is later than a time; `size` if none is. */
  firstAfter(atMs: number, size: number): Promise<number> {
    return this.within(async (client) => {
      const values = [this.#workspaceId, atMs, size];
      return (await client.query<{ seq: number }>({ ...findFirstAfter, values })).rows[0]?.seq ?? size;
    });
  }

  /**
   * Reads the entries from one index up to another, page by page, each with what `withPage` reads for it. While a page is in use
   * the next one is read.
   */
  async *pages<T>(
    from: number,
    before: number,
    withPage: (reader: Reader, entries: readonly StretchEntry[]) => Promise<T>,
    pace: Pace,
  ): AsyncGenerator<T> {
    const read = (next: number) =>
      this.within(async (client) => {
        const values = [this.#workspaceId, next, before, PAGE, PAGE_BYTES];
        const { rows } = await client.query<StretchEntry>({ ...readStretch, values });
        const last = rows.at(-1);
        if (last === undefined) throw new Error(`entry ${next} is missing from the log of \`${this.#workspaceId}\``);
        return { nextSeq: last.seq + 1, result: await withPage(client, rows) };
      });
    let reading = from < before ? pace.reads(read(from)) : undefined;
    try {
      while (reading !== undefined) {
        const { nextSeq, result } = await reading;
        reading = nextSeq < before ? pace.reads(read(nextSeq)) : undefined;
        // Its error is thrown when its turn comes.
        reading?.catch(() => undefined);
        yield result;
      }
    } finally {
      await reading?.catch(() => undefined);
    }
  }

  /** Reads the changes before an index, oldest first. */
  async *changesBefore(before: number): AsyncGenerator<PlacedChange> {
    for (let next = 0; ; ) {
      const values = [this.#workspaceId, next, before, CHANGES];
      type Row = { seq: number; atMs: number; body: string };
      const rows = await this.within(async (client) => (await client.query<Row>({ ...readChanges, values })).rows);
      for (const { seq, atMs, body } of rows) {
        const change = JSON.parse(body) as ControlChange & { readonly by: string };
        yield { seq, atMs, by: change.by, change };
      }
      const last = rows.at(-1);
      if (last === undefined || rows.length < CHANGES) return;
      next = last.seq + 1;
    }
  }

  /** Reads facts of grants and tokens. */
  async authorityFacts(reader: Reader, ids: readonly string[]): Promise<readonly AuthorityFact[]> {
    if (ids.length === 0) return [];
    return (await reader.query<AuthorityFact & {}>({ ...readAuthorityFacts, values: [this.#workspaceId, ids] })).rows;
  }

  /** Reads the statuses of escalations. */
  async escalationStatuses(ids: readonly string[]): Promise<ReadonlyMap<string, EscalationStatus>> {
    if (ids.length === 0) return new Map();
    const rows = await this.within(async (client) => {
      type Row = { escalationId: string; status: number };
      return (await client.query<Row>({ ...readEscalationStatuses, values: [this.#workspaceId, ids] })).rows;
    });
    return new Map(rows.map(({ escalationId, status }) => [escalationId, escalationStatusFromNumber(status)]));
  }
}
