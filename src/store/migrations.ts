import { INSERT_ONLY_TRIGGER, insertOnly, type Migration } from "./migrate.ts";
import { BODY_AS_JSON } from "./sql/sealed-body.ts";

// Ids and names are compared byte by byte: the C collation makes their indexes small and quick, and their order the same
// on every machine. The workspace leads every key, so that tables can be distributed by it.

/** The workspace and its log. */
const LOG = [
  `create table workspace (
    workspace_id text collate "C" primary key,
    name text not null,
    default_decision smallint not null,
    unknown_tools smallint not null,
    initial_trust_tenths smallint not null,
    approval_ignores text[] not null,
    escalation_ttl_seconds integer not null,
    approval_ttl_seconds integer not null,
    four_eyes boolean not null,
    max_pending_escalations_per_agent integer not null,
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
    subtree_hashes bytea,
    body text collate "C" not null,
    primary key (workspace_id, seq)
  )`,
  // Bodies are read whole and seldom: compressing each on the way in would cost more than the space is worth. A large one
  // goes into the table beside this one, so that a start that counts a window reads small rows.
  "alter table ledger_entry alter column body set storage external",
  "create unique index ledger_entry_id on ledger_entry (workspace_id, entry_id)",
  "create index ledger_entry_agent on ledger_entry (workspace_id, agent_id, seq) where kind in (0, 2)",
  // Allowed actions, which are most of a log, are not in it. The condition is evaluated for every append and therefore
  // cheap; the statement that reads events repeats it word by word.
  "create index ledger_entry_event on ledger_entry (workspace_id, seq) where kind = 1 or decision >= 2",
  ...insertOnly("ledger_entry"),
];

/** Tables that are changed together with the log. */
const REGISTRY = [
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
    revoked_at_ms bigint,
    ended_with_agent boolean not null
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
    used_at_ms bigint,
    expires_at_ms bigint not null,
    asked integer not null,
    asked_by text[] not null,
    updated_seq bigint,
    replaced_by text,
    primary key (workspace_id, escalation_id)
  )`,
  "create index escalation_updated on escalation (workspace_id, updated_seq) where updated_seq is not null",
  "create index escalation_expiry on escalation (workspace_id, expires_at_ms) where status = 1",
  "create index escalation_created on escalation (workspace_id, created_seq)",
  "create index escalation_resolved on escalation (workspace_id, resolved_seq) where resolved_seq is not null",
  "create index escalation_status on escalation (workspace_id, status, created_seq)",
];

/** Authority of seven kinds, revocations with their certificates, and incidents. The log alone holds the public keys of the service. */
const AUTHORITY = [
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
];

/** Webhooks, their secrets encrypted, and the attempts to deliver. */
const WEBHOOKS = [
  // Room on each page: leases and cursors are rewritten every few seconds, and stay out of the indexes that way.
  `create table webhook (
    workspace_id text collate "C" not null,
    webhook_id text collate "C" not null,
    url text not null,
    events text[] not null,
    is_active boolean not null,
    created_at_ms bigint not null,
    sealed_secret bytea not null,
    sealed_old_secret bytea,
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
];

