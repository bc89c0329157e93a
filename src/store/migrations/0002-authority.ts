import { Migration } from "@mikro-orm/migrations";

const TABLES = [
  `create table authority (
    workspace_id text collate "C" not null,
    id text collate "C" not null,
    kind text collate "C" not null,
    agent_id text collate "C",
    grantor_agent_id text collate "C",
    sealed jsonb not null,
    created_seq bigint not null,
    created_at_ms bigint not null,
    ended_at_ms bigint,
    uses bigint not null,
    secret_hash bytea unique,
    primary key (workspace_id, id)
  )`,
  "create index authority_list on authority (workspace_id, kind, created_seq)",
  "create index authority_agent on authority (workspace_id, agent_id, kind, created_seq)",
  "create index authority_grantor on authority (workspace_id, grantor_agent_id, created_seq)",
  "create index authority_open on authority (workspace_id, created_seq) where ended_at_ms is null",
  `create table revocation (
    workspace_id text collate "C" not null,
    revocation_id text collate "C" not null,
    agent_id text collate "C" not null,
    seq bigint not null,
    key_id text not null,
    body text not null,
    signature bytea not null,
    primary key (workspace_id, revocation_id),
    unique (workspace_id, agent_id)
  )`,
  "create index revocation_list on revocation (workspace_id, seq)",
  `create table incident (
    workspace_id text collate "C" not null,
    incident_id text collate "C" not null,
    kind smallint not null,
    agent_id text collate "C" not null,
    revocation_id text collate "C" not null,
    summary text not null,
    reason text not null,
    created_by text not null,
    created_at_ms bigint not null,
    created_seq bigint not null,
    primary key (workspace_id, incident_id)
  )`,
  "create index incident_list on incident (workspace_id, created_seq)",
  // Public keys only; they stay after a key is no longer used, since what it signed has to verify.
  `create table signing_key (
    key_id text collate "C" primary key,
    public_jwk jsonb not null,
    public_pem text not null,
    created_at_ms bigint not null
  )`,
];

/** Authority of seven kinds, revocations with their certificates, incidents and the public keys of the service. */
export class AuthorityMigration extends Migration {
  override up(): void {
    for (const statement of TABLES) this.addSql(statement);
  }
}
