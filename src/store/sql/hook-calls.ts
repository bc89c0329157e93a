/** Notes which decision allowed a tool call. Parameters: workspace, agent, digest of the call, decision, epoch milliseconds of its end. */
export const insertHookCall = {
  name: "insert-hook-call",
  text: `insert into hook_call (workspace_id, agent_id, call_digest, decision_id, expires_at_ms)
    values ($1, $2, $3, $4, $5::bigint) on conflict do nothing`,
};

/** Takes the decisions that allowed a tool call, once. Parameters: workspace, agent, digest of the call, epoch milliseconds. */
export const takeHookCall = {
  name: "take-hook-call",
  text: `with taken as (
      delete from hook_call where workspace_id = $1 and agent_id = $2 and call_digest = $3
      returning decision_id, expires_at_ms
    )
    select decision_id as "decisionId" from taken where expires_at_ms > $4::bigint`,
};

/** Deletes the calls whose outcome is not waited for any more. Parameters: epoch milliseconds. */
export const sweepHookCalls = {
  name: "sweep-hook-calls",
  text: "delete from hook_call where expires_at_ms <= $1::bigint",
};
