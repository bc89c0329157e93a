import type { ListLookup, Lookup, NamedList } from "./named-list.ts";

/** A list as a decision used it. */
export interface UsedList {
  readonly name: string;
  /** Undefined for a list that did not exist. */
  readonly digest: string | undefined;
  /** Values of the list that texts of the action matched, sorted, the first 10 at most. */
  readonly matched: readonly string[];
}

/** Maximum values of a list that are named as matched. */
const MAX_MATCHED = 10;

/** Use of one list. */
interface Use {
  readonly list: NamedList | undefined;
  readonly matched: Set<string>;
}

const NONE: readonly UsedList[] = [];

/** The lists of a decision, with a note of those that its rules looked into. */
export class UsedLists {
  readonly lookup: ListLookup;
  #used = new Map<string, Use>();

  constructor(lookup: ListLookup) {
    this.lookup = lookup;
  }

  /** Returns a list and notes its use; undefined if there is none of this name. */
  use(name: string): NamedList | undefined {
    return this.#useOf(name).list;
  }

  /** Looks a text up in a list, and notes the value that it matches. `folded` is the text as `fold` gives it. */
  lookUp({ name }: NamedList, text: string, folded: string): Lookup {
    const { list, matched } = this.#useOf(name);
    const { found, value } = list?.find(text, folded) ?? { found: "unreadable", value: undefined };
    if (value !== undefined) matched.add(value);
    return found;
  }

  /** Runs a task, and returns its result with the lists that it used. */
  during<T>(task: () => T): { readonly result: T; readonly lists: readonly UsedList[] } {
    const before = this.#used;
    this.#used = new Map();
    try {
      return { result: task(), lists: this.used };
    } finally {
      for (const [name, { list, matched }] of this.#used) {
        before.set(name, { list, matched: new Set([...matched, ...(before.get(name)?.matched ?? [])]) });
      }
      this.#used = before;
    }
  }

  /** The lists that were used, by name. */
  get used(): readonly UsedList[] {
    if (this.#used.size === 0) return NONE;
    return [...this.#used]
      .map(([name, { list, matched }]) => ({
        name,
        digest: list?.digest,
        matched: [...matched].sort().slice(0, MAX_MATCHED),
      }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  #useOf(name: string): Use {
    const known = this.#used.get(name);
    if (known !== undefined) return known;
    const use = { list: this.lookup.get(name), matched: new Set<string>() };
    this.#used.set(name, use);
    return use;
  }
}
