import { LRUCache } from "lru-cache";
import type { ToolSource } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { ControlPlaneError, ErrorReason, type FieldViolation, invalidField } from "../errors.ts";

import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { toolKey, toolNameFault } from "../policy/names.ts";
import { flattenSchema } from "../policy/schema/flatten.ts";
import { type SchemaWarning, uncheckedPatterns } from "../policy/schema/unchecked-patterns.ts";

import type { FlattenedArgument } from "../policy/types.ts";
import type { SealedTool, SealedToolProvenance } from "../state/control-changes.ts";
import { type ToolState, toolSchemaFrom } from "../state/policies.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type Database, stored } from "../store/database.ts";
import { ToolVersionEntity } from "../store/entities.ts";
import { digestOf, type JsonObject } from "../tree/canonical.ts";
import { checkedText, isStorableJson } from "./checked-text.ts";
import { nameTest } from "./name-search.ts";
import { jsonBytes, latestFirst, latestVersions, type Page, type PageRequest, pageFrom } from "./page.ts";
import { checkedProvenance, type DeclaredProvenance } from "./tool-provenance.ts";

/** A tool to register. */
export interface ToolDraft {
  readonly name: string;
  /** Undefined keeps the previous version's description. */
  readonly description: string | undefined;
  readonly inputSchema: JsonObject;
  readonly source: ToolSource;
  /** Meaning of results and arguments for provenance; null removes it. Default: the previous version's. */
  readonly provenance?: SealedToolProvenance | null | undefined;
  /** Request field of the schema, for violations. Default `input_schema`. */
  readonly schemaField?: string | undefined;
}

/** A tool after its registration. */
interface RegisteredTool {
  /** The current version. */
  readonly tool: ToolState;
  /** True if the registration made the version. */
  readonly created: boolean;
}

const SCHEMA_FIELD = "input_schema";
const MAX_DESCRIPTION = 10_000;
/** Maximum number of versions in a tool's history, newest first. */
const SHOWN_VERSIONS = 100;
/** Bytes of warnings that are cached, with their digests; most schemas have none. */
const CACHED_WARNING_BYTES = 1_048_576;
/** Bytes of the cached argument paths of old schemas. */
const CACHED_BYTES = 33_554_432;

/** Rule for a tool's description, as the rest of a sentence about it. */
export const TOOL_DESCRIPTION_RULE = `must have at most ${MAX_DESCRIPTION} characters`;
/** Tests the length of a tool's description. */
export const isToolDescription = (text: string): boolean => [...text].length <= MAX_DESCRIPTION;

/** Returns the current version of a tool, named in any case. Throws TOOL_NOT_FOUND. */
export function getTool(state: WorkspaceState, name: string): ToolState {
  const tool = state.policies.tool(name);
  if (tool !== undefined) return tool;
  throw new ControlPlaneError(ErrorReason.TOOL_NOT_FOUND, `no tool \`${name}\` is registered`, { tool: name });
}

function schemaViolations({ inputSchema, schemaField = SCHEMA_FIELD }: ToolDraft): readonly FieldViolation[] {
  const flattened = flattenSchema(inputSchema as never);
  if (flattened.kind === "invalid") {
    const relocated = (field: string): string => `${schemaField}${field.slice(SCHEMA_FIELD.length)}`;
    return flattened.violations.map((violation) => ({ ...violation, field: relocated(violation.field) }));
  }
  if (isStorableJson(inputSchema)) return [];
  const description = "holds U+0000 or half of a surrogate pair";
  return [{ field: schemaField, reason: "NOT_A_SCHEMA", description }];
}

function assertSchemas(drafts: readonly ToolDraft[]): void {
  const violations = drafts.flatMap(schemaViolations);
  const [first] = violations;
  if (first === undefined) return;
  const more = violations.length > 1 ? ` (and ${violations.length - 1} more)` : "";
  const message = `the schema is refused: \`${first.field}\` ${first.description}${more}`;
  const metadata = { field: first.field, schema_reason: first.reason, violations: String(violations.length) };
  throw new ControlPlaneError(ErrorReason.SCHEMA_INVALID, message, metadata, { violations });
}

/** Changes the description of a tool's current version, unless it is that already. */
async function describeVersion(
  { transaction, state, seal }: ChangeScope,
  { name, version, digest, description: before }: SealedTool,
  description: string,
): Promise<void> {
  if (description === before) return;
  const { workspaceId } = state;
  await transaction.nativeUpdate(ToolVersionEntity, { workspaceId, name, version }, { description });
  seal({ type: "tool_described", tool: { name, version, digest, description } });
}

/** Declares what the results and arguments of a tool's current version mean for provenance, unless that is declared already. */
async function declareVersion(
  { transaction, state, seal }: ChangeScope,
  { name, version, digest, provenance: before }: SealedTool,
  provenance: SealedToolProvenance | null,
): Promise<void> {
  if (digestOf(before ?? null) === digestOf(provenance)) return;
  const { workspaceId } = state;
  await transaction.nativeUpdate(ToolVersionEntity, { workspaceId, name, version }, { provenance });
  seal({ type: "tool_provenance_declared", tool: { name, version, digest, provenance } });
}

