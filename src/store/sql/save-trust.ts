/** Locks the trust snapshot of a workspace and reads the log size that it reflects. Parameter: workspace. */
export const lockTrust = {
  name: "lock-trust",
  text: "select trust_seq::float8 as seq from workspace where workspace_id = $1 for update",
};

/** Writes the trust of some agents. Parameters: workspace, agent ids, trust in tenths. */
export const saveTrust = {
  name: "save-trust",
  text: `update agent a set trust_tenths = t.trust
    from unnest($2::text[], $3::smallint[]) as t (agent_id, trust)
    where a.workspace_id = $1 and a.agent_id = t.agent_id`,
};

/** Sets the log size that the snapshot reflects. Parameters: workspace, size. */
export const setTrustSeq = {
  name: "set-trust-seq",
  text: "update workspace set trust_seq = $2 where workspace_id = $1",
};

/** Writes the calls of the steps of a plan as an array literal; null without a plan. */
export const stepCallsLiteral = (calls: readonly number[]): string | null =>
  calls.length === 0 ? null : `{${calls.join(",")}}`;

/**
 * Writes the uses of authority that has not ended; ending it stores its last counts. Parameters: workspace, ids, uses, and the calls of
 * the steps of plans as array literals, null without a plan.
 */
export const saveUses = {
  name: "save-uses",
  text: `update authority a set uses = u.uses, step_calls = u.step_calls::integer[]
    from unnest($2::text[], $3::bigint[], $4::text[]) as u (id, uses, step_calls)
    where a.workspace_id = $1 and a.id = u.id and a.ended_at_ms is null`,
};
