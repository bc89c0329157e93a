/** Columns of an escalation `e` and of the log entry `l` that created it. */
const ESCALATION_COLUMNS = `e.escalation_id as "escalationId", e.agent_id as "agentId", e.status, e.created_seq::float8 as "createdSeq",
  e.resolved_seq::float8 as "resolvedSeq", e.resolved_at_ms::float8 as "resolvedAtMs", e.resolved_by as "resolvedBy",
  e.note, e.used_by as "usedBy", e.used_at_ms::float8 as "usedAtMs", e.expires_at_ms::float8 as "expiresAtMs", e.asked,
  e.replaced_by as "replacedBy", e.extended_until_ms::float8 as "extendedUntilMs", e.edited_arguments as "editedArguments",
  e.edited_from as "editedFrom", e.needs, e.approvals, e.asked_by as "askedBy", l.body, l.leaf_hash as "leafHash"`;

/** Bytes of an escalation's texts. PostgreSQL knows them without reading what is stored out of line. */
const BYTES = `(octet_length(body) + coalesce(octet_length("editedArguments"), 0))`;

// The action of an escalation is stored once: in the log entry of the decision that created it.
const FROM = `from escalation e join ledger_entry l on l.workspace_id = e.workspace_id and l.seq = e.created_seq`;

/** Reads escalations by id. Order is not guaranteed. Parameters: workspace, ids. */
export const readEscalations = {
  name: "read-escalations",
  text: `select ${ESCALATION_COLUMNS} ${FROM} where e.workspace_id = $1 and e.escalation_id = any($2::text[])`,
};

const IS_LISTED = `e.workspace_id = $1 and ($2::bigint is null or e.created_seq < $2)
      and ($3::smallint is null or e.status = $3) and ($4::text is null or e.agent_id = $4)`;

/** Cuts a list of escalations, newest first, once their entries reach a number of bytes. */
const pageOf = (rows: string): string =>
  `select * from (
    select *, sum(${BYTES}) over newest - ${BYTES} as bytes_before, row_number() over newest as place from (
      ${rows} order by e.created_seq desc limit $5
    ) listed window newest as (order by "createdSeq" desc)
  ) page where bytes_before <= $6 or place = 2 order by "createdSeq" desc`;

/**
 * Lists escalations, newest first, until their entries reach a number of bytes; one surplus row shows that the list continues.
 * Parameters: workspace, index to stay below (null: none), status (null: any), agent (null: any), most rows, bytes.
 */
export const listEscalations = {
  name: "list-escalations",
  text: pageOf(`select ${ESCALATION_COLUMNS} ${FROM} where ${IS_LISTED}`),
};

/**
 * Lists escalations that a key or person answered, also with keys that they own. The newest of each key come from the index
 * `escalation_answered`, so that many escalations of others cost nothing. Parameters: as `listEscalations`, key or person.
 */
export const listAnsweredEscalations = {
  name: "list-answered-escalations",
  text: pageOf(`select ${ESCALATION_COLUMNS}
      from (select $7::text collate "C" as id union select key_id from api_key where workspace_id = $1 and owner = $7) answerer
      cross join lateral (
        select * from escalation e where ${IS_LISTED} and e.resolved_by collate "C" = answerer.id order by e.created_seq desc limit $5
      ) e join ledger_entry l on l.workspace_id = e.workspace_id and l.seq = e.created_seq`),
};

/**
 * Cuts a list of escalations after a number of bytes of their entries; the first row always passes.
 */
const cutByBytes = (rows: string, bytes: string): string =>
  `select * from (
    select *, sum(${BYTES}) over (order by seq) - ${BYTES} as bytes_before from (${rows}) listed
  ) sized where bytes_before < ${bytes} order by seq`;

/**
 * Reads the changes of escalations in a range of the log, oldest first: one row for each creation, each resolution, and
 * the last further ask or withdrawal of each escalation.
 * Parameters: workspace, first index, index to stop before, most rows, bytes after which nothing more is read.
 */
export const readEscalationChanges = {
  name: "read-escalation-changes",
  text: cutByBytes(
    `select e.seq::float8 as seq, e.kind, x.at_ms::float8 as "atMs", ${ESCALATION_COLUMNS}
    from (
      select *, created_seq as seq, 'created' as kind
      from escalation where workspace_id = $1 and created_seq >= $2 and created_seq < $3
      union all
      select *, updated_seq, 'updated'
      from escalation where workspace_id = $1 and updated_seq >= $2 and updated_seq < $3
      union all
      select *, resolved_seq, 'resolved'
      from escalation where workspace_id = $1 and resolved_seq >= $2 and resolved_seq < $3
      order by seq limit $4
    ) e
    join ledger_entry l on l.workspace_id = $1 and l.seq = e.created_seq
    join ledger_entry x on x.workspace_id = $1 and x.seq = e.seq`,
    "$5",
  ),
};

/** Reads the pending escalations created in a range of the log, oldest first. Parameters: as `readEscalationChanges`. */
export const readPendingEscalations = {
  name: "read-pending-escalations",
  text: cutByBytes(
    `select e.created_seq::float8 as seq, 'created' as kind, l.at_ms::float8 as "atMs", ${ESCALATION_COLUMNS}
    ${FROM}
    where e.workspace_id = $1 and e.status = 1 and e.created_seq >= $2 and e.created_seq < $3
    order by e.created_seq limit $4`,
    "$5",
  ),
};

/** Tests whether a pending escalation has expired. Parameters: workspace, time in epoch milliseconds. No row: none has. */
export const readExpired = {
  name: "read-expired",
  text: "select 1 from escalation where workspace_id = $1 and status = 1 and expires_at_ms <= $2 limit 1",
};

/** Reads the earliest expiry of pending escalations, by workspace. Parameter: latest time, epoch milliseconds. */
export const readNextExpiries = {
  name: "read-next-expiries",
  text: `select workspace_id as "workspaceId", min(expires_at_ms)::float8 as "dueAtMs"
    from escalation where status = 1 and expires_at_ms <= $1 group by workspace_id`,
};

/** Reads the earliest reminder of pending escalations, by workspace. Parameter: latest time, epoch milliseconds. */
export const readNextReminders = {
  name: "read-next-reminders",
  text: `select workspace_id as "workspaceId", min(remind_at_ms)::float8 as "dueAtMs"
    from escalation where status = 1 and remind_at_ms <= $1 group by workspace_id`,
};

/** Counts the pending escalations of all workspaces. */
export const countPending = {
  name: "count-pending-escalations",
  text: "select count(*)::int as count from escalation where status = 1",
};

/**
 * Reads the seconds that resolved escalations waited. The escalation of an edited action that was approved with the edit has not waited.
 * Order is not guaranteed. Parameters: workspace, ids.
 */
export const readWaits = {
  name: "read-escalation-waits",
  text: `select (e.resolved_at_ms - l.at_ms)::float8 / 1000 as seconds ${FROM}
    where e.workspace_id = $1 and e.escalation_id = any($2::text[]) and e.resolved_at_ms is not null
      and (e.edited_from is null or e.resolved_at_ms > l.at_ms)`,
};
