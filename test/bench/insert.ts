import { Client } from "pg";
import { type LaneContext, type Lanes, runLanes } from "./clients.ts";
import type { Source } from "./load.ts";

/** Rows of the service's log that are inserted again and again. */
const SAMPLE = 8_192;
const WORKSPACE = "bench";
const HASH_BYTES = 32;

// The same columns, storage and primary key as the log, and nothing else: no second index, no trigger, no head.
const TABLE = `
  drop table if exists bare_entry;
  create table bare_entry (like ledger_entry including storage, primary key (workspace_id, seq))`;

const READ = `
  select workspace_id, seq::float8 as seq, entry_id, agent_id, action_type, decision::text,
    coalesce(ref_id, '') as ref_id, leaf_hash, body
  from ledger_entry where kind = 0 order by ledger_entry.seq desc limit ${SAMPLE}`;

// Columns joined by line feeds: of the ways to hand over many rows the fastest one known here.
const INSERT = `
  insert into bare_entry
    (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, body)
  select $1, $2::bigint + r.ord, $3, 0, r.entry_id, r.agent_id, r.action_type, r.decision::smallint,
    nullif(r.ref_id, ''), substr($9::bytea, (r.ord::int - 1) * ${HASH_BYTES} + 1, ${HASH_BYTES}), r.body
  from rows from (
    string_to_table($4, E'\\n'), string_to_table($5, E'\\n'), string_to_table($6, E'\\n'),
    string_to_table($7, E'\\n'), string_to_table($8, E'\\n'), string_to_table($10, E'\\n')
  ) with ordinality as r (entry_id, agent_id, action_type, decision, ref_id, body, ord)`;

interface Row {
  readonly workspace_id: string;
  readonly seq: number;
  readonly entry_id: string;
  readonly agent_id: string;
  readonly action_type: string;
  readonly decision: string;
  readonly ref_id: string;
  readonly leaf_hash: Buffer;
  readonly body: string;
}

function columnsOf(rows: readonly Row[]): unknown[] {
  const joined = (name: Exclude<keyof Row, "leaf_hash" | "workspace_id" | "seq">): string =>
    rows.map((row) => row[name]).join("\n");
  const texts = [joined("entry_id"), joined("agent_id"), joined("action_type"), joined("decision"), joined("ref_id")];
  return [...texts, Buffer.concat(rows.map((row) => row.leaf_hash)), joined("body")];
}

async function statementsOf(client: Client, size: number): Promise<unknown[][]> {
  const { rows: stored } = await client.query<Row>(READ);
  const rows = stored;
  if (rows.length < size) throw new Error("the service's log has too few decisions to insert again");
  const statements: unknown[][] = [];
  for (let first = 0; first + size <= rows.length; first += size) {
    statements.push(columnsOf(rows.slice(first, first + size)));
  }
  return statements;
}

/** Makes the table of bare inserts anew. */
export async function createBareTable(client: Client): Promise<void> {
  await client.query(TABLE);
}

/** Returns a function that inserts and commits the next rows, as those of a workspace of the given name. */
export async function bareInserts(client: Client, rows: number, workspace: string): Promise<() => Promise<void>> {
  const statements = await statementsOf(client, rows);
  let done = 0;
  return async () => {
    const columns = statements[done % statements.length] as unknown[];
    const values = [workspace, done * rows, Date.now(), ...columns];
    done += 1;
    await client.query({ name: "bare-insert", text: INSERT, values });
  };
}

/** One connection that inserts rows, each statement committed before the next. The table is made anew. */
export async function startInsert({ databaseUrl, rows }: Extract<Source, { kind: "insert" }>): Promise<Lanes> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  await createBareTable(client);
  const insertNext = await bareInserts(client, rows, WORKSPACE);
  const runLane = async (_: number, { recorder, isOver }: LaneContext): Promise<void> => {
    while (!isOver()) {
      const startedAt = performance.now();
      await insertNext();
      recorder.record(startedAt, rows);
    }
  };
  return runLanes(1, runLane, async () => {
    await client.query("drop table bare_entry");
    await client.end();
  });
}
