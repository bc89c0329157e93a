/** The row of one observation. */
export interface ObservationRow {
  readonly seq: number;
  readonly observationId: string;
  /** 1 for a prompt, 2 for a result, 3 for an approval. */
  readonly kind: number;
  readonly tool: string | null;
  readonly valuesDigest: Buffer;
  /** Sorted digests of eight bytes by source, joined, as `source_counts` counts them. */
  readonly digests: Buffer;
  readonly counts: readonly number[];
  readonly isFull: boolean;
  readonly sealedKey: Buffer;
}

/**
 * Reads what a session observed, in the order of the log, each row with the key of the session. A session that has ended has no key, and
 * so no row. Parameters: workspace, session.
 */
export const readObservations = {
  name: "read-observations",
  text: `select o.seq::float8 as seq, o.observation_id as "observationId", o.kind, o.tool, o.values_digest as "valuesDigest", o.digests,
      o.source_counts as counts, o.is_full as "isFull", k.sealed_key as "sealedKey"
    from session_key k join session_observation o on o.workspace_id = k.workspace_id and o.session_id = k.session_id
    where k.workspace_id = $1 and k.session_id = $2 order by o.seq`,
};

/** Sets the key of a session that has none. Parameters: workspace, session, encrypted key. */
export const insertSessionKey = {
  name: "insert-session-key",
  text: `insert into session_key (workspace_id, session_id, sealed_key)
    select $1, $2, $3 from authority
    where workspace_id = $1 and id = $2 and kind = 'session' and ended_at_ms is null for share
    on conflict (workspace_id, session_id) do nothing`,
};

/** Reads the key of a session. Parameters: workspace, session. */
export const readSessionKey = {
  name: "read-session-key",
  text: `select sealed_key as "sealedKey" from session_key where workspace_id = $1 and session_id = $2`,
};

/**
 * Writes the values that an approval adds to a session. Parameters: workspace, session, index of the approval's entry, id, digests in
 * hexadecimal, their number, whether the session is full.
 */
export const insertApprovedValues = {
  name: "insert-approved-values",
  text: `insert into session_observation
      (workspace_id, session_id, seq, observation_id, kind, values_digest, digests, source_counts, is_full)
    values ($1, $2, $3::bigint, $4, 3, '', decode($5, 'hex'), array[0, 0, 0, 0, $6::int], $7::boolean)`,
};

/** Observations of one kind and tool, counted. */
export interface ObservationCount {
  readonly kind: number;
  readonly tool: string | null;
  readonly observations: number;
  readonly values: number;
  /** True if the session is full. */
  readonly isFull: boolean;
}

/** Deletes the values of an observation. Parameters: workspace, session, index of its entry. */
export const forgetValues = {
  name: "forget-values",
  text: `update session_observation set digests = '', source_counts = array[0, 0, 0, 0, 0]
    where workspace_id = $1 and session_id = $2 and seq = $3::bigint`,
};

/**
 * Counts what a session observed, by kind and tool: results last, most values first. Every row says whether the session is full.
 * Parameters: workspace, session, most rows.
 */
export const countObservations = {
  name: "count-observations",
  text: `select kind, tool, count(*)::float8 as observations, sum(octet_length(digests) / 8)::float8 as values,
      bool_or(bool_or(is_full)) over () as "isFull"
    from session_observation where workspace_id = $1 and session_id = $2
    group by kind, tool order by kind = 2, values desc, tool limit $3`,
};

/**
 * Deletes keys and values of sessions that have ended or expired, at most some sessions at a time. Returns their number.
 * Parameters: time in epoch milliseconds, most sessions.
 */
export const deleteEndedSessions = {
  name: "delete-ended-sessions",
  text: `with ended as (
      select k.workspace_id, k.session_id from session_key k
      join authority a on a.workspace_id = k.workspace_id and a.id = k.session_id
      where a.ended_at_ms is not null or (a.sealed ->> 'expires_at_ms')::float8 <= $1::float8
      limit $2 for update of k skip locked
    ), without_key as (
      delete from session_key k using ended e where k.workspace_id = e.workspace_id and k.session_id = e.session_id
    ), without_values as (
      delete from session_observation o using ended e where o.workspace_id = e.workspace_id and o.session_id = e.session_id
    )
    select count(*)::int as sessions from ended`,
};
