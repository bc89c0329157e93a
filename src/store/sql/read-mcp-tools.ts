/** The latest version of each tool, the latest that was accepted, and the one accepted before that. */
const decisive = (names: string): string => `select name, max(version) as latest,
      coalesce(max(version) filter (where accepted_at_ms is not null), 0) as active,
      coalesce((array_agg(version order by version desc) filter (where accepted_at_ms is not null))[2], 0) as before
    from mcp_tool where workspace_id = $1 and server = $2 ${names} group by name`;
const NAMED = `and name in (select jsonb_array_elements_text($3::jsonb))`;
const COLUMNS = `v.name, v.version, v.digest, v.accepted_at_ms::float8 as "acceptedAtMs"`;
const joined = (versions: string, names: string): string => `join (${decisive(names)}) d
      on d.name = v.name and v.version in (${versions})
    where v.workspace_id = $1 and v.server = $2 order by v.name, v.version`;

/** A version without its definition. */
export interface McpToolVersionRow {
  readonly name: string;
  readonly version: number;
  readonly digest: string;
  readonly acceptedAtMs: number | null;
}

/** A version with its definition, which may have 256 KiB. */
export interface McpToolDefinitionRow extends McpToolVersionRow {
  readonly definition: string;
  readonly firstSeenAtMs: number;
  readonly acceptedBy: string | null;
}

/**
 * Reads the versions that decide about the tools of a server, by name and version: of each tool the latest and the latest
 * accepted one. A server may create any number of versions. Parameters: workspace, server.
 */
export const readMcpToolPins = `select ${COLUMNS} from mcp_tool v ${joined("d.latest, d.active", "")}`;

/** Reads the same for some tools. Parameters: workspace, server, their names as a JSON array. */
export const readNamedMcpToolPins = `select ${COLUMNS} from mcp_tool v ${joined("d.latest, d.active", NAMED)}`;

/**
 * Reads these versions of some tools, and those in force before, with their definitions. Parameters: workspace, server, names.
 */
export const readMcpToolDefinitions = `select ${COLUMNS}, v.definition, v.first_seen_at_ms::float8 as "firstSeenAtMs",
    v.accepted_by as "acceptedBy" from mcp_tool v
    ${joined("d.latest, d.active, d.before", NAMED)}`;