/** Settings, registered values and webhooks of redaction; personal values and secrets encrypted. */
const REDACTION = [
  `create table redaction_settings (
    workspace_id text collate "C" primary key,
    restore_values boolean not null,
    allow_media boolean not null,
    disabled_kinds text[] not null,
    sealed_private bytea not null,
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

/** Named sets of mandates. */
const PACKS = [
  `create table pack (
    workspace_id text collate "C" not null,
    name text collate "C" not null,
    version integer not null,
    applied_digest text not null,
    primary key (workspace_id, name)
  )`,
  `alter table mandate_version add column pack text collate "C"`,
];

/** Generated tests of mandates, `suite` as JSON text so that it is read back byte by byte. */
const MANDATE_TESTS = [
  `create table mandate_test (
    workspace_id text collate "C" not null,
    mandate_id text collate "C" not null,
    version integer not null,
    suite text not null,
    created_at_ms bigint not null,
    primary key (workspace_id, mandate_id, version)
  )`,
];

/** People who are signed in to the dashboard, by the SHA-256 of the cookie's secret. `holder`: the key, or the person. */
const SIGN_INS = [
  `create table sign_in (
    secret_hash bytea primary key,
    workspace_id text collate "C" not null,
    holder text collate "C" not null,
    role smallint not null,
    person boolean not null,
    created_at_ms bigint not null,
    expires_at_ms bigint not null
  )`,
  "create index sign_in_holder on sign_in (workspace_id, holder, created_at_ms)",
];

/**
 * Indexes of events and of agents that include the columns which a summary of decisions counts: it then reads no row of the
 * log.
 */
const SUMMARIES = [
  "drop index ledger_entry_event",
  `create index ledger_entry_event on ledger_entry (workspace_id, seq) include (kind, decision)
    where kind = 1 or decision >= 2`,
  "drop index ledger_entry_agent",
  `create index ledger_entry_agent on ledger_entry (workspace_id, agent_id, seq) include (kind, decision)
    where kind in (0, 2)`,
  // Indexes alone answer for pages that a vacuum has seen. By default it comes after a fifth of the table is new.
  `alter table ledger_entry set
    (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000)`,
];

/**
 * Extensions and edits of escalations, `edited_arguments` as JSON text so that it is read back byte by byte; and the session of
 * each decision. Entries from before get theirs from their bodies: nothing that is sealed changes.
 */
const SESSIONS = [
  `alter table escalation add column extended_until_ms bigint, add column edited_arguments text,
    add column edited_from text collate "C"`,
  `alter table ledger_entry add column session_id text collate "C"`,
  `alter table ledger_entry disable trigger ${INSERT_ONLY_TRIGGER}`,
  `update ledger_entry set session_id = ${BODY_AS_JSON} ->> 'session_id'
    where kind in (0, 2) and body like '%"session_id":"ses_%' and ${BODY_AS_JSON} ->> 'session_id' ~ '^ses_[a-z2-7]{26}$'`,
  `alter table ledger_entry enable always trigger ${INSERT_ONLY_TRIGGER}`,
  // Actions without a session, which are most of a log, are not in it.
  "create index ledger_entry_session on ledger_entry (workspace_id, session_id, seq) where session_id is not null",
];

/**
 * MCP servers behind the gateway, with their secrets encrypted; each version of their tools' definitions as JSON text; and the
 * approvals that an identical call may use.
 */
const MCP_SERVERS = [
  `create table mcp_server (
    workspace_id text collate "C" not null,
    name text collate "C" not null,
    url text,
    command text,
    args text[] not null,
    env_names text[] not null,
    sealed_env bytea not null,
    header_names text[] not null,
    sealed_headers bytea not null,
    quarantine boolean not null,
    revision integer not null,
    created_at_ms bigint not null,
    updated_at_ms bigint not null,
    primary key (workspace_id, name)
  )`,
  `create table mcp_tool (
    workspace_id text collate "C" not null,
    server text collate "C" not null,
    name text collate "C" not null,
    version integer not null,
    definition text not null,
    digest text not null,
    first_seen_at_ms bigint not null,
    accepted_by text collate "C",
    accepted_at_ms bigint,
    primary key (workspace_id, server, name, version)
  )`,
  `create index escalation_usable on escalation (workspace_id, agent_id, created_seq) where status = 2 and used_by is null`,
];

/** Messages that pass to and from an MCP server, and the times of its definitions and its child. `drift_seconds` is null for the default of the server's mode. */
const MCP_SERVER_LIMITS = [
  `alter table mcp_server
    add column pass_methods text[] not null default '{}',
    add column pass_meta text[] not null default '{}',
    add column drift_seconds integer,
    add column idle_seconds integer not null default 300,
    add column scrub text[] not null default '{}'`,
];

/**
 * Approved calls through the gateway, from before they are sent until their response has reached a client; the results of those
 * whose client left are encrypted.
 */
const APPROVED_CALLS = [
  `create table mcp_approved_call (
    workspace_id text collate "C" not null,
    agent_id text collate "C" not null,
    decision_id text collate "C" not null,
    call_digest text collate "C" not null,
    status smallint not null,
    lease_until_ms bigint not null,
    expires_at_ms bigint not null,
    sealed_result bytea,
    created_at_ms bigint not null,
    primary key (workspace_id, agent_id, decision_id)
  )`,
  // Encrypted bytes cannot be compressed.
  "alter table mcp_approved_call alter column sealed_result set storage external",
  "create index mcp_approved_call_expiry on mcp_approved_call (expires_at_ms)",
];

/** The agents that made tasks at MCP servers, by the SHA-256 of the task's id. */
const MCP_TASKS = [
  `create table mcp_task (
    workspace_id text collate "C" not null,
    server text collate "C" not null,
    task_digest text collate "C" not null,
    agent_id text collate "C" not null,
    created_at_ms bigint not null,
    primary key (workspace_id, server, task_digest, agent_id)
  )`,
  "create index mcp_task_agent on mcp_task (workspace_id, server, agent_id, created_at_ms)",
];

/**
 * Definitions of every kind in one table. `is_whole` is false for versions from before whole definitions were pinned: icons,
 * `_meta` and `execution` of a tool were not among them. `stateless_digest` is that of a tool without `execution`. The view lets
 * processes of the version before go on during an upgrade.
 */
const MCP_DEFINITIONS = [
  "alter table mcp_tool rename to mcp_definition",
  `alter table mcp_definition
    add column kind text collate "C" not null default 'tool',
    add column stateless_digest text,
    add column is_whole boolean not null default false`,
  "alter table mcp_definition drop constraint mcp_tool_pkey",
  "alter table mcp_definition add constraint mcp_definition_pkey primary key (workspace_id, server, kind, name, version)",
  `create view mcp_tool as
    select workspace_id, server, name, version, definition, digest, first_seen_at_ms, accepted_by, accepted_at_ms
    from mcp_definition where kind = 'tool'`,
];

/** Choices of a workspace after a sign-in by OpenID Connect, each of which is good once. */
const USED_CHOICES = [
  `create table used_choice (
    choice_hash bytea primary key,
    expires_at_ms bigint not null
  )`,
];

/**
 * The agent on whose behalf a decision counts. Those from before count for the agent that acted alone, as they did when they were
 * made.
 */
const PRINCIPALS = [`alter table ledger_entry add column principal_id text collate "C"`];

/** A process of an earlier version creates workspaces without the column during an upgrade. */
const KEY_TTLS = ["alter table workspace add column key_ttl_days integer not null default 0"];
/** Owners and makers of keys, and people with the labels that stand beside their names. Entries of the log keep the old names. */
const PEOPLE = [
  `alter table api_key add column owner text, add column created_by text collate "C"`,
  `create table person (
    workspace_id text collate "C" not null,
    issuer text collate "C" not null,
    subject text collate "C" not null,
    email text,
    display_name text,
    signed_in_at_ms bigint not null,
    primary key (workspace_id, issuer, subject)
  )`,
];

/** A process of an earlier version creates workspaces without the column during an upgrade. */
const HALTS = ["alter table workspace add column halted boolean not null default false"];

/** Keys of the marks of registered values and stored objects, encrypted, so that marks outlast the encryption key. */
const MARK_KEYS = [
  `create table mark_key (
    workspace_id text collate "C" primary key,
    sealed_key bytea not null
  )`,
];

/** Text in the form of `ACP_RATE_LIMIT_KEY`; empty: no limit. A process of an earlier version creates workspaces without the columns. */
const RATE_LIMITS = [
  `alter table workspace
    add column rate_limit_key text not null default '',
    add column rate_limit_workspace text not null default ''`,
];

/**
 * Lists: each row holds what changed since the base, whose values stand in parts under their digest. Values under a digest never
 * change.
 */
const LISTS = [
  `create table named_list (
    workspace_id text collate "C" not null,
    name text collate "C" not null,
    kind text collate "C" not null,
    digest text collate "C" not null,
    base_digest text collate "C",
    added text not null,
    removed text not null,
    created_at_ms bigint not null,
    updated_at_ms bigint not null,
    primary key (workspace_id, name)
  )`,
  `create table list_content (
    workspace_id text collate "C" not null,
    digest text collate "C" not null,
    part integer not null,
    values text not null,
    is_last boolean not null,
    primary key (workspace_id, digest, part)
  )`,
];

/**
 * Outcomes of allowed actions that are tracked or reported. `status` has the numbers of the proto enum `OutcomeStatus`, or 0 for an action
 * that is only claimed; `due_at_ms` is set while it is pending (4).
 */
const OUTCOMES = [
  `alter table workspace
    add column outcomes text not null default 'tracked',
    add column outcome_timeout_seconds integer not null default 3600`,
  `create table action_outcome (
    workspace_id text collate "C" not null,
    decision_id text collate "C" not null,
    decision_seq bigint not null,
    agent_id text collate "C" not null,
    status smallint not null,
    due_at_ms bigint,
    primary key (workspace_id, decision_id)
  )`,
  "create index action_outcome_due on action_outcome (workspace_id, due_at_ms, decision_id) where status = 4",
  "create index action_outcome_status on action_outcome (workspace_id, status, decision_seq)",
];

/**
 * Amounts of decisions in the pots of budgets, insert-only: an outcome adds rows that take the amount out of one state and put it into
 * another, so that a sum over the rows up to an index is the pot as of that index. `at_ms` is the time of the decision, from which its
 * amount counts.
 */
const BUDGETS = [
  `create table budget_amount (
    workspace_id text collate "C" not null,
    pot text collate "C" not null,
    at_ms bigint not null,
    decision_seq bigint not null,
    seq bigint not null,
    state smallint not null,
    agent_id text collate "C" not null,
    principal_id text collate "C",
    millionths bigint not null,
    primary key (workspace_id, pot, at_ms, decision_seq, seq, state)
  )`,
];

/** Index of the entries that raise `budget.overdrawn`, which are few among allowed actions and outcomes. */
const OVERDRAWN_ENTRIES = [
  "create index ledger_entry_overdrawn on ledger_entry (workspace_id, seq) where starts_with(ref_id, 'over')",
];

/** Decisions that allowed tool calls of coding agents, by the SHA-256 of the call's name, until the event after the tool reports them. */
const HOOK_CALLS = [
  `create table hook_call (
    workspace_id text collate "C" not null,
    agent_id text collate "C" not null,
    call_digest text collate "C" not null,
    decision_id text collate "C" not null,
    expires_at_ms bigint not null,
    primary key (workspace_id, agent_id, call_digest, decision_id)
  )`,
  "create index hook_call_expiry on hook_call (expires_at_ms)",
];

/** The decision that allowed the call which made a task, until its end is reported. */
const TASK_DECISIONS = [`alter table mcp_task add column decision_id text collate "C"`];

/** Groups of a person as their issuer gave them last, and when that was; null until it is asked. */
const PERSON_GROUPS = [
  `alter table person
    add column groups text[] not null default '{}',
    add column checked_at_ms bigint`,
];

/** Authors and notes of mandate versions. Versions from before have no author here; a process of an earlier version writes none. */
const MANDATE_AUTHORS = [
  `alter table mandate_version
    add column created_by text collate "C",
    add column note text not null default '',
    add column restored_from integer`,
];

/**
 * People whom an admin adds, who may have no issuer: an id of their own, and the name that keys of theirs have as `owner` (`actor`).
 * A process of an earlier version adds people at their sign-in without an id. `name` and `role` are those that an admin gave;
 * `group_role` is the role by groups at the last check. The refresh token, encrypted, asks the issuer again.
 */
const PEOPLE_OF_ADMINS = [
  `alter table person
    add column person_id text collate "C" not null
      default 'per_' || left(translate(replace(gen_random_uuid()::text, '-', ''), '0189', 'ghij'), 26),
    add column name text,
    add column role smallint,
    add column group_role smallint,
    add column created_at_ms bigint not null default 0,
    add column created_by text collate "C",
    add column deactivated_at_ms bigint,
    add column sealed_refresh bytea,
    add column recheck_at_ms bigint,
    alter column signed_in_at_ms drop not null`,
  "update person set created_at_ms = signed_in_at_ms",
  "alter table person drop constraint person_pkey, add primary key (workspace_id, person_id)",
  `alter table person
    alter column issuer drop not null,
    alter column subject drop not null,
    add unique (workspace_id, issuer, subject),
    add column actor text collate "C" not null
      generated always as (coalesce('oidc:' || issuer || '|' || subject, person_id)) stored`,
  "create unique index person_actor on person (workspace_id, actor)",
  "create index person_identity on person (issuer, subject)",
  "create index person_recheck on person (recheck_at_ms) where recheck_at_ms is not null",
  "create index api_key_owner on api_key (workspace_id, owner) where owner is not null",
  "alter table api_key add column last_used_at_ms bigint",
  `create table person_invite (
    workspace_id text collate "C" not null,
    person_id text collate "C" not null,
    secret_hash bytea not null unique,
    created_by text collate "C" not null,
    created_at_ms bigint not null,
    expires_at_ms bigint not null,
    primary key (workspace_id, person_id)
  )`,
  // Facts of a person who chooses a workspace, encrypted: groups and tokens are too long for a cookie.
  `create table pending_choice (
    choice_hash bytea primary key,
    facts bytea not null,
    expires_at_ms bigint not null
  )`,
];

/**
 * Channels of people, delivered as webhooks are, and what they need: settings, preferences, keys of Web Push, linked Slack accounts with
 * the codes that link them, requests of Slack that were served, and messages that may have to be updated. A channel's address stands in
 * `sealed_secret`.
 */
const NOTIFICATIONS = [
  `alter table webhook
    add column kind text not null default 'webhook',
    add column holder text collate "C" not null default '',
    add column label text not null default ''`,
  "create index webhook_holder on webhook (workspace_id, holder) where kind <> 'webhook'",
  `create table notification_settings (
    workspace_id text collate "C" primary key,
    settings text not null,
    sealed_private bytea not null,
    updated_at_ms bigint not null
  )`,
  `create table notification_preference (
    workspace_id text collate "C" not null,
    holder text collate "C" not null,
    groups text[] not null,
    about text not null,
    quiet_from integer,
    quiet_to integer,
    quiet_zone text,
    primary key (workspace_id, holder)
  )`,
  `create table push_key (
    workspace_id text collate "C" primary key,
    public_key text not null,
    sealed_key bytea not null
  )`,
  `create table slack_account (
    workspace_id text collate "C" not null,
    team_id text collate "C" not null,
    user_id text collate "C" not null,
    holder text collate "C" not null,
    channel_id text collate "C" not null,
    linked_at_ms bigint not null,
    primary key (workspace_id, team_id, user_id)
  )`,
  `create table slack_code (
    workspace_id text collate "C" not null,
    code_hash bytea not null,
    holder text collate "C" not null,
    expires_at_ms bigint not null,
    primary key (workspace_id, code_hash)
  )`,
  `create table slack_request (
    workspace_id text collate "C" not null,
    digest bytea not null,
    expires_at_ms bigint not null,
    primary key (workspace_id, digest)
  )`,
  "create index slack_request_expiry on slack_request (expires_at_ms)",
  `create table slack_message (
    workspace_id text collate "C" not null,
    webhook_id text collate "C" not null,
    escalation_id text collate "C" not null,
    channel text collate "C" not null,
    ts text collate "C" not null,
    is_answerable boolean not null,
    primary key (workspace_id, webhook_id, escalation_id)
  )`,
];

/** Changes that wait for others to accept them. A process of an earlier version creates workspaces without the setting. */
const PROPOSALS = [
  "alter table workspace add column mandate_reviews integer not null default 0",
  `create table proposal (
    workspace_id text collate "C" not null,
    proposal_id text collate "C" not null,
    kind text collate "C" not null,
    target text not null,
    subject text not null,
    change text not null,
    change_digest text collate "C" not null,
    base text not null,
    needed integer not null,
    status smallint not null,
    created_by text collate "C" not null,
    created_seq bigint not null,
    created_at_ms bigint not null,
    expires_at_ms bigint not null,
    acceptances jsonb not null,
    ended_by text collate "C",
    ended_at_ms bigint,
    end_note text not null default '',
    primary key (workspace_id, proposal_id)
  )`,
  "create index proposal_newest on proposal (workspace_id, created_seq desc)",
];

/**
 * Approver groups, and the approvals that an escalation needs and has, as JSON arrays. `remind_at_ms` is the next time at which people
 * are reminded.
 */
const APPROVERS = [
  `create table approver_group (
    workspace_id text collate "C" not null,
    name text collate "C" not null,
    description text not null,
    members jsonb not null,
    oidc_groups jsonb not null,
    deputies jsonb not null,
    created_at_ms bigint not null,
    updated_at_ms bigint not null,
    primary key (workspace_id, name)
  )`,
  `alter table escalation
    add column needs jsonb,
    add column approvals jsonb,
    add column remind_at_ms bigint`,
  "create index escalation_reminder on escalation (workspace_id, remind_at_ms) where status = 1 and remind_at_ms is not null",
];

/** People whom their issuer no longer vouches for, whose keys are refused. */
const LEAVERS = ["alter table person add column left_at_ms bigint"];

/** Finds the escalations that a key or person answered, newest first. */
const ANSWERED = [
  // In the order of ids, with which it is compared.
  `create index escalation_answered on escalation (workspace_id, resolved_by collate "C", created_seq)
    where resolved_by is not null`,
];

/** Kept backtests. */
const BACKTESTS = [
  `create table backtest (
    workspace_id text collate "C" not null,
    backtest_id text collate "C" not null,
    question text not null,
    question_digest text collate "C" not null,
    since_ms bigint,
    until_ms bigint,
    agent_id text collate "C",
    only_drafts boolean not null,
    report text not null,
    created_by text collate "C" not null,
    created_at_ms bigint not null,
    expires_at_ms bigint not null,
    primary key (workspace_id, backtest_id)
  )`,
  "create index backtest_newest on backtest (workspace_id, question_digest, created_at_ms desc)",
];

/** Calls of each step of the plan of an intent contract, as of `Workspace.trustSeq`; null without a plan. */
const PLANS = ["alter table authority add column step_calls integer[]"];

/** Meaning of a tool's results and arguments for provenance; null if nothing is declared. */
const TOOL_PROVENANCE = ["alter table tool_version add column provenance jsonb"];

/**
 * Values that sessions observed, as digests under a key of each session. The key ends with the session, and with it what the digests
 * could tell.
 */
const OBSERVATIONS = [
  `create table session_key (
    workspace_id text collate "C" not null,
    session_id text collate "C" not null,
    sealed_key bytea not null,
    primary key (workspace_id, session_id)
  )`,
  `create table session_observation (
    workspace_id text collate "C" not null,
    session_id text collate "C" not null,
    seq bigint not null,
    observation_id text collate "C" not null,
    kind smallint not null,
    tool text,
    values_digest bytea not null,
    digests bytea not null,
    source_counts integer[] not null,
    is_full boolean not null,
    primary key (workspace_id, session_id, seq)
  )`,
  // Digests are random bytes, which no compression makes smaller.
  "alter table session_observation alter column digests set storage external",
];

/** Callers who may say what an agent was asked. */
const PROMPT_SOURCES = ["alter table workspace add column prompt_from text not null default 'agent'"];

/** Sessions of coding agents, by the SHA-256 of what their clients call them. */
const HOOK_SESSIONS = [
  `create table hook_session (
    workspace_id text collate "C" not null,
    agent_id text collate "C" not null,
    client_digest text collate "C" not null,
    session_id text collate "C" not null,
    expires_at_ms bigint not null,
    primary key (workspace_id, agent_id, client_digest)
  )`,
  "create index hook_session_expiry on hook_session (expires_at_ms)",
];

/** The product's migrations in the order of their application; forward only. */
export const MIGRATIONS: readonly Migration[] = [
  { name: "0001-schema", statements: [...LOG, ...REGISTRY, ...AUTHORITY, ...WEBHOOKS, ...REDACTION] },
  { name: "0002-packs", statements: PACKS },
  { name: "0003-mandate-tests", statements: MANDATE_TESTS },
  { name: "0004-summaries", statements: SUMMARIES },
  { name: "0004-sign-ins", statements: SIGN_INS },
  { name: "0005-sessions", statements: SESSIONS },
  { name: "0006-mcp-servers", statements: MCP_SERVERS },
  { name: "0007-mcp-server-limits", statements: MCP_SERVER_LIMITS },
  { name: "0008-approved-calls", statements: APPROVED_CALLS },
  { name: "0009-mcp-tasks", statements: MCP_TASKS },
  { name: "0010-mcp-definitions", statements: MCP_DEFINITIONS },
  { name: "0011-used-choices", statements: USED_CHOICES },
  { name: "0012-principals", statements: PRINCIPALS },
  { name: "0013-key-ttls", statements: KEY_TTLS },
  { name: "0014-people", statements: PEOPLE },
  { name: "0015-halts", statements: HALTS },
  { name: "0016-mark-keys", statements: MARK_KEYS },
  { name: "0017-rate-limits", statements: RATE_LIMITS },
  { name: "0018-lists", statements: LISTS },
  { name: "0019-outcomes", statements: OUTCOMES },
  { name: "0020-budgets", statements: BUDGETS },
  { name: "0021-overdrawn-entries", statements: OVERDRAWN_ENTRIES },
  { name: "0022-hook-calls", statements: HOOK_CALLS },
  { name: "0023-task-decisions", statements: TASK_DECISIONS },
  { name: "0024-person-groups", statements: PERSON_GROUPS },
  { name: "0025-mandate-authors", statements: MANDATE_AUTHORS },
  { name: "0026-people-of-admins", statements: PEOPLE_OF_ADMINS },
  { name: "0027-notifications", statements: NOTIFICATIONS },
  { name: "0028-proposals", statements: PROPOSALS },
  { name: "0029-approvers", statements: APPROVERS },
  { name: "0030-leavers", statements: LEAVERS },
  { name: "0031-answered", statements: ANSWERED },
  { name: "0032-backtests", statements: BACKTESTS },
  { name: "0033-plans", statements: PLANS },
  { name: "0034-tool-provenance", statements: TOOL_PROVENANCE },
  { name: "0035-observations", statements: OBSERVATIONS },
  { name: "0036-prompt-sources", statements: PROMPT_SOURCES },
  { name: "0037-hook-sessions", statements: HOOK_SESSIONS },
];
