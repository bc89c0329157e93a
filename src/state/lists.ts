import { Turns } from "../async/turns.ts";
import { doInTurns } from "../async/work.ts";
import type { ListKind } from "../policy/lists/kinds.ts";
import {
  bytesOfValues,
  difference,
  type ListLookup,
  NamedList,
  type SortedValues,
  sortedValues,
  union,
} from "../policy/lists/named-list.ts";
import { readList, readListContent } from "../store/sql/lists.ts";
import type { Reader } from "../store/transaction.ts";
import type { SealedListChange } from "./control-changes.ts";

/** A list in force. */
export interface ListState {
  readonly list: NamedList;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/** Values that a change adds to a list and removes from it, each sorted. */
export interface ListDelta {
  readonly added: SortedValues;
  readonly removed: SortedValues;
}

/** Returns sorted values after a change of them. */
export async function changedValues(before: SortedValues, { added, removed }: ListDelta): Promise<SortedValues> {
  const kept = removed.length === 0 ? before : await doInTurns(difference(before, removed));
  return added.length === 0 ? kept : doInTurns(union(kept, added));
}

/** The named lists of a workspace. */
export class Lists implements ListLookup {
  readonly #lists = new Map<string, ListState>();
  /** List that the change at hand puts in force: reading and merging its values takes more than one turn. */
  #prepared: NamedList | undefined;
  /** True if the values of the prepared list are not at hand. */
  #isUnread = false;
  /**
   * Lists whose values are not at hand, by name, with the digest that they have: the log is behind the list, whose values of then
   * are no longer stored. Until they are read, no action may be decided.
   */
  readonly #unread = new Map<string, string>();
  /** Increases when a list comes or goes. */
  #revision = 0;

  get revision(): number {
    return this.#revision;
  }

  /** Returns a list; undefined if there is none of this name. `state.lists.get(name)?.lookUp(text, fold(text))` tests a text. */
  get(name: string): NamedList | undefined {
    return this.#lists.get(name)?.list;
  }

  names(): Iterable<string> {
    return this.#lists.keys();
  }

  /** The lists, by name. */
  get all(): ReadonlyMap<string, ListState> {
    return this.#lists;
  }

  /** Puts a list in force. */
  put(list: NamedList, { createdAtMs, updatedAtMs }: Pick<ListState, "createdAtMs" | "updatedAtMs">): void {
    if (!this.#lists.has(list.name)) this.#revision += 1;
    this.#lists.set(list.name, { list, createdAtMs, updatedAtMs });
  }

  /** True while values are not at hand. */
  get hasUnread(): boolean {
    return this.#unread.size > 0;
  }

  /** Keeps the list that the next change puts in force. MUST be called before `fold`, for any but a deletion. */
  prepare(list: NamedList): void {
    this.#prepared = list;
    this.#isUnread = false;
  }

  /** Folds a change. */
  fold(change: SealedListChange, atMs: number): void {
    const { name, kind, digest_after: digest } = change;
    this.#unread.delete(name);
    if (digest === null) {
      this.#lists.delete(name);
      this.#revision += 1;
      return;
    }
    const list = this.#prepared;
    if (list?.name !== name || list.kind !== kind || list.digest !== digest)
      throw new Error(`the values of list \`${name}\` are not at hand`);
    this.#prepared = undefined;
    if (this.#isUnread) this.#unread.set(name, digest);
    this.#isUnread = false;
    this.put(list, { createdAtMs: this.#lists.get(name)?.createdAtMs ?? atMs, updatedAtMs: atMs });
  }

  /**
   * Prepares a change that another replica sealed: from the values in its entry, or from those that are stored under its digest. If these
   * are gone, because the list has changed since, `readUnread` MUST be called once later entries are folded.
   */
  async prepareSealed(reader: Reader, workspaceId: string, change: SealedListChange): Promise<void> {
    const { name, kind, digest_after: digest } = change;
    if (digest === null) return;
    const values = await this.#valuesAfter(reader, workspaceId, change, digest);
    this.prepare(await createList(name, kind, values ?? [], digest));
    this.#isUnread = values === undefined;
  }

  async #valuesAfter(
    reader: Reader,
    workspaceId: string,
    { name, is_cut, added_values, removed_values }: SealedListChange,
    digest: string,
  ): Promise<SortedValues | undefined> {
    if (is_cut) return findContent(reader, workspaceId, digest);
    if (this.#unread.has(name)) return undefined;
    const before = this.#lists.get(name)?.list.values ?? [];
    return changedValues(before, { added: added_values, removed: removed_values });
  }

  /** Reads the values that are not at hand. Returns false if a list has changed since: then entries that follow are to be folded first. */
  async readUnread(reader: Reader, workspaceId: string): Promise<boolean> {
    for (const [name, digest] of this.#unread) {
      type Row = ListRow & { readonly parts: readonly string[] };
      const { rows } = await reader.query<Row>({ ...readList, values: [workspaceId, name] });
      const [row] = rows;
      if (row?.digest !== digest) return false;
      const list = await listFrom(row, await valuesFromParts(row.parts));
      this.put(list, this.#lists.get(name) ?? row);
      this.#unread.delete(name);
    }
    return true;
  }
}

async function valuesFromParts(parts: readonly string[]): Promise<SortedValues> {
  const turns = new Turns();
  const values: string[] = [];
  for (const part of parts) {
    for (const each of JSON.parse(part) as string[]) values.push(each);
    await turns.giveWay();
  }
  return values;
}

/** Builds a list of sorted values whose digest is known. */
async function createList(name: string, kind: ListKind, values: SortedValues, digest: string): Promise<NamedList> {
  return new NamedList({ name, kind, values, digest, bytes: await doInTurns(bytesOfValues(values)) });
}

/** Reads the values that are stored under a digest; undefined if they are not, or no longer. */
async function findContent(reader: Reader, workspaceId: string, digest: string): Promise<SortedValues | undefined> {
  const values: string[] = [];
  for (let part = 0; ; part++) {
    const { rows } = await reader.query<{ values: string; isLast: boolean }>({
      ...readListContent,
      values: [workspaceId, digest, part],
    });
    const [row] = rows;
    if (row === undefined) return undefined;
    for (const each of JSON.parse(row.values) as string[]) values.push(each);
    if (row.isLast) return values;
  }
}

/** Row of a list: the values stored under `baseDigest`, and what changed since. */
export interface ListRow {
  readonly name: string;
  readonly kind: ListKind;
  readonly digest: string;
  /** Null for a list that is kept in its row alone. */
  readonly baseDigest: string | null;
  /** JSON arrays of values. */
  readonly added: string;
  readonly removed: string;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/** Reads the values of a list from its row. */
export async function listFromRow(reader: Reader, workspaceId: string, row: ListRow): Promise<NamedList> {
  const base = row.baseDigest === null ? [] : await findContent(reader, workspaceId, row.baseDigest);
  if (base === undefined) throw new Error(`the values of list \`${row.name}\` are missing`);
  return listFrom(row, base);
}

async function listFrom(row: ListRow, base: SortedValues): Promise<NamedList> {
  const sorted = (text: string): Promise<SortedValues> => doInTurns(sortedValues(JSON.parse(text) as string[]));
  const delta = { added: await sorted(row.added), removed: await sorted(row.removed) };
  return createList(row.name, row.kind, await changedValues(base, delta), row.digest);
}