/** Makes the version of a tool that follows `before`. */
function nextVersion(before: SealedTool | undefined, draft: ToolDraft, digest: string): SealedTool {
  const provenance = draft.provenance === undefined ? before?.provenance : draft.provenance;
  return {
    // A tool is shown as it was named first.
    name: before?.name ?? draft.name.trim(),
    version: (before?.version ?? 0) + 1,
    description: draft.description ?? before?.description ?? "",
    input_schema: draft.inputSchema,
    digest,
    source: draft.source,
    ...(provenance != null && { provenance }),
  };
}

/** Explains, in a sentence, why a tool's schema cannot be registered; undefined if it can. */
export function schemaFault(inputSchema: JsonObject): string | undefined {
  const [first] = schemaViolations({ name: "", description: undefined, inputSchema, source: 0 });
  return first && `\`${first.field}\` ${first.description}`;
}

/**
 * Registers the next version of a tool. Returns false if its schema is the current one; then at most the description and
 * the declaration for provenance change.
 */
export async function putToolVersion(scope: ChangeScope, draft: ToolDraft, digest: string): Promise<boolean> {
  const { transaction, state, nowMs, seal } = scope;
  const before = state.policies.tool(draft.name)?.sealed;
  if (before?.digest === digest) {
    await describeVersion(scope, before, draft.description ?? before.description);
    if (draft.provenance !== undefined) await declareVersion(scope, before, draft.provenance);
    return false;
  }
  const tool = nextVersion(before, draft, digest);
  const { input_schema, ...columns } = tool;
  const { workspaceId } = state;
  const row = { ...columns, workspaceId, inputSchema: input_schema as never, registeredAtMs: nowMs };
  await transaction.insert(ToolVersionEntity, row);
  seal({ type: "tool_registered", tool });
  return true;
}

/** Gives the event loop a turn. */
type GiveWay = () => Promise<void>;

/**
 * Registers tools, all or none. A schema equal to the current one creates no version, and a new description of it takes the
 * place of the old; a changed schema creates the next version, and the mandates that name the tool are compiled again. Of
 * drafts with one name the first counts: they MUST have equal schemas. `giveWay` gives the event loop a turn between two steps
 * on large schemas; default: no turns. Throws SCHEMA_INVALID with every violation of every schema.
 */
export async function registerTools(
  log: WorkspaceLog,
  by: string,
  drafts: readonly ToolDraft[],
  giveWay: GiveWay = async () => undefined,
): Promise<RegisteredTool[]> {
  assertSchemas(drafts);
  await giveWay();
  // Hashed before the change, which holds the log's lock.
  const digests = drafts.map(({ inputSchema }) => digestOf(inputSchema));
  await giveWay();
  const created = new Set<string>();
  const state = await log.change(by, async (scope) => {
    const seen = new Set<string>();
    for (const [index, draft] of drafts.entries()) {
      const key = toolKey(draft.name);
      if (seen.has(key)) continue;
      seen.add(key);
      if (await putToolVersion(scope, draft, digests[index] as string)) created.add(key);
    }
    return scope.state;
  });
  return drafts.map(({ name }) => ({ tool: getTool(state, name), created: created.has(toolKey(name)) }));
}

/** Returns what registering tools would create, and changes nothing. Throws SCHEMA_INVALID as `registerTools` does. */
export function tryTools(
  state: WorkspaceState,
  drafts: readonly ToolDraft[],
  nowMs: number,
): readonly { readonly tool: ToolView; readonly created: boolean }[] {
  assertSchemas(drafts);
  return drafts.map((draft) => {
    const digest = digestOf(draft.inputSchema);
    const current = state.policies.tool(draft.name);
    if (current?.sealed.digest === digest) return { tool: toolViewFrom(current), created: false };
    const sealed = nextVersion(current?.sealed, draft, digest);
    return { tool: { sealed, arguments: toolSchemaFrom(sealed).arguments, registeredAtMs: nowMs }, created: true };
  });
}

function provenanceOf(declared: DeclaredProvenance, draft: ToolDraft): SealedToolProvenance | null {
  const flattened = flattenSchema(draft.inputSchema as never);
  // The schema's own faults are told when it is registered.
  return flattened.kind === "invalid" ? null : checkedProvenance(declared, flattened.arguments);
}

/** A tool to register alone. */
export interface OneToolDraft extends Omit<ToolDraft, "provenance"> {
  /** Meaning of results and arguments for provenance. Default: the previous version's. */
  readonly declared?: DeclaredProvenance | undefined;
}

/** Registers one tool, as `registerTools`. Throws INVALID_FIELD for a name, a description or a declaration that is refused. */
export async function registerTool(
  log: WorkspaceLog,
  by: string,
  { declared, ...draft }: OneToolDraft,
  giveWay?: GiveWay,
): Promise<RegisteredTool> {
  if (draft.description !== undefined) checkedText("description", draft.description);
  const name = draft.name.trim();
  const fault = toolNameFault(name);
  if (fault !== undefined) throw invalidField("name", fault);
  const provenance = declared && provenanceOf(declared, draft);
  const [registered] = await registerTools(log, by, [{ ...draft, name, provenance }], giveWay);
  return registered as RegisteredTool;
}

