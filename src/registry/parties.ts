import { type MakerRow, readMakers } from "../store/sql/read-makers.ts";
import type { Reader } from "../store/transaction.ts";
import { partyOfOwner, personFromName } from "./person-name.ts";

/**
 * Returns the words for a party that the key of an answer has in common with one that asked; undefined if they are two.
 *
 * A key counts as itself, its owner, and everyone in the line of those who made it, with their owners. In an answer, a maker that
 * is a key without an owner counts up to the first key with an owner only, so that an administrator's first key can hand out keys
 * to several people; of what a key asked for, none of its makers may approve anything.
 */
export async function sharedParty(
  reader: Reader,
  workspaceId: string,
  answering: string,
  askers: readonly string[],
): Promise<string | undefined> {
  return (await sharedParties(reader, workspaceId, [answering], askers)).get(answering);
}

/** Returns, by the key of each answer that has a party in common with one that asked, the words for that party. */
export async function sharedParties(
  reader: Reader,
  workspaceId: string,
  answering: readonly string[],
  askers: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const keyIds = [...new Set([...answering, ...askers])];
  const { rows } = await reader.query<MakerRow & {}>({ ...readMakers, values: [workspaceId, JSON.stringify(keyIds)] });
  const isAsker = new Set(askers);
  const asked = new Set(rows.filter(({ start }) => isAsker.has(start)).flatMap((row) => [...partiesIn(row).keys()]));
  const shared = new Map<string, string>();
  for (const row of rows) {
    if (!answering.includes(row.start) || shared.has(row.start)) continue;
    if (!countsInAnswer(row)) continue;
    for (const [party, words] of partiesIn(row)) {
      if (!asked.has(party) || shared.has(row.start)) continue;
      shared.set(row.start, words);
    }
  }
  return shared;
}

/** Returns those of some keys that asked which have a party in common with the key of an answer. */
export async function askersSharing(
  reader: Reader,
  workspaceId: string,
  answering: string,
  askers: readonly string[],
): Promise<ReadonlySet<string>> {
  const values = [workspaceId, JSON.stringify([...new Set([answering, ...askers])])];
  const { rows } = await reader.query<MakerRow & {}>({ ...readMakers, values });
  const own = new Set(
    rows.filter((row) => row.start === answering && countsInAnswer(row)).flatMap((row) => [...partiesIn(row).keys()]),
  );
  const isAsker = new Set(askers);
  return new Set(
    rows.flatMap((row) =>
      isAsker.has(row.start) && [...partiesIn(row).keys()].some((party) => own.has(party)) ? [row.start] : [],
    ),
  );
}

/**
 * Returns the words for the key of an answer, or for one that answered before, if it made the other: whoever hands out a key to somebody
 * else answers once. Undefined if neither made the other.
 */
export async function makerAmong(
  reader: Reader,
  workspaceId: string,
  answering: string,
  others: readonly string[],
): Promise<string | undefined> {
  if (others.length === 0) return undefined;
  const values = [workspaceId, JSON.stringify([...new Set([answering, ...others])])];
  const { rows } = await reader.query<MakerRow & {}>({ ...readMakers, values });
  const lineOf = (start: string): ReadonlyMap<string, string> =>
    new Map(rows.filter((row) => row.start === start).flatMap((row) => [...partiesIn(row)]));
  const selfOf = (start: string): readonly string[] =>
    rows.filter(({ start: from, id }) => from === start && id === start).flatMap((row) => [...partiesIn(row).keys()]);
  const line = lineOf(answering);
  for (const other of others) {
    const made = selfOf(other).find((party) => line.has(party));
    if (made !== undefined) return line.get(made);
    const theirs = lineOf(other);
    const maker = selfOf(answering).find((party) => theirs.has(party));
    if (maker !== undefined) return theirs.get(maker);
  }
  return undefined;
}

/** False for a maker without an owner behind a key with one: those may hand out keys to several people. */
const countsInAnswer = ({ id, owned, owner }: MakerRow): boolean =>
  !owned || personFromName(id) !== undefined || owner !== null;

/** Returns the parties of a key or person in a line, with the words for each in a message. */
function partiesIn({ id, owner }: MakerRow): ReadonlyMap<string, string> {
  const parties = new Map([[id, `\`${id}\``]]);
  if (owner !== null) parties.set(partyOfOwner(owner), `owner \`${owner}\``);
  return parties;
}
