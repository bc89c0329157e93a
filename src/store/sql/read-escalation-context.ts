import { BODY_AS_JSON } from "./sealed-body.ts";

/*
 * The statements of what a person compares an escalated action with. Each looks at a bounded number of rows and of bytes of their
 * bodies, whose sizes PostgreSQL knows without reading what is stored out of line.
 */

/** Keeps entries of one tool, or else of one action type. Parameters: tool or null, the tool as it stands in a body, action type. */
const SAME_ACTION = `case when $3::text is null then action_type = $5
    when strpos(body, $4) > 0 then ${BODY_AS_JSON} #>> '{action,tool}' = $3 else false end`;

/**
 * Keeps the newest rows of the same action from `rows`, which has `seq`, `action_type` and `body`. Large bodies are left out; the
 * rest are looked at, then returned, until a number of bytes is reached.
 * Parameters: those of `SAME_ACTION`, bytes of one body, bytes looked at, most rows, bytes returned.
 */
const newestOfSameAction = (columns: string, rows: string): string =>
  `select ${columns} from (
    select *, sum(octet_length(body)) over (order by seq desc) as bytes_with from (
      select * from (
        select *, sum(octet_length(body)) over (order by seq desc) as looked_at from (${rows}) newest
        where octet_length(body) <= $6
      ) sized
      where looked_at <= $7 and ${SAME_ACTION} order by seq desc limit $8
    ) same
  ) page where bytes_with <= $9 order by seq desc`;

/**
 * Reads the newest allowed actions of an agent with the same tool or action type, newest first.
 * Parameters: workspace, agent, those of `newestOfSameAction`, first index, index to stop before, most rows to look at.
 */
export const readAllowedActions = {
  name: "read-allowed-actions",
  text: newestOfSameAction(
    "body",
    `select seq, action_type, body from ledger_entry
      where workspace_id = $1 and agent_id = $2 and kind in (0, 2) and decision = 1 and seq >= $10 and seq < $11
      order by ledger_entry.seq desc limit $12`,
  ),
};

/**
 * Reads the newest resolved escalations with the same tool or action type, the last resolved first; `seq` is the index of the
 * resolution. Parameters: workspace, escalation to leave out, those of `newestOfSameAction`, index to stop before, most rows to look at.
 */
export const readResolvedEscalations = {
  name: "read-resolved-escalations",
  text: newestOfSameAction(
    `escalation_id as "escalationId", status, resolved_by as "resolvedBy", resolved_at_ms::float8 as "resolvedAtMs", note,
      is_edited as "isEdited", body`,
    // An index lookup each: without statistics the planner would read the whole log for a join.
    `select e.*, l.action_type, l.body from (
        select escalation_id, resolved_seq as seq, status, resolved_by, resolved_at_ms, note,
          edited_arguments is not null as is_edited, created_seq
        from escalation where workspace_id = $1 and resolved_seq < $10 and escalation_id <> $2
        order by escalation.resolved_seq desc limit $11
      ) e cross join lateral (
        select action_type, body from ledger_entry where workspace_id = $1 and seq = e.created_seq limit 1
      ) l`,
  ),
};
