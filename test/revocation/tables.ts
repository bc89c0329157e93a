import { withClient } from "../support/database.ts";

/** Every row of every table as JSON, by table, in a fixed order. */
export function tablesOf(url: string): Promise<Map<string, string[]>> {
  return withClient(url, async (client) => {
    const { rows: tables } = await client.query<{ name: string }>(
      `select table_schema || '.' || table_name as name from information_schema.tables
        where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema') order by 1`,
    );
    const all = new Map<string, string[]>();
    for (const { name } of tables) {
      const { rows } = await client.query<{ row: string }>(`select to_jsonb(t)::text as row from ${name} t order by 1`);
      all.set(
        name.slice(name.indexOf(".") + 1),
        rows.map(({ row }) => row),
      );
    }
    return all;
  });
}

/** The rows that are in one reading of the tables and not in another, by table; tables without any are left out. */
export function rowsOnlyIn(
  one: ReadonlyMap<string, readonly string[]>,
  other: ReadonlyMap<string, readonly string[]>,
): Record<string, Record<string, unknown>[]> {
  const only: Record<string, Record<string, unknown>[]> = {};
  for (const [table, rows] of one) {
    const known = new Set(other.get(table));
    const left = rows.filter((row) => !known.has(row));
    if (left.length > 0) only[table] = left.map((row) => JSON.parse(row) as Record<string, unknown>);
  }
  return only;
}
