import type { EntityProperty } from "@mikro-orm/postgresql";
import { expect } from "chai";
import { type Database, openDatabase } from "../../src/store/database.ts";
import { ENTITIES } from "../../src/store/entities.ts";
import { createTestDatabase, SILENT_LOG, type TestDatabase } from "../support/database.ts";
import { directUrlOf } from "../support/pooler.ts";

/** Tables that no entity stands for, with the reason. */
const PLAIN_TABLES: Readonly<Record<string, string>> = {
  ledger_entry: "the hot statements append and read it",
  schema_migration: "the migrator's own",
  mcp_approved_call: "plain statements alone keep and give out results",
  mcp_task: "plain statements alone keep and find the creators of tasks",
  hook_call: "plain statements alone note and find the decisions of hooks",
  hook_session: "plain statements alone note and find the sessions of coding agents",
  named_list: "plain statements alone read and change lists",
  list_content: "plain statements alone keep and read the values of large lists",
  action_outcome: "the hot statements write it, and plain ones read it",
  budget_amount: "the hot statements append and read it",
  session_key: "plain statements alone keep and find the keys of sessions",
  session_observation: "the hot statements write it, and plain ones read it",
  mark_key: "plain statements alone keep and find the keys of marks",
  push_key: "plain statements alone make and read the keys of Web Push",
  slack_account: "plain statements alone link and find accounts",
  slack_code: "plain statements alone keep and take the codes that link accounts",
  slack_request: "plain statements alone note which requests were served",
  slack_message: "plain statements alone note messages that may have to be updated",
};
/** Columns that no entity reads or writes. */
const PLAIN_COLUMNS: Readonly<Record<string, readonly string[]>> = {
  // The lease, the secrets and what is retried belong to the statements that deliver.
  webhook: [
    "sealed_secret",
    "sealed_old_secret",
    "old_secret_until_ms",
    "revision",
    "failing_since_ms",
    "lease_owner",
    "lease_until_ms",
    // A person's channel is written and read by statements.
    "holder",
    "label",
  ],
};
/** Types of columns that an entity's type may stand for: the table takes the smallest that holds the values. */
const FITTING: Readonly<Record<string, readonly string[]>> = {
  text: ["text"],
  bigint: ["int8"],
  int: ["int4", "int2"],
  boolean: ["bool"],
  jsonb: ["jsonb"],
  bytea: ["bytea"],
  "text[]": ["_text"],
  "integer[]": ["_int4"],
};

interface Column {
  readonly table: string;
  readonly name: string;
  readonly type: string;
  readonly isNullable: boolean;
  readonly isPrimary: boolean;
}

const COLUMNS = `select c.relname as table, a.attname as name, t.typname as type, not a.attnotnull as "isNullable",
    exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and a.attnum = any(i.indkey)) as "isPrimary"
  from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_type t on t.oid = a.atttypid
  where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
  order by c.relname, a.attname`;

const keyOf = ({ table, name }: Pick<Column, "table" | "name">): string => `${table}.${name}`;

describe("the entities and the tables", () => {
  let test: TestDatabase;
  let database: Database;
  let columns: ReadonlyMap<string, Column>;
  let properties: ReadonlyMap<string, EntityProperty>;

  before(async () => {
    test = await createTestDatabase();
    database = await openDatabase({
      url: test.url,
      directUrl: directUrlOf(test.url),
      poolSize: 2,
      log: SILENT_LOG,
    });
    const { rows } = await database.pool.query<Column>(COLUMNS);
    columns = new Map(rows.map((column) => [keyOf(column), column]));
    properties = new Map(
      ENTITIES.flatMap((entity) => {
        const { tableName: table, props } = database.orm.getMetadata().get(entity.meta.class);
        return props.map((property) => [keyOf({ table, name: property.fieldNames[0] ?? "" }), property] as const);
      }),
    );
  });
  after(async () => {
    await database.close();
    await test.drop();
  });

  it("have the same columns, nullable and in the primary key alike.", () => {
    const wrong = [...properties].filter(([key, property]) => {
      const column = columns.get(key);
      return column?.isNullable !== (property.nullable ?? false) || column.isPrimary !== (property.primary ?? false);
    });
    expect(wrong.map(([key]) => key)).to.deep.equal([]);
  });

  it("have the same types.", () => {
    const wrong = [...properties].flatMap(([key, { columnTypes }]) => {
      const [type = ""] = columnTypes;
      const stored = columns.get(key)?.type ?? "none";
      return FITTING[type]?.includes(stored) ? [] : [`${key}: ${type} for ${stored}`];
    });
    expect(wrong).to.deep.equal([]);
  });

  it("leave no column out but those that plain statements alone use.", () => {
    const plain = Object.entries(PLAIN_COLUMNS).flatMap(([table, names]) =>
      names.map((name) => keyOf({ table, name })),
    );
    const missing = [...columns.values()].filter(
      (column) => !(column.table in PLAIN_TABLES) && !properties.has(keyOf(column)),
    );
    expect(missing.map(keyOf)).to.have.members(plain);
  });

  it("leave no table out but those that are named here.", () => {
    const withEntity = new Set([...properties.keys()].map((key) => key.split(".")[0]));
    const tables = new Set([...columns.values()].map(({ table }) => table));
    expect([...tables].filter((table) => !withEntity.has(table))).to.have.members(Object.keys(PLAIN_TABLES));
  });
});
