import { zstdDecompressSync } from "node:zlib";
import type { ClientBase } from "pg";

/** Entries of a pack at most, or more. */
const MOST_IN_PACK = 1_000;

/** An entry as the database holds it. */
interface StoredBody {
  readonly seq: number;
  /** Null where it lies in a pack. */
  readonly body: string | null;
}

/**
 * Fills in the bodies that lie in packs, of entries in the order of their indexes, either way; read past everything of the
 * product. Throws when one is in none.
 */
export async function withBodies<T extends StoredBody>(
  client: ClientBase,
  workspaceId: string,
  rows: readonly T[],
): Promise<(T & { readonly body: string })[]> {
  const bodies = new Map<number, string>();
  const ends = [rows[0], rows.at(-1)].map((row) => row?.seq ?? 0);
  const { rows: packs } = await client.query<{ seq: number; bodies: Buffer }>(
    "select seq::float8 as seq, bodies from ledger_pack where workspace_id = $1 and seq between $2 and $3",
    [workspaceId, Math.min(...ends) - MOST_IN_PACK, Math.max(...ends)],
  );
  for (const pack of packs) {
    const lines = zstdDecompressSync(pack.bodies).toString().split("\n");
    for (const [index, line] of lines.slice(0, -1).entries()) bodies.set(pack.seq + index, line);
  }
  return rows.map((row) => {
    const body = row.body ?? bodies.get(row.seq);
    if (body === undefined) throw new Error(`entry ${row.seq} of \`${workspaceId}\` has no body`);
    return { ...row, body };
  });
}
