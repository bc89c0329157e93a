import type { FlattenedArgument } from "../policy/types.ts";
import type { SealedTool } from "../state/control-changes.ts";
import { type ToolState, toolSchemaFrom } from "../state/policies.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { Database } from "../store/database.ts";
import { ToolVersionEntity } from "../store/entities.ts";
import { toolOf } from "./lookups.ts";
import { type Page, type PageRequest, pageFrom } from "./page.ts";
import { stored } from "./stored.ts";

/** One version of a tool as it is shown. */
export interface ToolView {
  readonly sealed: SealedTool;
  readonly arguments: readonly FlattenedArgument[];
  readonly registeredAtMs: number;
}

/** Gives the argument paths of a version that is no longer current. */
export type FlattenMemo = (tool: SealedTool) => readonly FlattenedArgument[];

/** Versions of a tool that are shown. */
const SHOWN_VERSIONS = 100;
/** Old versions whose argument paths are remembered. */
const REMEMBERED_SCHEMAS = 200;

/** Remembers the argument paths of the schemas asked for last: a schema never changes, and flattening is slow work. */
export function createFlattenMemo(capacity: number = REMEMBERED_SCHEMAS): FlattenMemo {
  const byDigest = new Map<string, readonly FlattenedArgument[]>();
  return (tool) => {
    const flattened = byDigest.get(tool.digest) ?? toolSchemaFrom(tool).arguments;
    byDigest.delete(tool.digest);
    byDigest.set(tool.digest, flattened);
    const [oldest] = byDigest.keys();
    if (byDigest.size > capacity && oldest !== undefined) byDigest.delete(oldest);
    return flattened;
  };
}

/** The current version of a tool as it is shown. */
export function toolViewFrom({ sealed, schema, registeredAtMs }: ToolState): ToolView {
  return { sealed, arguments: schema.arguments, registeredAtMs };
}

/** Lists the current version of every tool in the code-unit order of the names; a page continues after a name. */
export function listTools(state: WorkspaceState, { size, after }: PageRequest<string>): Page<ToolState, string> {
  const names = [...state.policies.tools.keys()].filter((name) => after === undefined || name > after).sort();
  const page = pageFrom(names.slice(0, size + 1), size, (name) => name);
  return { items: page.items.map((name) => toolOf(state, name)), next: page.next };
}

/** The versions of a tool, newest first, from its current one on; the last 100. */
export async function listToolVersions(
  { orm }: Database,
  workspaceId: string,
  current: ToolState,
  flatten: FlattenMemo,
): Promise<ToolView[]> {
  const { name, version } = current.sealed;
  const where = { workspaceId, name, version: { $lt: version } };
  const options = { orderBy: { version: "desc" }, limit: SHOWN_VERSIONS - 1 } as const;
  const rows = await stored(orm.em.fork().find(ToolVersionEntity, where, options));
  const earlier = rows.map((row) => {
    const { version, description, digest, source, registeredAtMs } = row;
    const input_schema = row.inputSchema as SealedTool["input_schema"];
    const sealed = { name, version, description, input_schema, digest, source };
    return { sealed, arguments: flatten(sealed), registeredAtMs };
  });
  return [toolViewFrom(current), ...earlier];
}
