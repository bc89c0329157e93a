// Pending outcomes have status 4, as in the condition of their index.

/**
 * Reads pending outcomes of a workspace whose time is over, the longest overdue first.
 * Parameters: workspace, time in epoch milliseconds, due time and decision of the last one read, most rows.
 */
export const readDueOutcomes = {
  name: "read-due-outcomes",
  text: `select decision_id as "decisionId", due_at_ms::float8 as "dueAtMs" from action_outcome
    where workspace_id = $1 and status = 4 and due_at_ms <= $2::bigint and (due_at_ms, decision_id) > ($3::bigint, $4)
    order by action_outcome.due_at_ms, decision_id limit $5`,
};

/** Reads the time at which the next pending outcome of a workspace becomes unknown. Parameters: workspace, epoch milliseconds. */
export const readNextDue = {
  name: "read-next-due",
  text: `select min(due_at_ms)::float8 as "dueAtMs" from action_outcome
    where workspace_id = $1 and status = 4 and due_at_ms > $2::bigint`,
};

/** Reads the earliest time at which a pending outcome becomes unknown, by workspace. Parameter: latest time, epoch milliseconds. */
export const readNextDues = {
  name: "read-next-dues",
  text: `select workspace_id as "workspaceId", min(due_at_ms)::float8 as "dueAtMs" from action_outcome
    where status = 4 and due_at_ms <= $1::bigint group by workspace_id`,
};
