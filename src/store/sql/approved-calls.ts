/**
 * Lists an agent's approvals that are neither used nor expired, and its approved calls whose result nobody has got, newest first.
 * Parameters: workspace, agent, number of the status `approved`, epoch milliseconds, most rows of each.
 */
export const readEarlierCalls = {
  name: "read-earlier-calls",
  text: `(select escalation_id as "escalationId", null as "decisionId", action_digest as digest, 0 as status,
      0::float8 as "leaseUntilMs"
    from escalation
    where workspace_id = $1 and agent_id = $2 and status = $3 and used_by is null and expires_at_ms > $4
    order by created_seq desc limit $5)
    union all
    (select null, decision_id, call_digest, status, lease_until_ms::float8 from mcp_approved_call
    where workspace_id = $1 and agent_id = $2 and expires_at_ms > $4 order by created_at_ms desc limit $5)`,
};

/** A row of `readEarlierCalls`: an approval with its `escalationId`, or a call with its `decisionId`. */
export interface EarlierCallRow {
  readonly escalationId: string | null;
  readonly decisionId: string | null;
  readonly digest: string;
  readonly status: number;
  readonly leaseUntilMs: number;
}

/** Reads one approved call. Parameters: workspace, agent, decision, epoch milliseconds. No row: its result was given out. */
export const readApprovedCall = {
  name: "read-approved-call",
  text: `select decision_id as "decisionId", call_digest as digest, status, lease_until_ms::float8 as "leaseUntilMs",
      expires_at_ms::float8 as "expiresAtMs"
    from mcp_approved_call where workspace_id = $1 and agent_id = $2 and decision_id = $3 and expires_at_ms > $4`,
};

/** Reads the kept result of an approved call. Parameters: workspace, agent, decision. */
export const readKeptResult = {
  name: "read-kept-result",
  text: `select sealed_result as "sealedResult" from mcp_approved_call
    where workspace_id = $1 and agent_id = $2 and decision_id = $3`,
};

/**
 * Writes a call before it is sent to its server, or one whose result could not be given out.
 * Parameters: workspace, agent, decision, digest, number of the status, end of the lease, expiry, encrypted result or null, time.
 */
export const insertApprovedCall = {
  name: "insert-approved-call",
  text: `insert into mcp_approved_call
      (workspace_id, agent_id, decision_id, call_digest, status, lease_until_ms, expires_at_ms, sealed_result, created_at_ms)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict do nothing`,
};

/** Renews the lease of a running call. Parameters: workspace, agent, decision, end of the lease, expiry. */
export const renewApprovedCall = {
  name: "renew-approved-call",
  text: `update mcp_approved_call set lease_until_ms = $4, expires_at_ms = $5
    where workspace_id = $1 and agent_id = $2 and decision_id = $3 and status = 1`,
};

/** Ends a running call without a result. Parameters: workspace, agent, decision, number of the status, expiry. */
export const endApprovedCall = {
  name: "end-approved-call",
  text: `update mcp_approved_call set status = $4, expires_at_ms = $5
    where workspace_id = $1 and agent_id = $2 and decision_id = $3 and status = 1`,
};

/** Waits for the turn of a workspace to keep a result, until the transaction ends. Parameter: workspace. */
export const lockKeptResults = {
  name: "lock-kept-results",
  text: "select pg_advisory_xact_lock(hashtextextended('mcp_approved_call ' || $1, 0))",
};

/**
 * Keeps the result of a running call if all of its workspace stay within a number of bytes. The caller MUST hold
 * `lockKeptResults`. Parameters: workspace, agent, decision, encrypted result, expiry, most bytes, epoch milliseconds.
 */
export const keepResult = {
  name: "keep-result",
  text: `update mcp_approved_call set status = 2, sealed_result = $4::bytea, expires_at_ms = $5
    where workspace_id = $1 and agent_id = $2 and decision_id = $3 and status = 1
      and octet_length($4::bytea) + (select coalesce(sum(octet_length(sealed_result)), 0) from mcp_approved_call
        where workspace_id = $1 and expires_at_ms > $7) <= $6`,
};

/** Forgets a call whose response reached its client. Parameters: workspace, agent, decision. */
export const forgetApprovedCall = {
  name: "forget-approved-call",
  text: "delete from mcp_approved_call where workspace_id = $1 and agent_id = $2 and decision_id = $3",
};

/**
 * Takes a call that is not running any more, so that one caller alone gets its result.
 * Parameters: workspace, agent, decision, epoch milliseconds. No row: it was taken, or it runs.
 */
export const takeApprovedCall = {
  name: "take-approved-call",
  text: `delete from mcp_approved_call
    where workspace_id = $1 and agent_id = $2 and decision_id = $3 and expires_at_ms > $4
      and (status <> 1 or lease_until_ms <= $4) returning decision_id as "decisionId"`,
};

/** Deletes the calls that have expired, and those of revoked agents. Parameter: epoch milliseconds. */
export const sweepApprovedCalls = {
  name: "sweep-approved-calls",
  text: `delete from mcp_approved_call c where expires_at_ms <= $1
    or exists (select from agent a where a.workspace_id = c.workspace_id and a.agent_id = c.agent_id and a.status = 3)`,
};
