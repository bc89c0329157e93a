/**
 * Amounts of the decisions in a pot whose time lies in a stretch, as they stand at a place of the log: several rows for a decision if
 * its amount is in several states. Rows never change, so that a later outcome is left out by its index.
 */
const AMOUNTS = `select at_ms, decision_seq, agent_id, principal_id, state, sum(millionths) as millionths from budget_amount
    where workspace_id = $1 and pot = $2 and at_ms >= $3 and at_ms < $4 and decision_seq < $5 and seq < $6
    group by at_ms, decision_seq, agent_id, principal_id, state`;

/**
 * Finds the time of the last decision of a page; no row if fewer are left.
 * Parameters: workspace, pot, first time, time to stop before, size of the log, decisions of a page before the last.
 */
export const findPageEnd = {
  name: "find-page-end",
  text: `select at_ms::float8 as "atMs" from budget_amount
    where workspace_id = $1 and pot = $2 and at_ms >= $3 and at_ms < $4 and seq < $5 and seq = decision_seq
    order by budget_amount.at_ms, decision_seq limit 1 offset $6`,
};

/**
 * Reads amounts one by one, oldest first. Parameters: workspace, pot, first time, time to stop before, index to stop before for decisions,
 * and for outcomes.
 */
export const readAmounts = {
  name: "read-amounts",
  text: `select at_ms::float8 as "at", decision_seq::float8 as "decisionSeq", agent_id as "agentId", principal_id as "principalId",
      state, millionths::float8 as millionths
    from (${AMOUNTS}) amounts order by amounts.at_ms, amounts.decision_seq, state`,
};

/** Adds amounts by agent, principal and state. Parameters: as `readAmounts`. Order is not guaranteed. */
export const sumAmounts = {
  name: "sum-amounts",
  text: `select agent_id as "agentId", principal_id as "principalId", state, sum(millionths)::text as millionths
    from budget_amount
    where workspace_id = $1 and pot = $2 and at_ms >= $3 and at_ms < $4 and decision_seq < $5 and seq < $6
    group by agent_id, principal_id, state`,
};
