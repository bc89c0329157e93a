import { type MakerRow, readMakers } from "../store/sql/read-makers.ts";
import type { Reader } from "../store/transaction.ts";
import { partyOfOwner, personFromName } from "./person-name.ts";

/**
 * Lines of some keys and people: each with everyone who made it, and their owners.
 *
 * A key counts as itself, its owner, and everyone in its line, with their owners. In an answer, a maker that is a key without an owner
 * counts up to the first key with an owner only, so that an administrator's first key can hand out keys to several people; of what a
 * key asked for, none of its makers may approve anything.
 */
export class PartyLines {
  readonly #rows: ReadonlyMap<string, readonly MakerRow[]>;

  constructor(rows: readonly MakerRow[]) {
    this.#rows = Map.groupBy(rows, ({ start }) => start);
  }

  /** Returns the words for a party that the key of an answer has in common with one that asked; undefined if they are two. */
  shared(answering: string, askers: readonly string[]): string | undefined {
    const asked = new Set(askers.flatMap((asker) => [...this.#lineOf(asker).keys()]));
    return firstIn(this.#lineOf(answering, countsInAnswer), asked);
  }

  /**
   * Returns the words for the key of an answer, or for one that answered before, if it made the other: whoever hands out a key to
   * somebody else answers once. Undefined if neither made the other.
   */
  makerAmong(answering: string, others: readonly string[]): string | undefined {
    for (const other of others) {
      const found =
        firstIn(this.#lineOf(answering), this.#selfOf(other)) ?? firstIn(this.#lineOf(other), this.#selfOf(answering));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Parties of a line, with the words for each in a message. */
  #lineOf(start: string, counts: (row: MakerRow) => boolean = () => true): ReadonlyMap<string, string> {
    return new Map((this.#rows.get(start) ?? []).filter(counts).flatMap((row) => [...partiesIn(row)]));
  }

  /** Parties of a key or person without its makers. */
  #selfOf(start: string): ReadonlySet<string> {
    return new Set(this.#lineOf(start, ({ id }) => id === start).keys());
  }
}

/** Reads the lines of some keys and people. */
export async function readPartyLines(reader: Reader, workspaceId: string, ids: Iterable<string>): Promise<PartyLines> {
  const wanted = [...new Set(ids)];
  if (wanted.length === 0) return new PartyLines([]);
  const { rows } = await reader.query<MakerRow & {}>({ ...readMakers, values: [workspaceId, JSON.stringify(wanted)] });
  return new PartyLines(rows);
}

/** Returns the words of the first party of a line that is in a set. */
function firstIn(line: ReadonlyMap<string, string>, parties: ReadonlySet<string>): string | undefined {
  for (const [party, words] of line) if (parties.has(party)) return words;
  return undefined;
}

/** False for a maker without an owner behind a key with one: those may hand out keys to several people. */
const countsInAnswer = ({ id, owned, owner }: MakerRow): boolean =>
  !owned || personFromName(id) !== undefined || owner !== null;

function partiesIn({ id, owner }: MakerRow): readonly (readonly [string, string])[] {
  const self = [id, `\`${id}\``] as const;
  return owner === null ? [self] : [self, [partyOfOwner(owner), `owner \`${owner}\``]];
}
