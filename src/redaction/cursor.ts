import type { PageRequest } from "../registry/page.ts";

const CURSOR = /^(\d{1,16}) (\S+)$/;

/** Cursor of an item in a list with the newest item first. */
export const cursorOf = ({ createdAtMs }: { readonly createdAtMs: number }, id: string): string =>
  `${createdAtMs} ${id}`;

/** Condition and options of the query for a page with the newest item first, and one item more. */
export function newestFirst(idColumn: string, { size, after = "" }: PageRequest<string>) {
  const [, at, id] = CURSOR.exec(after) ?? [];
  const createdAtMs = Number(at);
  const where =
    at === undefined ? {} : { $or: [{ createdAtMs: { $lt: createdAtMs } }, { createdAtMs, [idColumn]: { $lt: id } }] };
  return { where, options: { orderBy: [{ createdAtMs: "desc" }, { [idColumn]: "desc" }], limit: size + 1 } as never };
}
