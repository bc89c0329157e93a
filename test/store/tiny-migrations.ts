import { Migration } from "@mikro-orm/migrations";
import { insertOnly, type MigrationSource } from "../../src/store/migrate.ts";

class CreateNote extends Migration {
  override up(): void {
    this.addSql("create table note (id serial primary key, body text not null)");
  }
}

class CreateSealedNote extends Migration {
  override up(): void {
    this.addSql("create table sealed_note (id int primary key, body text not null)");
    for (const statement of insertOnly("sealed_note")) this.addSql(statement);
  }
}

class Broken extends Migration {
  override up(): void {
    this.addSql("create table half_done (id int primary key)");
    this.addSql("select no_such_column from note");
  }
}

/** A plain table and an insert-only one. */
export const TINY_MIGRATIONS = [
  { name: "0001-note", class: CreateNote },
  { name: "0002-sealed-note", class: CreateSealedNote },
];

/** One that makes a table and then fails. */
export const BROKEN_MIGRATIONS = [...TINY_MIGRATIONS, { name: "0003-broken", class: Broken }];

/** For a database that is empty. */
export const NONE: readonly MigrationSource[] = [];
