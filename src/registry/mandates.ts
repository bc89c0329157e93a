import { type JsonObject, toJson } from "@bufbuild/protobuf";
import { type Rule, RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { ControlPlaneError, ErrorReason, type FieldViolation, invalidField } from "../errors.ts";
import type { ChangeScope, WorkspaceLog } from "../log/workspace-log.ts";
import { compileMandate } from "../policy/compile-mandate.ts";
import { compileRules } from "../policy/compile-rules.ts";
import type { MandateSource, RuleViolation } from "../policy/types.ts";
import type { SealedMandate } from "../state/control-changes.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { MandateVersionEntity } from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import { digestOf } from "../tree/canonical.ts";
import { agentOf, departmentOf } from "./lookups.ts";
import { lastVersions, mandateNotFound } from "./mandate-lists.ts";
import { type MandateDraft, type MandateView, viewFromRow, viewFromState } from "./mandate-view.ts";
import { comparableName, freeTextFrom, isStorableJson, nameFrom } from "./text.ts";

/** What compiling rules without publishing them came to. */
export type CompiledDraft =
  | { readonly valid: true; readonly rules: readonly Rule[] }
  | { readonly valid: false; readonly violations: readonly RuleViolation[] };

/** A draft in the form that is sealed and hashed. */
function definitionFrom(draft: MandateDraft): JsonObject {
  const definition: JsonObject = {
    name: nameFrom("name", draft.name),
    description: freeTextFrom("description", draft.description),
    scope: draft.scope,
    ...(draft.departmentId === undefined ? {} : { department_id: draft.departmentId }),
    ...(draft.agentId === undefined ? {} : { agent_id: draft.agentId }),
    priority: draft.priority,
    mode: draft.mode,
    rules: draft.rules.map((rule) => toJson(RuleSchema, rule, { useProtoFieldName: true })),
  };
  if (!isStorableJson(definition)) throw invalidField("rules", "must not hold U+0000 or half of a surrogate pair");
  return definition;
}

function mandateInvalid(found: readonly RuleViolation[]): ControlPlaneError {
  const violations = found.map(
    ({ path, reason, message }): FieldViolation => ({
      field: path,
      reason,
      // The message ends in the suggestion where there is one.
      description: message,
    }),
  );
  const [first] = violations;
  const more = found.length > 1 ? ` (and ${found.length - 1} more)` : "";
  const message = `the mandate does not compile: \`${first?.field}\`: ${first?.description}${more}`;
  const metadata = {
    field: first?.field ?? "",
    rule_reason: first?.reason ?? "",
    violations: String(found.length),
  };
  return new ControlPlaneError(ErrorReason.MANDATE_INVALID, message, metadata, { violations });
}

function assertTargets(state: WorkspaceState, { scope, departmentId, agentId, rules }: MandateDraft): void {
  if (scope === "department") departmentOf(state, departmentId ?? "");
  if (scope === "agent") agentOf(state, agentId ?? "");
  for (const { conditions } of rules) {
    if (conditions?.departmentId !== undefined) departmentOf(state, conditions.departmentId);
  }
}

function assertNameFree(state: WorkspaceState, name: string, mandateId: string): void {
  const wanted = comparableName(name);
  for (const { compiled } of state.policies.mandates.values()) {
    if (compiled.id === mandateId || comparableName(compiled.name) !== wanted) continue;
    const metadata = { name: compiled.name, mandate_id: compiled.id };
    throw new ControlPlaneError(ErrorReason.MANDATE_EXISTS, `a mandate \`${compiled.name}\` exists`, metadata);
  }
}

function assertPublishable(state: WorkspaceState, draft: MandateDraft, sealed: SealedMandate): void {
  const source: MandateSource = { ...draft, id: sealed.mandate_id, version: sealed.version, digest: sealed.digest };
  const { violations } = compileMandate(source, state.policies.lookup);
  if (violations.length > 0) throw mandateInvalid(violations);
  assertTargets(state, draft);
  assertNameFree(state, draft.name, sealed.mandate_id);
}

/** Puts a version in force. `since` is what the first version of the mandate left. */
async function publish(
  { transaction, state, nowMs, seal }: ChangeScope,
  { mandate_id: mandateId, version, digest, definition }: SealedMandate,
  since: { readonly createdAtMs: number; readonly createdSeq: number },
): Promise<void> {
  await transaction.insert(MandateVersionEntity, {
    workspaceId: state.workspaceId,
    ...{ mandateId, version, digest },
    definition: structuredClone(definition) as never,
    createdAtMs: since.createdAtMs,
    updatedAtMs: nowMs,
    createdSeq: since.createdSeq,
    archived: false,
  });
  seal({ type: "mandate_published", mandate: { mandate_id: mandateId, version, digest, definition } });
}

function viewOf({ policies }: WorkspaceState, mandateId: string): MandateView {
  const mandate = policies.mandates.get(mandateId);
  if (mandate === undefined) throw mandateNotFound(mandateId);
  return viewFromState(mandate, policies.lookup);
}

/**
 * Creates a mandate, in force for the next decision. Throws MANDATE_INVALID with everything that does not compile,
 * AGENT_NOT_FOUND or DEPARTMENT_NOT_FOUND for a target that is none, MANDATE_EXISTS when the name is taken.
 */
export async function createMandate(log: WorkspaceLog, by: string, draft: MandateDraft): Promise<MandateView> {
  const definition = definitionFrom(draft);
  const mandate_id = createId("mnd");
  const sealed: SealedMandate = { mandate_id, version: 1, digest: digestOf(definition), definition };
  const state = await log.change(by, async (scope) => {
    assertPublishable(scope.state, draft, sealed);
    await publish(scope, sealed, { createdAtMs: scope.nowMs, createdSeq: scope.nextSeq() });
    return scope.state;
  });
  return viewOf(state, mandate_id);
}

/** The error for a change of a mandate that is not in force. */
async function outOfForce({ transaction, state }: ChangeScope, mandateId: string): Promise<ControlPlaneError> {
  await lastVersions(transaction, state.workspaceId, mandateId, 1);
  const message = `mandate \`${mandateId}\` is archived and takes no new version`;
  return new ControlPlaneError(ErrorReason.MANDATE_ARCHIVED, message, { mandate_id: mandateId });
}

/**
 * Puts a new version of a mandate in force. A definition equal to the one in force makes no version. Throws as
 * `createMandate`, and MANDATE_NOT_FOUND or MANDATE_ARCHIVED.
 */
export async function updateMandate(
  log: WorkspaceLog,
  by: string,
  mandateId: string,
  draft: MandateDraft,
): Promise<MandateView> {
  const definition = definitionFrom(draft);
  const digest = digestOf(definition);
  const state = await log.change(by, async (scope) => {
    const current = scope.state.policies.mandates.get(mandateId);
    if (current === undefined) throw await outOfForce(scope, mandateId);
    if (current.sealed.digest === digest) return scope.state;
    const sealed = { mandate_id: mandateId, version: current.sealed.version + 1, digest, definition };
    assertPublishable(scope.state, draft, sealed);
    await publish(scope, sealed, current);
    return scope.state;
  });
  return viewOf(state, mandateId);
}

/** Takes a mandate out of force for good; an archived one stays as it is and nothing is sealed. Throws MANDATE_NOT_FOUND. */
export function archiveMandate(log: WorkspaceLog, by: string, mandateId: string): Promise<MandateView> {
  return log.change(by, async ({ transaction, state, seal }) => {
    const { workspaceId, policies } = state;
    const [row] = await lastVersions(transaction, workspaceId, mandateId, 1);
    if (row === undefined) throw mandateNotFound(mandateId);
    const view = viewFromRow(row, policies.lookup);
    if (row.archived) return view;
    const key = { workspaceId, mandateId, version: row.version };
    await transaction.nativeUpdate(MandateVersionEntity, key, { archived: true });
    seal({ type: "mandate_archived", mandate_id: mandateId });
    return view;
  });
}

/** Compiles rules against the tools registered now. MUST NOT change anything. */
export function compileDraft(state: WorkspaceState, rules: readonly Rule[]): CompiledDraft {
  const result = compileRules(rules, state.policies.lookup);
  if (result.kind === "invalid") return { valid: false, violations: result.violations };
  return { valid: true, rules: result.rules.map(({ source }) => source) };
}
