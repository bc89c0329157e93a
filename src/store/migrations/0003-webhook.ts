import { Migration } from "@mikro-orm/migrations";

const STATEMENTS = [
  // Room on each page: leases and cursors are rewritten every few seconds, and stay out of the indexes that way.
  `create table webhook (
    workspace_id text collate "C" not null,
    webhook_id text collate "C" not null,
    url text not null,
    events text[] not null,
    is_active boolean not null,
    created_at_ms bigint not null,
    secret text not null,
    old_secret text,
    old_secret_until_ms bigint,
    next_seq bigint not null,
    revision integer not null,
    failures integer not null,
    failing_since_ms bigint,
    next_attempt_at_ms bigint,
    lease_owner text collate "C",
    lease_until_ms bigint,
    primary key (workspace_id, webhook_id)
  ) with (fillfactor = 50)`,
  "create index webhook_created on webhook (workspace_id, created_at_ms, webhook_id)",
  `create table webhook_delivery (
    workspace_id text collate "C" not null,
    webhook_id text collate "C" not null,
    delivery_no bigint generated always as identity,
    message_id text not null,
    event text not null,
    seq bigint,
    attempt integer not null,
    at_ms bigint not null,
    delivered boolean not null,
    status_code smallint,
    error text,
    duration_ms integer not null,
    primary key (workspace_id, webhook_id, delivery_no)
  )`,
  "create index webhook_delivery_at on webhook_delivery (at_ms)",
  // Exactly the entries that some webhook may tell of, so that a stretch without any costs nothing to skip. Allowed
  // actions, which are most of a log, are not in it. The statement that reads events repeats the condition word by word.
  `create index ledger_entry_event on ledger_entry (workspace_id, seq)
    where (kind = 0 and decision >= 2) or (kind = 1 and (
      strpos(body, '"type":"agent_revoked"') > 0
      or strpos(body, '"type":"escalation_resolved"') > 0
      or strpos(body, '"type":"tool_registered"') > 0
    ))`,
];

/** Webhooks, the attempts to deliver, and the index over the log that finds their events. */
export class WebhookMigration extends Migration {
  override up(): void {
    for (const statement of STATEMENTS) this.addSql(statement);
  }
}
