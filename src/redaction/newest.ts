const POSITION = /^(\d{1,16}) (\S+)$/;

/** The position of an item in a list whose newest item comes first. */
export const newestPosition = ({ createdAtMs }: { readonly createdAtMs: number }, id: string): string =>
  `${createdAtMs} ${id}`;

/** What is in such a list after a position, as a condition on rows; everything when there is none. */
export function afterNewest(idColumn: string, position: string | undefined): object {
  const [, at, id] = POSITION.exec(position ?? "") ?? [];
  if (at === undefined) return {};
  const createdAtMs = Number(at);
  return { $or: [{ createdAtMs: { $lt: createdAtMs } }, { createdAtMs, [idColumn]: { $lt: id } }] };
}
