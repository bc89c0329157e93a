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
  const keyIds = [...new Set([answering, ...askers])];
  const { rows } = await reader.query<MakerRow & {}>({ ...readMakers, values: [workspaceId, JSON.stringify(keyIds)] });
  const isAsker = new Set(askers);
  const asked = new Set(rows.filter(({ start }) => isAsker.has(start)).flatMap((row) => [...partiesIn(row).keys()]));
  for (const row of rows) {
    if (row.start !== answering || (row.owned && personFromName(row.id) === undefined && row.owner === null)) continue;
    for (const [party, words] of partiesIn(row)) if (asked.has(party)) return words;
  }
  return undefined;
}

/** Returns the parties of a key or person in a line, with the words for each in a message. */
function partiesIn({ id, owner }: MakerRow): ReadonlyMap<string, string> {
  const parties = new Map([[id, `\`${id}\``]]);
  if (owner !== null) parties.set(partyOfOwner(owner), `owner \`${owner}\``);
  return parties;
}