/**
 * Returns the version that registering a tool would put in force, with the fields of the request below `path`. Throws as
 * `registerTool`.
 */
export function suppositionalTool(
  state: WorkspaceState,
  { declared, ...draft }: OneToolDraft,
  path: string,
): SealedTool {
  const name = draft.name.trim();
  const fault = toolNameFault(name);
  if (fault !== undefined) throw invalidField(`${path}.name`, fault);
  assertSchemas([{ ...draft, schemaField: `${path}.input_schema` }]);
  const provenance = declared && provenanceOf(declared, draft);
  return nextVersion(state.policies.tool(name)?.sealed, { ...draft, name, provenance }, digestOf(draft.inputSchema));
}

/**
 * Declares what a tool's results and arguments mean for provenance. Its later versions keep the declaration. Throws
 * TOOL_NOT_FOUND; INVALID_FIELD for a path that is refused.
 */
export async function declareToolProvenance(
  log: WorkspaceLog,
  by: string,
  name: string,
  declared: DeclaredProvenance,
): Promise<ToolState> {
  const state = await log.change(by, async (scope) => {
    const { sealed, schema } = getTool(scope.state, name);
    await declareVersion(scope, sealed, checkedProvenance(declared, schema.arguments));
    return scope.state;
  });
  return getTool(state, name);
}

/** One version of a tool as it is shown. */
export interface ToolView {
  readonly sealed: SealedTool;
  readonly arguments: readonly FlattenedArgument[];
  readonly registeredAtMs: number;
}

/** Returns the argument paths of a tool's version, current or not. */
type FlattenTool = (tool: SealedTool) => readonly FlattenedArgument[];

/** Creates a `FlattenTool` with a cache: a schema never changes, and flattening is slow. */
export function createFlattenTool(): FlattenTool {
  const byDigest = new LRUCache<string, readonly FlattenedArgument[]>({
    maxSize: CACHED_BYTES,
    sizeCalculation: (flattened) => jsonBytes(flattened),
  });
  return (tool) => {
    const flattened = byDigest.get(tool.digest) ?? toolSchemaFrom(tool).arguments;
    byDigest.set(tool.digest, flattened);
    return flattened;
  };
}

/** Returns the warnings about a tool's schema. */
type SchemaWarnings = (tool: SealedTool) => readonly SchemaWarning[];

/** Creates a `SchemaWarnings` with a cache, because trying every pattern is slow. */
export function createSchemaWarnings(): SchemaWarnings {
  const byDigest = new LRUCache<string, readonly SchemaWarning[]>({
    maxSize: CACHED_WARNING_BYTES,
    sizeCalculation: (warnings, digest) => digest.length + jsonBytes(warnings),
  });
  return ({ digest, input_schema }) => {
    const warnings = byDigest.get(digest) ?? uncheckedPatterns(input_schema as never);
    byDigest.set(digest, warnings);
    return warnings;
  };
}

/** Returns the current version of a tool as it is shown. */
export function toolViewFrom({ sealed, schema, registeredAtMs }: ToolState): ToolView {
  return { sealed, arguments: schema.arguments, registeredAtMs };
}

/**
 * Lists the current version of every tool whose name holds the words of a text, in the code-unit order of the names; a position is a
 * name.
 */
export function listTools(
  state: WorkspaceState,
  search: string,
  { size, after }: PageRequest<string>,
): Page<ToolState, string> {
  const isWanted = nameTest(search);
  const registered = [...state.policies.tools.values()].map(({ sealed }) => sealed.name);
  const names = registered.filter((name) => (after === undefined || name > after) && isWanted(name)).sort();
  const tools = names.slice(0, size + 1).map((name) => getTool(state, name));
  return pageFrom(
    tools,
    size,
    ({ sealed }) => sealed.name,
    ({ sealed, schema }) => jsonBytes(sealed) + jsonBytes(schema.arguments),
  );
}

/** Lists the latest versions of a tool that fit into a page, at most 100, newest first, beginning with the current one. */
export async function listToolVersions(
  { orm }: Database,
  workspaceId: string,
  current: ToolState,
  flatten: FlattenTool,
): Promise<readonly ToolView[]> {
  const { name } = current.sealed;
  const read = async (chunk: PageRequest): Promise<ToolView[]> => {
    const { where, options } = latestFirst("version", chunk);
    const rows = await stored(orm.em.fork().find(ToolVersionEntity, { workspaceId, name, ...where }, options));
    return rows.map(({ version, description, digest, source, registeredAtMs, inputSchema, provenance }) => {
      const input_schema = inputSchema as SealedTool["input_schema"];
      const declared = provenance as SealedToolProvenance | null;
      const sealed: SealedTool = {
        name,
        version,
        description,
        input_schema,
        digest,
        source,
        ...(declared !== null && { provenance: declared }),
      };
      return { sealed, arguments: flatten(sealed), registeredAtMs };
    });
  };
  return latestVersions(toolViewFrom(current), SHOWN_VERSIONS, ({ sealed }) => sealed.version, read);
}
