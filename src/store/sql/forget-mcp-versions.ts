/**
 * Deletes older versions of a definition, so that a server whose definitions change at every listing fills no table. Keeps the
 * first, the newest ones, the version in force, the one accepted before it, and every version that a person accepted. A version
 * that came into force without one was accepted when it was first seen. Parameters: workspace, server, kind, name, the number of
 * newest versions.
 */
export const forgetMcpVersions = `with latest as (
    select max(version) as version, max(version) filter (where accepted_at_ms is not null) as active,
      (array_agg(version order by version desc) filter (where accepted_at_ms is not null))[2] as before
    from mcp_definition where workspace_id = $1 and server = $2 and kind = $3 and name = $4
  )
  delete from mcp_definition d using latest
    where d.workspace_id = $1 and d.server = $2 and d.kind = $3 and d.name = $4
      and d.version > 1 and d.version <= latest.version - $5::integer
      and d.version is distinct from latest.active and d.version is distinct from latest.before
      and (d.accepted_at_ms is null or d.accepted_at_ms = d.first_seen_at_ms)`;
