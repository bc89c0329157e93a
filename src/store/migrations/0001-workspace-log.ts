import { Migration } from "@mikro-orm/migrations";
import { insertOnly } from "../migrate.ts";

// Ids and names are compared byte by byte: the C collation makes their indexes small and quick, and their order the same
// on every machine. The workspace leads every key, so that tables can be distributed by it.
const TABLES = [
  `create table workspace (
    workspace_id text collate "C" primary key,
    name text not null,
    default_decision smallint not null,
    initial_trust_tenths smallint not null,
    created_at_ms bigint not null,
    trust_seq bigint not null
  )`,
  `create table ledger_head (
    workspace_id text collate "C" primary key,
    seq bigint not null,
    frontier bytea not null,
    last_at_ms bigint not null
  ) with (fillfactor = 10)`,
  `create table ledger_entry (
    workspace_id text collate "C" not null,
    seq bigint not null,
    at_ms bigint not null,
    kind smallint not null,
    entry_id text collate "C" not null,
    agent_id text collate "C",
    action_type text collate "C",
    decision smallint,
    ref_id text collate "C",
    leaf_hash bytea not null,
    body text collate "C" not null,
    primary key (workspace_id, seq)
  )`,
  // Bodies are read whole and seldom: compressing each on the way in would cost more than the space is worth. A large one
  // is left to go into the table beside this one, although that makes appends dearer (15,300 against 19,600 decisions a
  // second with bodies of 3 kB): a start that counts a window reads every row in it, and without the bodies those are small.
  "alter table ledger_entry alter column body set storage external",
  "create unique index ledger_entry_id on ledger_entry (workspace_id, entry_id)",
  "create index ledger_entry_agent on ledger_entry (workspace_id, agent_id, seq) where kind = 0",
  `create table api_key (
    key_id text collate "C" primary key,
    workspace_id text collate "C" not null,
    name text not null,
    role smallint not null,
    agent_id text collate "C",
    prefix text not null,
    secret_hash bytea not null unique,
    created_at_ms bigint not null,
    expires_at_ms bigint,
    revoked_at_ms bigint
  )`,
  "create index api_key_workspace on api_key (workspace_id, key_id)",
  `create table agent (
    workspace_id text collate "C" not null,
    agent_id text collate "C" not null,
    created_seq bigint not null,
    resource jsonb not null,
    status smallint not null,
    trust_tenths smallint not null,
    registered_at_ms bigint not null,
    deactivated_at_ms bigint,
    primary key (workspace_id, agent_id)
  )`,
  `create table department (
    workspace_id text collate "C" not null,
    department_id text collate "C" not null,
    name text not null,
    description text not null,
    created_at_ms bigint not null,
    created_seq bigint not null,
    primary key (workspace_id, department_id)
  )`,
  `create table department_member (
    workspace_id text collate "C" not null,
    department_id text collate "C" not null,
    agent_id text collate "C" not null,
    primary key (workspace_id, department_id, agent_id)
  )`,
  `create table tool_version (
    workspace_id text collate "C" not null,
    name text collate "C" not null,
    version integer not null,
    description text not null,
    input_schema jsonb not null,
    digest text not null,
    source smallint not null,
    registered_at_ms bigint not null,
    primary key (workspace_id, name, version)
  )`,
  `create table mandate_version (
    workspace_id text collate "C" not null,
    mandate_id text collate "C" not null,
    version integer not null,
    definition jsonb not null,
    digest text not null,
    created_at_ms bigint not null,
    updated_at_ms bigint not null,
    created_seq bigint not null,
    archived boolean not null,
    primary key (workspace_id, mandate_id, version)
  )`,
  `create table escalation (
    workspace_id text collate "C" not null,
    escalation_id text collate "C" not null,
    agent_id text collate "C" not null,
    status smallint not null,
    action_digest text not null,
    created_seq bigint not null,
    resolved_seq bigint,
    resolved_at_ms bigint,
    resolved_by text,
    note text,
    used_by text,
    primary key (workspace_id, escalation_id)
  )`,
  "create index escalation_created on escalation (workspace_id, created_seq)",
  "create index escalation_resolved on escalation (workspace_id, resolved_seq) where resolved_seq is not null",
  "create index escalation_status on escalation (workspace_id, status, created_seq)",
];

/** The workspace log and the tables that are changed together with it. */
export class WorkspaceLogMigration extends Migration {
  override up(): void {
    for (const statement of [...TABLES, ...insertOnly("ledger_entry")]) this.addSql(statement);
  }
}
