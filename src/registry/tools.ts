import type { ToolSource } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { ControlPlaneError, ErrorReason, type FieldViolation } from "../errors.ts";
import type { ChangeScope, WorkspaceLog } from "../log/workspace-log.ts";
import { flattenSchema } from "../policy/flatten-schema.ts";
import type { SealedTool } from "../state/control-changes.ts";
import type { ToolState } from "../state/policies.ts";
import { ToolVersionEntity } from "../store/entities.ts";
import { digestOf, type JsonObject } from "../tree/canonical.ts";
import { toolOf } from "./lookups.ts";
import { freeTextFrom, isStorableJson } from "./text.ts";

/** A tool as it is to be registered. */
export interface ToolDraft {
  readonly name: string;
  /** Undefined keeps the description of the version before. */
  readonly description: string | undefined;
  readonly inputSchema: JsonObject;
  readonly source: ToolSource;
  /** The request field that holds the schema; violations are told under it. Default `input_schema`. */
  readonly schemaField?: string | undefined;
}

/** A tool after its registration. */
export interface RegisteredTool {
  /** The current version. */
  readonly tool: ToolState;
  /** True if the registration made the version. */
  readonly created: boolean;
}

const SCHEMA_FIELD = "input_schema";
const NAME = /^[A-Za-z0-9_./:-]{1,128}$/;
const MAX_DESCRIPTION = 10_000;

/** What a tool's name must be, as a sentence about it. */
export const TOOL_NAME_RULE = "must have 1 to 128 letters, digits, `_`, `-`, `.`, `/` and `:`";
/** Whether a text may name a tool. */
export const isToolName = (text: string): boolean => NAME.test(text);
/** What a tool's description must be, as a sentence about it. */
export const TOOL_DESCRIPTION_RULE = `must have at most ${MAX_DESCRIPTION} characters`;
/** Whether a text may describe a tool. */
export const isToolDescription = (text: string): boolean => [...text].length <= MAX_DESCRIPTION;

function schemaViolations({ inputSchema, schemaField = SCHEMA_FIELD }: ToolDraft): readonly FieldViolation[] {
  const flattened = flattenSchema(inputSchema as never);
  if (flattened.kind === "invalid") {
    const placed = (field: string): string => `${schemaField}${field.slice(SCHEMA_FIELD.length)}`;
    return flattened.violations.map((violation) => ({ ...violation, field: placed(violation.field) }));
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

async function putVersion(scope: ChangeScope, draft: ToolDraft, digest: string): Promise<boolean> {
  const { transaction, state, nowMs, seal } = scope;
  const before = state.policies.tools.get(draft.name)?.sealed;
  if (before?.digest === digest) return false;
  const tool: SealedTool = {
    name: draft.name,
    version: (before?.version ?? 0) + 1,
    description: draft.description ?? before?.description ?? "",
    input_schema: draft.inputSchema,
    digest,
    source: draft.source,
  };
  const { input_schema, ...columns } = tool;
  const place = { workspaceId: state.workspaceId, inputSchema: input_schema as never, registeredAtMs: nowMs };
  await transaction.insert(ToolVersionEntity, { ...columns, ...place });
  seal({ type: "tool_registered", tool });
  return true;
}

/**
 * Registers tools, all or none. A schema equal to the current one makes no version; a changed one makes the next, and the
 * mandates that name the tool are compiled again. Of drafts with one name the first counts: they MUST have equal schemas.
 * Throws SCHEMA_INVALID with everything that is wrong with any schema.
 */
export async function registerTools(
  log: WorkspaceLog,
  by: string,
  drafts: readonly ToolDraft[],
): Promise<RegisteredTool[]> {
  assertSchemas(drafts);
  // Hashed before the change, which keeps everyone else waiting.
  const digests = drafts.map(({ inputSchema }) => digestOf(inputSchema));
  const created = new Set<string>();
  const state = await log.change(by, async (scope) => {
    const seen = new Set<string>();
    for (const [index, draft] of drafts.entries()) {
      if (seen.has(draft.name)) continue;
      seen.add(draft.name);
      if (await putVersion(scope, draft, digests[index] as string)) created.add(draft.name);
    }
    return scope.state;
  });
  return drafts.map(({ name }) => ({ tool: toolOf(state, name), created: created.has(name) }));
}

/** Registers one tool, as `registerTools`. Throws INVALID_FIELD for a description that cannot be kept. */
export async function registerTool(log: WorkspaceLog, by: string, draft: ToolDraft): Promise<RegisteredTool> {
  if (draft.description !== undefined) freeTextFrom("description", draft.description);
  const [registered] = await registerTools(log, by, [draft]);
  return registered as RegisteredTool;
}
