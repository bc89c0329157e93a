import { clone, type JsonObject, toJson } from "@bufbuild/protobuf";
import { type Rule, RuleSchema, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { doInTurns } from "../async/work.ts";
import { ControlPlaneError, doesNotCompile, ErrorReason, invalidField, notFound } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { approvalWarnings, type RuleWarning } from "../policy/compile/approval-warnings.ts";
import { outcomeWarnings } from "../policy/compile/count-outcomes.ts";
import { compileMandate } from "../policy/compile/mandate.ts";
import { provenanceWarnings } from "../policy/compile/provenance.ts";
import { compileRules } from "../policy/compile/rules.ts";
import { whenWarnings } from "../policy/compile/when-warnings.ts";
import { comparableName } from "../policy/names.ts";
import type { CompiledRule, MandateSource, ToolLookup } from "../policy/types.ts";
import type { RuleViolation } from "../policy/violations.ts";

import type { SealedMandate } from "../state/control-changes.ts";
import { type MandateState, mandateSourceFrom } from "../state/policies.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type Database, stored } from "../store/database.ts";
import { MandateVersionEntity, type MandateVersionRow } from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import type { Transaction } from "../store/transaction.ts";
import { digestOf } from "../tree/canonical.ts";
import { getAgent } from "./agents.ts";
import { checkedName, checkedText, isStorableJson } from "./checked-text.ts";
import { getDepartment } from "./departments.ts";
import { nameTest } from "./name-search.ts";
import {
  jsonBytes,
  latestFirst,
  latestVersions,
  newestFirst,
  newestPage,
  type Page,
  type PageRequest,
  readPage,
} from "./page.ts";
import type { PreparedChange } from "./prepared-change.ts";

/** A mandate as its author writes it. */
export type MandateDraft = Omit<MandateSource, "id" | "version" | "digest"> & { readonly description: string };

/** Status of a mandate: in force, in force with rules that no longer compile, or out of force. */
export type MandateStatusWord = "active" | "stale" | "archived";

/** One version of a mandate as it is shown. */
export interface MandateView extends Omit<MandateDraft, "rules"> {
  readonly mandateId: string;
  readonly version: number;
  readonly digest: string;
  /** As written, each with the type that the compiler chooses for it. */
  readonly rules: readonly Rule[];
  /** `archived` for every version that is no longer in force. */
  readonly status: MandateStatusWord;
  /** Violations that make it stale; empty unless it is stale. */
  readonly violations: readonly RuleViolation[];
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** Index of the entry that created the mandate. */
  readonly createdSeq: number;
  /** The pack that it was in at this version. */
  readonly pack: string | undefined;
  /** Author of the version: a key or a person. Undefined for a version from before authors were kept. */
  readonly createdBy: string | undefined;
  /** Note of the author; empty for none. */
  readonly note: string;
  /** The version that this one restores. */
  readonly restoredFrom: number | undefined;
}

/** Author of a version, with their note on it. */
export interface Authorship {
  /** Key or person. */
  readonly by: string;
  /** Empty for none. */
  readonly note: string;
  /** True if others accepted the version: the entry that seals it is theirs. Default false. */
  readonly isProposed?: boolean;
}

/** A mandate in force, with its warnings. */
export interface PublishedMandate {
  readonly mandate: MandateView;
  readonly warnings: readonly RuleWarning[];
}

/** Result of compiling rules without publishing them. */
type CompiledDraft =
  | {
      readonly valid: true;
      readonly rules: readonly Rule[];
      readonly compiled: readonly CompiledRule[];
      readonly warnings: readonly RuleWarning[];
    }
  | { readonly valid: false; readonly violations: readonly MandateFault[] };

/** Maximum number of versions in a mandate's history, newest first. */
const SHOWN_VERSIONS = 100;

/** Gives a rule without a type the type that follows from its tool, for mandates that are not compiled or do not compile. */
function typedRule(rule: Rule, tools: ToolLookup): Rule {
  const tool = rule.tool?.trim();
  if (rule.type !== RuleType.UNSPECIFIED || tool === undefined || tool === "") return rule;
  const copy = clone(RuleSchema, rule);
  copy.type = tools(tool) === undefined ? RuleType.METADATA : RuleType.ARGUMENT;
  return copy;
}

/** Returns the view of a mandate in force. */
function viewFromState(mandate: MandateState, tools: ToolLookup): MandateView {
  const { compiled, sealed, createdAtMs, updatedAtMs, createdSeq, createdBy, pack } = mandate;
  const { version, digest, name, scope, departmentId, agentId, priority, mode, violations } = compiled;
  return {
    mandateId: compiled.id,
    version,
    digest,
    name,
    scope,
    departmentId,
    agentId,
    priority,
    mode,
    violations,
    description: String(sealed.definition.description ?? ""),
    rules: compiled.rules.map(({ source }) => typedRule(source, tools)),
    status: violations.length === 0 ? "active" : "stale",
    createdAtMs,
    updatedAtMs,
    createdSeq,
    createdBy,
    note: sealed.note ?? "",
    restoredFrom: sealed.restored_from,
    pack,
  };
}

/** Returns the view of a version out of force. Without tools its rules are as written. */
function viewFromRow(row: MandateVersionRow, tools?: ToolLookup): MandateView {
  const { mandateId, version, digest, createdAtMs, updatedAtMs, createdSeq } = row;
  const definition = row.definition as JsonObject;
  const sealed: SealedMandate = { mandate_id: mandateId, version, digest, definition };
  const { id: _id, rules, ...source } = mandateSourceFrom(sealed);
  return {
    mandateId,
    ...source,
    description: String(definition.description ?? ""),
    rules: tools === undefined ? rules : rules.map((rule) => typedRule(rule, tools)),
    status: "archived",
    violations: [],
    createdAtMs,
    updatedAtMs,
    createdSeq,
    createdBy: row.createdBy ?? undefined,
    note: row.note,
    restoredFrom: row.restoredFrom ?? undefined,
    pack: row.pack ?? undefined,
  };
}

const mandateNotFound = (mandateId: string): ControlPlaneError =>
  notFound(ErrorReason.MANDATE_NOT_FOUND, "mandate", { mandate_id: mandateId });

/** Reads the last version of a mandate. Throws MANDATE_NOT_FOUND. */
async function lastVersion(
  transaction: Transaction,
  workspaceId: string,
  mandateId: string,
): Promise<MandateVersionRow> {
  const options = { orderBy: { version: "desc" }, limit: 1 } as const;
  const [row] = await transaction.find(MandateVersionEntity, { workspaceId, mandateId }, options);
  if (row === undefined) throw mandateNotFound(mandateId);
  return row;
}

/** Returns a draft in the form that is sealed and hashed. Throws INVALID_FIELD for a text that is no name or cannot be kept. */
export function definitionFrom(draft: MandateDraft): JsonObject {
  return {
    name: checkedName("name", draft.name),
    description: checkedText("description", draft.description),
    scope: draft.scope,
    ...(draft.departmentId === undefined ? {} : { department_id: draft.departmentId }),
    ...(draft.agentId === undefined ? {} : { agent_id: draft.agentId }),
    priority: draft.priority,
    mode: draft.mode,
    rules: rulesJson(draft.rules),
  };
}

/** Fault that keeps a mandate from being published. */
export type MandateFault = Omit<RuleViolation, "reason"> & { readonly reason: string };

/** Makes the error that lists everything that keeps a mandate, or a pack, from being published. */
export function mandateInvalid(found: readonly MandateFault[], what = "mandate"): ControlPlaneError {
  return doesNotCompile(ErrorReason.MANDATE_INVALID, what, found);
}

/** Finds the agents and departments that a mandate names and the workspace does not have. */
export function targetFaults(state: WorkspaceState, draft: MandateDraft): MandateFault[] {
  const { scope, departmentId, agentId, rules } = draft;
  return [
    ...(scope === "agent" ? unknownTarget("agent_id", agentId, (id) => getAgent(state, id)) : []),
    ...(scope === "department" ? unknownTarget("department_id", departmentId, (id) => getDepartment(state, id)) : []),
    ...departmentFaults(state, rules),
  ];
}

/** Finds the departments that rules count and the workspace does not have. */
function departmentFaults(state: WorkspaceState, rules: readonly Rule[]): MandateFault[] {
  return rules.flatMap(({ conditions }, index) => {
    const path = `rules[${index}].conditions.department_id`;
    return unknownTarget(path, conditions?.departmentId, (id) => getDepartment(state, id));
  });
}

/** Returns the fault of a target that does not exist. A missing or blank one is a fault of the rules, which the compiler finds. */
function unknownTarget(path: string, id: string | undefined, get: (id: string) => unknown): MandateFault[] {
  return id === undefined || id.trim() === "" ? [] : faultsOf(path, () => get(id));
}

/** Returns the faults that a step throws, below a path; empty if it succeeds. */
export function faultsOf(path: string, step: () => unknown): MandateFault[] {
  try {
    step();
    return [];
  } catch (error) {
    if (!(error instanceof ControlPlaneError)) throw error;
    const reason = ErrorReason[error.reason] as string;
    if (error.violations.length === 0) return [{ path, reason, message: error.message }];
    return error.violations.map(({ field, description }) => ({
      path: `${path}.${field}`,
      reason,
      message: description,
    }));
  }
}

/** Writes rules as JSON. Throws INVALID_FIELD for what the store cannot keep. */
function rulesJson(rules: readonly Rule[]): JsonObject[] {
  const written = rules.map((rule) => toJson(RuleSchema, rule, { useProtoFieldName: true }) as JsonObject);
  if (!isStorableJson(written)) throw invalidField("rules", "must not hold U+0000 or half of a surrogate pair");
  return written;
}

/** Throws MANDATE_EXISTS for the name of another mandate, unless the mandate has that name already. */
function assertNameFree({ policies: { mandates } }: WorkspaceState, name: string, mandateId: string): void {
  const wanted = comparableName(name);
  if (comparableName(mandates.get(mandateId)?.compiled.name ?? "") === wanted) return;
  for (const { compiled } of mandates.values()) {
    if (comparableName(compiled.name) !== wanted) continue;
    const metadata = { name: compiled.name, mandate_id: compiled.id };
    throw new ControlPlaneError(ErrorReason.MANDATE_EXISTS, `a mandate \`${compiled.name}\` exists`, metadata);
  }
}

function assertPublishable(state: WorkspaceState, draft: MandateDraft, sealed: SealedMandate): void {
  const source: MandateSource = { ...draft, id: sealed.mandate_id, version: sealed.version, digest: sealed.digest };
  const { violations, rules } = compileMandate(source, state.policies.lookup);
  const faults = [...violations, ...targetFaults(state, draft)];
  if (faults.length > 0) throw mandateInvalid(faults);
  const others = [...state.policies.mandates.values()].filter(({ compiled }) => compiled.id !== sealed.mandate_id);
  const [fault] = budgetFaults([{ rules }, ...others.map(({ compiled }) => compiled)], "rules");
  if (fault !== undefined) throw mandateInvalid([fault]);
  assertNameFree(state, draft.name, sealed.mandate_id);
}

/** Maximum instructions that the patterns of all mandates in force in a workspace compile to: some 20 MB of memory. */
const MAX_WORKSPACE_INSTRUCTIONS = 100_000;
/** Maximum number of conditions that one call is compared with: some 20 ms of the event loop if all of them hold. */
const MAX_CONDITIONS_A_CALL = 5_000;

type Compiled = { readonly rules: readonly CompiledRule[] };

/** Returns the bounds that mandates would exceed if they were in force together, as faults at a path. */
export function budgetFaults(mandates: readonly Compiled[], path: string): MandateFault[] {
  const rules = mandates.flatMap((mandate) => mandate.rules);
  return [...patternFaults(rules, path), ...conditionFaults(rules, path)];
}

function patternFaults(rules: readonly CompiledRule[], path: string): MandateFault[] {
  const sum = rules.reduce((total, { patternSize }) => total + patternSize, 0);
  if (sum <= MAX_WORKSPACE_INSTRUCTIONS) return [];
  const message = `with them the patterns of the workspace's mandates compile to ${sum} instructions, and at most ${MAX_WORKSPACE_INSTRUCTIONS} are allowed; archive mandates or lower repeat counts`;
  return [{ path, reason: "PATTERN_INVALID", message }];
}

function conditionFaults(rules: readonly CompiledRule[], path: string): MandateFault[] {
  const byTool = new Map<string, number>();
  for (const { tool = "", source } of rules) {
    byTool.set(tool, (byTool.get(tool) ?? 0) + (source.conditions?.rules.length ?? 0));
  }
  const ofAll = byTool.get("") ?? 0;
  for (const [tool, count] of byTool) {
    const met = tool === "" ? count : count + ofAll;
    if (met <= MAX_CONDITIONS_A_CALL) continue;
    const called = tool === "" ? "every call" : `a call of \`${tool}\``;
    const message = `with them ${called} would be compared with ${met} conditions, and at most ${MAX_CONDITIONS_A_CALL} are allowed; archive mandates or join conditions`;
    return [{ path, reason: "LIMIT_OUT_OF_RANGE", message }];
  }
  return [];
}

/** Returns a version as it would be put in force. Throws as `createMandate` does. */
export function checkedDraft(
  state: WorkspaceState,
  mandateId: string,
  version: number,
  draft: MandateDraft,
): SealedMandate {
  const definition = definitionFrom(draft);
  const sealed = { mandate_id: mandateId, version, digest: digestOf(definition), definition };
  assertPublishable(state, draft, sealed);
  return sealed;
}

/** Creation of a mandate, and the pack that it belongs to. */
export interface MandateCreation {
  readonly createdAtMs: number;
  readonly createdSeq: number;
  readonly pack?: string | undefined;
}

/** Returns the row of a version that is put in force. */
export function versionRow(
  { state, nowMs }: ChangeScope,
  { mandate_id: mandateId, version, digest, definition, note = "", restored_from: restoredFrom }: SealedMandate,
  { createdAtMs, createdSeq, pack }: MandateCreation,
  createdBy: string,
): MandateVersionRow {
  return {
    workspaceId: state.workspaceId,
    mandateId,
    version,
    digest,
    createdAtMs,
    createdSeq,
    definition: structuredClone(definition) as never,
    updatedAtMs: nowMs,
    archived: false,
    pack: pack ?? null,
    createdBy,
    note,
    restoredFrom: restoredFrom ?? null,
  };
}

/** Puts a version in force. */
async function publish(
  scope: ChangeScope,
  mandate: SealedMandate,
  creation: MandateCreation,
  by: string,
): Promise<void> {
  const { transaction, state, seal } = scope;
  await transaction.insert(MandateVersionEntity, versionRow(scope, mandate, creation, by));
  seal({ type: "mandate_published", mandate, policy_digest: state.policies.digestWith(mandate) });
}

const ruleWarnings = (rules: readonly Rule[], ignores: readonly string[]): readonly RuleWarning[] => [
  ...approvalWarnings(rules, ignores),
  ...whenWarnings(rules, ignores),
  ...outcomeWarnings(rules),
  ...provenanceWarnings(rules),
];

function publishedFrom({ policies, settings }: WorkspaceState, mandateId: string): PublishedMandate {
  const found = policies.mandates.get(mandateId);
  if (found === undefined) throw mandateNotFound(mandateId);
  const mandate = viewFromState(found, policies.lookup);
  return { mandate, warnings: ruleWarnings(mandate.rules, settings.approval_ignores) };
}

/** Returns the members of a version that tell of its author. Throws INVALID_FIELD for a note that cannot be kept. */
export function sealedAuthorship({ by, note, isProposed = false }: Authorship): Pick<SealedMandate, "note" | "author"> {
  const text = checkedText("note", note).trim();
  return { ...(text !== "" && { note: text }), ...(isProposed && { author: by }) };
}

/** Prepares the creation of a mandate; fails as `createMandate`. */
export function prepareCreation(author: Authorship, draft: MandateDraft): PreparedChange<PublishedMandate> {
  const definition = definitionFrom(draft);
  const mandate_id = createId("mnd");
  const sealed = { mandate_id, version: 1, digest: digestOf(definition), definition, ...sealedAuthorship(author) };
  return {
    proposal: () => ({ kind: "create_mandate", definition, note: author.note }),
    async apply(scope) {
      assertPublishable(scope.state, draft, sealed);
      await publish(scope, sealed, { createdAtMs: scope.nowMs, createdSeq: scope.nextSeq() }, author.by);
      return () => publishedFrom(scope.state, mandate_id);
    },
  };
}

/**
 * Creates a mandate, in force for the next decision. Throws MANDATE_INVALID with everything that does not compile, unknown targets
 * included, and MANDATE_EXISTS when the name is taken.
 */
export async function createMandate(
  log: WorkspaceLog,
  author: Authorship,
  draft: MandateDraft,
): Promise<PublishedMandate> {
  return (await log.change(author.by, prepareCreation(author, draft).apply))();
}

/** Returns the error for a change of a mandate that is not in force. */
async function outOfForce({ transaction, state }: ChangeScope, mandateId: string): Promise<ControlPlaneError> {
  await lastVersion(transaction, state.workspaceId, mandateId);
  const message = `mandate \`${mandateId}\` is archived and takes no new version`;
  return new ControlPlaneError(ErrorReason.MANDATE_ARCHIVED, message, { mandate_id: mandateId });
}

/** Content of a new version. */
interface NewVersion {
  readonly draft: MandateDraft;
  readonly definition: JsonObject;
  readonly digest: string;
  readonly restored_from?: number;
}

/** Puts a new version of a mandate in force, unless it equals the one in force. */
async function putVersion(
  scope: ChangeScope,
  mandateId: string,
  { draft, ...content }: NewVersion,
  author: Authorship,
): Promise<void> {
  const current = scope.state.policies.mandates.get(mandateId);
  if (current === undefined) throw await outOfForce(scope, mandateId);
  if (current.sealed.digest === content.digest) return;
  const version = current.sealed.version + 1;
  const sealed = { mandate_id: mandateId, version, ...content, ...sealedAuthorship(author) };
  assertPublishable(scope.state, draft, sealed);
  await publish(scope, sealed, current, author.by);
}

/** Returns a draft with the content of a version. */
export function draftFromDefinition(definition: SealedMandate["definition"]): MandateDraft {
  const {
    id: _,
    version: __,
    digest: ___,
    ...source
  } = mandateSourceFrom({
    mandate_id: "",
    version: 0,
    digest: "",
    definition,
  });
  return { ...source, description: String(definition.description ?? "") };
}

/**
 * Prepares a new version of a mandate. A definition equal to the one in force creates no version. Fails as the creation, and with
 * MANDATE_NOT_FOUND or MANDATE_ARCHIVED.
 */
export function prepareUpdate(
  author: Authorship,
  mandateId: string,
  draft: MandateDraft,
): PreparedChange<PublishedMandate> {
  const definition = definitionFrom(draft);
  const content = { draft, definition, digest: digestOf(definition) };
  return {
    proposal: () => ({ kind: "update_mandate", mandate_id: mandateId, definition, note: author.note }),
    async apply(scope) {
      await putVersion(scope, mandateId, content, author);
      return () => publishedFrom(scope.state, mandateId);
    },
  };
}

/**
 * Prepares an older version of a mandate to be in force again, as a new version that is compiled against the tools there are then.
 * Fails as the update, and with MANDATE_VERSION_NOT_FOUND.
 */
export function prepareRestoration(
  author: Authorship,
  mandateId: string,
  version: number,
): PreparedChange<PublishedMandate> {
  return {
    proposal: () => ({ kind: "restore_mandate", mandate_id: mandateId, version, note: author.note }),
    async apply(scope) {
      const { workspaceId, policies } = scope.state;
      if (!policies.mandates.has(mandateId)) throw await outOfForce(scope, mandateId);
      const row = await scope.transaction.findOne(MandateVersionEntity, { workspaceId, mandateId, version });
      if (row === null) {
        const message = `no version \`${version}\` of mandate \`${mandateId}\``;
        const metadata = { mandate_id: mandateId, version: String(version) };
        throw new ControlPlaneError(ErrorReason.MANDATE_VERSION_NOT_FOUND, message, metadata);
      }
      const definition = structuredClone(row.definition) as JsonObject;
      const { digest } = row;
      const draft = draftFromDefinition(definition);
      await putVersion(scope, mandateId, { draft, definition, digest, restored_from: version }, author);
      return () => publishedFrom(scope.state, mandateId);
    },
  };
}

/** Prepares a mandate to be out of force for good; nothing is sealed for an archived one. Fails with MANDATE_NOT_FOUND. */
export function prepareArchival(mandateId: string): PreparedChange<MandateView> {
  return {
    proposal: () => ({ kind: "archive_mandate", mandate_id: mandateId }),
    async apply({ transaction, state, seal }) {
      const { workspaceId, policies } = state;
      const row = await lastVersion(transaction, workspaceId, mandateId);
      const view = viewFromRow(row, policies.lookup);
      if (row.archived) return () => view;
      const key = { workspaceId, mandateId, version: row.version };
      await transaction.nativeUpdate(MandateVersionEntity, key, { archived: true });
      seal({ type: "mandate_archived", mandate_id: mandateId, policy_digest: policies.digestWithout(mandateId) });
      return () => view;
    },
  };
}

/**
 * Compiles rules against the tools and departments there are now; other work takes turns with it. MUST NOT change anything. Rejects
 * with INVALID_FIELD for what the store cannot keep.
 */
export async function compileDraft(state: WorkspaceState, rules: readonly Rule[]): Promise<CompiledDraft> {
  rulesJson(rules);
  const result = await doInTurns(compileRules(rules, state.policies.lookup));
  const unknown = departmentFaults(state, rules);
  if (result.kind === "invalid") return { valid: false, violations: [...result.violations, ...unknown] };
  if (unknown.length > 0) return { valid: false, violations: unknown };
  const typed = result.rules.map(({ source }) => source);
  const warnings = ruleWarnings(typed, state.settings.approval_ignores);
  return { valid: true, rules: typed, compiled: result.rules, warnings };
}

/** Lists the latest versions of a mandate that fit into a page, at most 100, newest first. Throws MANDATE_NOT_FOUND. */
export async function listMandateVersions(
  { orm }: Database,
  state: WorkspaceState,
  mandateId: string,
): Promise<readonly MandateView[]> {
  const { workspaceId, policies } = state;
  // Taken before the rows are read: versions made in between are left out, so both are of one moment.
  const mandate = policies.mandates.get(mandateId);
  const current =
    mandate === undefined
      ? viewFromRow(await stored(lastVersion(orm.em.fork(), workspaceId, mandateId)), policies.lookup)
      : viewFromState(mandate, policies.lookup);
  const read = async (chunk: PageRequest): Promise<MandateView[]> => {
    const { where, options } = latestFirst("version", chunk);
    const rows = await stored(orm.em.fork().find(MandateVersionEntity, { workspaceId, mandateId, ...where }, options));
    return rows.map((row) => viewFromRow(row, policies.lookup));
  };
  return latestVersions(current, SHOWN_VERSIONS, ({ version }) => version, read);
}

/** Position of a mandate in lists: one entry of the log may create several. Texts sort as the mandates do. */
const positionOf = ({ createdSeq }: { readonly createdSeq: number }, mandateId: string): string =>
  `${String(createdSeq).padStart(16, "0")} ${mandateId}`;

async function listArchived(
  { orm }: Database,
  { workspaceId }: WorkspaceState,
  {
    search,
    page,
    tools,
  }: { readonly search: string; readonly page: PageRequest<string>; readonly tools: ToolLookup | undefined },
): Promise<Page<MandateView, string>> {
  const isWanted = nameTest(search);
  const readAll = ({ size, after }: PageRequest<string>): Promise<MandateVersionRow[]> => {
    const { where, options } = newestFirst("mandateId", { size, after }, "createdSeq");
    return stored(orm.em.fork().find(MandateVersionEntity, { workspaceId, archived: true, ...where }, options));
  };
  const read = async ({ size, after }: PageRequest<string>): Promise<MandateVersionRow[]> => {
    const found: MandateVersionRow[] = [];
    for (let place = after; ; ) {
      const rows = await readAll({ size, after: place });
      found.push(
        ...rows.filter(({ definition }) => isWanted(String((definition as { readonly name?: unknown }).name ?? ""))),
      );
      const last = rows.at(-1);
      if (last === undefined || rows.length <= size || found.length > size) return found.slice(0, size + 1);
      place = positionOf(last, last.mandateId);
    }
  };
  const { items, next } = await readPage(page, (row: MandateVersionRow) => positionOf(row, row.mandateId), read);
  return { items: items.map((row) => viewFromRow(row, tools)), next };
}

/** Filter and form of a list of mandates. */
export interface MandateFilter {
  /** Undefined: all that are not archived. */
  readonly status: MandateStatusWord | undefined;
  /** True shows rules without the types that the compiler chose. */
  readonly asWritten: boolean;
  /** Words that the names hold; empty for all. */
  readonly search: string;
}

/**
 * Lists mandates, newest first. A position is the index of the entry that created the mandate, and its id.
 */
export async function listMandates(
  database: Database,
  state: WorkspaceState,
  { status, asWritten, search }: MandateFilter,
  page: PageRequest<string>,
): Promise<Page<MandateView, string>> {
  const { mandates, lookup } = state.policies;
  const isNamed = nameTest(search);
  if (status === "archived") {
    return listArchived(database, state, { search, page, tools: asWritten ? undefined : lookup });
  }
  const view = (mandate: MandateState): MandateView => {
    const shown = viewFromState(mandate, lookup);
    return asWritten ? { ...shown, rules: mandateSourceFrom(mandate.sealed).rules } : shown;
  };
  const { items, next } = newestPage(
    mandates.values(),
    (mandate) => positionOf(mandate, mandate.compiled.id),
    page,
    ({ compiled: { violations, name } }) =>
      (status === undefined || (status === "stale") === violations.length > 0) && isNamed(name),
    ({ sealed }) => jsonBytes(sealed),
  );
  return { items: items.map(view), next };
}
