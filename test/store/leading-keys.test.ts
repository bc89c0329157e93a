import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { ROOT } from "../architecture/source-files.ts";
import { createTestDatabase, type TestDatabase, withClient } from "../support/database.ts";

/** Keys that lead with another column, since what they find names no workspace: a secret's hash, or the id of an API key. */
const OTHERWISE = [
  "api_key(key_id)",
  "api_key(secret_hash)",
  "authority(secret_hash)",
  "pending_choice(choice_hash)",
  "person_invite(secret_hash)",
  "sign_in(secret_hash)",
  "used_choice(choice_hash)",
];
/** The record of the migrator, which is of no workspace. */
const OF_THE_SCHEMA = ["schema_migration"];

const KEYS = `select c.relname as table, array_agg(a.attname order by k.place) as columns
  from pg_index i join pg_class c on c.oid = i.indrelid
    cross join unnest(i.indkey) with ordinality k(number, place)
    join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
  where c.relnamespace = 'public'::regnamespace and i.indisunique
  group by c.relname, i.indexrelid order by 1, 2`;

describe("the keys of the tables", () => {
  let database: TestDatabase;
  before(async () => {
    database = await createTestDatabase();
  });
  after(() => database?.drop());

  it("lead with the workspace, but for those that SIZING.md names.", async () => {
    const { rows } = await withClient(database.ownerUrl, (client) => client.query(KEYS));
    const keys = (rows as { table: string; columns: string }[])
      .filter(({ table }) => !OF_THE_SCHEMA.includes(table))
      .map(({ table, columns }) => ({ table, names: columns.slice(1, -1).split(",") }));
    const otherwise = keys.filter(({ names }) => names[0] !== "workspace_id");
    expect(otherwise.map(({ table, names }) => `${table}(${names})`)).to.deep.equal(OTHERWISE);
    const page = readFileSync(join(ROOT, "src/store/SIZING.md"), "utf8");
    for (const key of OTHERWISE) expect(page).to.include(`\`${key}\``);
  });
});
