import { insertOnly, type Migration } from "../../src/store/migrate.ts";

/** A plain table and an insert-only one. */
export const TINY_MIGRATIONS: readonly Migration[] = [
  { name: "0001-note", statements: ["create table note (id serial primary key, body text not null)"] },
  {
    name: "0002-sealed-note",
    statements: ["create table sealed_note (id int primary key, body text not null)", ...insertOnly("sealed_note")],
  },
];

/** One that makes a table and then fails. */
export const BROKEN_MIGRATIONS: readonly Migration[] = [
  ...TINY_MIGRATIONS,
  {
    name: "0003-broken",
    statements: ["create table half_done (id int primary key)", "select no_such_column from note"],
  },
];

/** For a database that is empty. */
export const NONE: readonly Migration[] = [];
