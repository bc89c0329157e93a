import { Migration } from "@mikro-orm/migrations";
import { insertOnly } from "../migrate.ts";

const STATEMENTS = [
  `create table ledger_pack (
    workspace_id text collate "C" not null,
    seq bigint not null,
    bodies bytea not null,
    primary key (workspace_id, seq)
  )`,
  // They are compressed already.
  "alter table ledger_pack alter column bodies set storage external",
  ...insertOnly("ledger_pack"),
  "alter table ledger_entry alter column body drop not null",
  // The body of a change is read by statements of the database itself. Not valid: older rows all have one.
  "alter table ledger_entry add constraint ledger_entry_body check (body is not null or kind = 0) not valid",
];

/**
 * Packs of bodies: those of neighbouring decisions differ in little, and stored one by one, as they were, they took up
 * nine tenths of a log and half of what the server did to append to it.
 */
export class PackMigration extends Migration {
  override up(): void {
    for (const statement of STATEMENTS) this.addSql(statement);
  }
}
