import { Migration } from "@mikro-orm/migrations";
import { insertOnly } from "../migrate.ts";

// RFC 6962 §2.1, leaf after leaf as the service appends them: `roots[level]` waits for its right sibling, and a leaf
// completes one subtree for each trailing one bit of its index.
const HASHES_OF = `
create function pg_temp.subtree_hashes_of(workspace text) returns table (seq bigint, hashes bytea) language plpgsql as $$
declare
  entry record;
  roots bytea[];
  node bytea;
  level integer;
begin
  for entry in
    select e.seq, e.leaf_hash from ledger_entry e where e.workspace_id = workspace order by e.seq
  loop
    node := entry.leaf_hash;
    level := 0;
    hashes := '';
    while (entry.seq >> level) % 2 = 1 loop
      node := sha256('\\x01'::bytea || roots[level] || node);
      hashes := hashes || node;
      level := level + 1;
    end loop;
    roots[level] := node;
    seq := entry.seq;
    if level > 0 then return next; end if;
  end loop;
end $$`;

const STATEMENTS = [
  "alter table ledger_entry add column subtree_hashes bytea",
  HASHES_OF,
  "alter table ledger_entry disable trigger insert_only",
  `update ledger_entry e set subtree_hashes = s.hashes
    from ledger_head h, pg_temp.subtree_hashes_of(h.workspace_id) s
    where e.workspace_id = h.workspace_id and e.seq = s.seq`,
  // In the same transaction, so that nobody meets a log that takes more than inserts.
  ...insertOnly("ledger_entry"),
  "drop function pg_temp.subtree_hashes_of(text)",
];

/**
 * The roots of the perfect subtrees that each leaf completes, beside the leaf, so that a proof reads a row for each of its
 * hashes instead of the log.
 */
export class SubtreeHashesMigration extends Migration {
  override up(): void {
    for (const statement of STATEMENTS) this.addSql(statement);
  }
}
