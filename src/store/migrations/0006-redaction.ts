import { Migration } from "@mikro-orm/migrations";

const STATEMENTS = [
  `create table redaction_settings (
    workspace_id text collate "C" primary key,
    restore_values boolean not null,
    allow_media boolean not null,
    disabled_kinds text[] not null,
    sealed_allow bytea not null,
    revision bigint not null
  )`,
  `create table personal_value (
    workspace_id text collate "C" not null,
    value_id text collate "C" not null,
    kind text collate "C" not null,
    sealed_value bytea not null,
    mark bytea not null,
    created_at_ms bigint not null,
    primary key (workspace_id, value_id),
    unique (workspace_id, mark)
  )`,
  "create index personal_value_created on personal_value (workspace_id, created_at_ms, value_id)",
  `create table redaction_webhook (
    workspace_id text collate "C" not null,
    webhook_id text collate "C" not null,
    url text not null,
    is_active boolean not null,
    created_at_ms bigint not null,
    sealed_secret bytea,
    primary key (workspace_id, webhook_id)
  )`,
];

/** What redaction keeps: settings, registered values and webhooks; personal values and secrets encrypted. */
export class RedactionMigration extends Migration {
  override up(): void {
    for (const statement of STATEMENTS) this.addSql(statement);
  }
}
