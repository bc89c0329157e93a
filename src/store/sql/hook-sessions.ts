/**
 * Reads the session of a client's session. Parameters: workspace, agent, digest of the client's session, epoch milliseconds.
 */
export const readHookSession = {
  name: "read-hook-session",
  text: `select session_id as "sessionId", expires_at_ms::float8 as "expiresAtMs" from hook_session
    where workspace_id = $1 and agent_id = $2 and client_digest = $3 and expires_at_ms > $4::bigint`,
};

/**
 * Notes the session of a client's session that has none which lasts. Returns no row if it has one. Parameters: workspace, agent, digest
 * of the client's session, session, epoch milliseconds of its end, and of now.
 */
export const insertHookSession = {
  name: "insert-hook-session",
  text: `insert into hook_session (workspace_id, agent_id, client_digest, session_id, expires_at_ms)
    values ($1, $2, $3, $4, $5::bigint)
    on conflict (workspace_id, agent_id, client_digest) do update
      set session_id = excluded.session_id, expires_at_ms = excluded.expires_at_ms
      where hook_session.expires_at_ms <= $6::bigint
    returning session_id`,
};

/** Deletes the notes of sessions that have expired. Parameters: epoch milliseconds. */
export const sweepHookSessions = {
  name: "sweep-hook-sessions",
  text: "delete from hook_session where expires_at_ms <= $1::bigint",
};
