/** The latest version of each definition, the latest that was accepted, and the one accepted before that. */
const decisive = (names: string): string => `select kind, name, max(version) as latest,
      coalesce(max(version) filter (where accepted_at_ms is not null), 0) as active,
      coalesce((array_agg(version order by version desc) filter (where accepted_at_ms is not null))[2], 0) as before
    from mcp_definition where workspace_id = $1 and server = $2 and kind = $3 ${names} group by kind, name`;
const NAMED = `and name in (select jsonb_array_elements_text($4::jsonb))`;
const COLUMNS = `v.name, v.version, v.digest, v.is_whole as "isWhole", v.stateless_digest as "statelessDigest", v.accepted_by as "acceptedBy",
  v.accepted_at_ms::float8 as "acceptedAtMs"`;
const joined = (versions: string, names: string): string => `join (${decisive(names)}) d
      on d.kind = v.kind and d.name = v.name and v.version in (${versions})
    where v.workspace_id = $1 and v.server = $2 order by v.name, v.version`;

/** A version without its definition. */
export interface McpVersionRow {
  readonly name: string;
  readonly version: number;
  readonly digest: string;
  /** Digest of the tool as the stateless generation lists it, without `execution`; null if it has none. */
  readonly statelessDigest: string | null;
  /** False for a tool's version from before whole definitions were pinned. */
  readonly isWhole: boolean;
  readonly acceptedBy: string | null;
  readonly acceptedAtMs: number | null;
}

/** A version with its definition, which may have 256 KiB. */
export interface McpDefinitionVersionRow extends McpVersionRow {
  readonly definition: string;
  readonly firstSeenAtMs: number;
}

/**
 * Reads the versions that decide about the definitions of one kind of a server, by name and version: of each definition the
 * latest and the latest accepted one. A server may create any number of versions. Parameters: workspace, server, kind.
 */
export const readMcpPins = `select ${COLUMNS} from mcp_definition v ${joined("d.latest, d.active", "")}`;

/** Reads the same for some definitions. Parameters: workspace, server, kind, their names as a JSON array. */
export const readNamedMcpPins = `select ${COLUMNS} from mcp_definition v ${joined("d.latest, d.active", NAMED)}`;

/**
 * Reads these versions of some definitions, and those in force before, with their texts. Parameters: workspace, server, kind,
 * names.
 */
export const readMcpDefinitions = `select ${COLUMNS}, v.definition, v.first_seen_at_ms::float8 as "firstSeenAtMs"
    from mcp_definition v ${joined("d.latest, d.active, d.before", NAMED)}`;

/**
 * Counts the definitions of some servers whose latest version waits to be accepted: those without an accepted version, and those
 * with one. Servers without any have no row. Parameters: workspace, servers as a
 * JSON array.
 */
export const countWaitingMcpDefinitions = `select server,
      (count(*) filter (where not has_accepted))::int as fresh, (count(*) filter (where has_accepted))::int as changed
    from (
      select server, bool_or(accepted_at_ms is not null) as has_accepted,
        max(version) > coalesce(max(version) filter (where accepted_at_ms is not null), 0) as waits
      from mcp_definition where workspace_id = $1 and server in (select jsonb_array_elements_text($2::jsonb)) group by server, kind, name
    ) d
    where waits group by server`;
