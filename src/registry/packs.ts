import type { JsonObject } from "@bufbuild/protobuf";
import { nextTurn } from "../async/turns.ts";
import { ControlPlaneError, ErrorReason, notFound } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { approvalWarnings, type RuleWarning } from "../policy/compile/approval-warnings.ts";
import { outcomeWarnings } from "../policy/compile/count-outcomes.ts";
import { compileMandate } from "../policy/compile/mandate.ts";
import { provenanceWarnings } from "../policy/compile/provenance.ts";
import { whenWarnings } from "../policy/compile/when-warnings.ts";
import { comparableName } from "../policy/names.ts";
import type { CompiledMandate, CompiledRule } from "../policy/types.ts";
import type { SealedMandate } from "../state/control-changes.ts";
import { type MandateState, type Policies, packDigest } from "../state/policies.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { MandateVersionEntity, type MandateVersionRow, PackEntity } from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import { digestOf } from "../tree/canonical.ts";
import { checkedName } from "./checked-text.ts";
import {
  type Authorship,
  budgetFaults,
  definitionFrom,
  faultsOf,
  type MandateDraft,
  type MandateFault,
  mandateInvalid,
  sealedAuthorship,
  targetFaults,
  versionRow,
} from "./mandates.ts";
import type { PreparedChange } from "./prepared-change.ts";

/** Set of mandates to make a pack of. */
export interface PackDraft {
  readonly name: string;
  /** The whole set. */
  readonly mandates: readonly MandateDraft[];
  /** Digest that the pack MUST have for a change to be made; empty if the pack MUST NOT exist. Undefined accepts any. */
  readonly expectedDigest: string | undefined;
  /** True takes mandates outside packs into this one, by name. */
  readonly adopt: boolean;
  /** Author of every version that is published, with their note. */
  readonly author: Authorship;
}

/** A pack as it is shown. */
export interface PackView {
  readonly name: string;
  readonly version: number;
  /** Digest of the mandates that it has in force. */
  readonly digest: string;
  /** Digest after the last change of the pack. */
  readonly appliedDigest: string;
}

/** A mandate of a pack, by name and version. */
export interface PackedMandate {
  /** Undefined for one that a dry run would create. */
  readonly mandateId: string | undefined;
  readonly name: string;
  readonly version: number;
  readonly digest: string;
}

/** A pack after a change, or as it would be after it, with the effect of the change on each mandate. */
export interface AppliedPack {
  readonly pack: PackView;
  readonly created: readonly PackedMandate[];
  readonly updated: readonly PackedMandate[];
  readonly archived: readonly PackedMandate[];
  readonly unchanged: readonly PackedMandate[];
  /** The versions that the updated mandates have afterwards. */
  readonly newVersions: readonly CompiledMandate[];
  /** The rules of every mandate of the set, with its path. */
  readonly compiled: readonly { readonly path: string; readonly rules: readonly CompiledRule[] }[];
  readonly warnings: readonly RuleWarning[];
}

/** A mandate of the set in the form that is sealed. */
interface WrittenMandate {
  /** `mandates[2]`. */
  readonly path: string;
  readonly draft: MandateDraft;
  readonly name: string;
  readonly definition: JsonObject;
  readonly digest: string;
}

type CompiledDraft = WrittenMandate & { readonly compiled: CompiledMandate };

/** A set compiled against the tools of one moment. */
interface CompiledSet {
  readonly policies: Policies;
  readonly revision: number;
  readonly mandates: readonly CompiledDraft[];
}

/** A mandate of the set with the version of it that is in force; undefined for a new one. */
interface Placed extends CompiledDraft {
  readonly current: MandateState | undefined;
}

/** A version to publish. */
interface Publication {
  readonly sealed: SealedMandate;
  readonly compiled: CompiledMandate;
  readonly current: MandateState | undefined;
}

/** Plan of a change of a pack. */
interface PackPlan {
  readonly publications: readonly Publication[];
  readonly unchanged: readonly MandateState[];
  /** Unchanged mandates that come into the pack. */
  readonly adopted: readonly MandateState[];
  readonly archived: readonly MandateState[];
  /** Version and digest of the pack afterwards. */
  readonly version: number;
  readonly digest: string;
  readonly isNew: boolean;
  /** False if the pack already is as planned. */
  readonly changes: boolean;
}

const byName = (a: CompiledMandate, b: CompiledMandate): number => (a.name < b.name ? -1 : 1);

function within(path: string, faults: readonly MandateFault[]): MandateFault[] {
  return faults.map((fault) => ({ ...fault, path: `${path}.${fault.path}` }));
}

/** Writes the definitions of a set; other work takes turns with it. Throws MANDATE_INVALID for texts that cannot be kept and for repeated names. */
async function writeAll(drafts: readonly MandateDraft[]): Promise<readonly WrittenMandate[]> {
  const written: WrittenMandate[] = [];
  const faults: MandateFault[] = [];
  const pathByName = new Map<string, string>();
  for (const [index, draft] of drafts.entries()) {
    const path = `mandates[${index}]`;
    const found = faultsOf(path, () => {
      const definition = definitionFrom(draft);
      written.push({ path, draft, definition, name: String(definition.name), digest: digestOf(definition) });
    });
    const name = comparableName(draft.name);
    const first = pathByName.get(name);
    if (first === undefined) pathByName.set(name, path);
    else found.push({ path: `${path}.name`, reason: "NAME_REPEATED", message: `is the name of \`${first}\` as well` });
    faults.push(...found);
    await nextTurn();
  }
  if (faults.length > 0) throw mandateInvalid(faults, "pack");
  return written;
}

/**
 * Compiles a set against the tools registered now; other work takes turns with it. Throws MANDATE_INVALID with everything that does
 * not compile in all mandates.
 */
async function compileAll(state: WorkspaceState, written: readonly WrittenMandate[]): Promise<CompiledSet> {
  const { policies } = state;
  const { revision } = policies;
  const mandates: CompiledDraft[] = [];
  const faults: MandateFault[] = [];
  for (const each of written) {
    const { path, draft, digest, name } = each;
    const compiled = compileMandate({ ...draft, name, digest, id: "", version: 0 }, policies.lookup);
    faults.push(...within(path, [...compiled.violations, ...targetFaults(state, draft)]));
    mandates.push({ ...each, compiled });
    await nextTurn();
  }
  if (faults.length > 0) throw mandateInvalid(faults, "pack");
  return { policies, revision, mandates };
}

const isCurrent = ({ policies, revision }: CompiledSet, state: WorkspaceState): boolean =>
  policies === state.policies && revision === policies.revision;

function mandateExists(conflicts: readonly (readonly [path: string, mandate: MandateState])[]): ControlPlaneError {
  const [[path, { compiled, pack }]] = conflicts as readonly [(typeof conflicts)[number]];
  const more = conflicts.length > 1 ? ` (and ${conflicts.length - 1} more)` : "";
  const where = pack === undefined ? "outside the pack; `adopt` takes it in" : `in the pack \`${pack}\``;
  const metadata = { name: compiled.name, mandate_id: compiled.id, ...(pack === undefined ? {} : { pack }) };
  const violations = conflicts.map(
    ([
      place,
      {
        compiled: { name },
      },
    ]) => ({
      field: `${place}.name`,
      reason: "MANDATE_EXISTS",
      description: `\`${name}\` is a mandate outside the pack`,
    }),
  );
  const message = `\`${path}\` has the name of mandate \`${compiled.name}\`, which exists ${where}${more}`;
  return new ControlPlaneError(ErrorReason.MANDATE_EXISTS, message, { ...metadata, field: path }, { violations });
}

/** Finds the version in force of every mandate of the set. Throws MANDATE_EXISTS for names of mandates that stay outside the pack. */
function placeAll({ policies }: WorkspaceState, { name: pack, adopt }: PackDraft, set: CompiledSet): readonly Placed[] {
  const mandates = [...policies.mandates.values()];
  const inForce = new Map(mandates.map((each) => [comparableName(each.compiled.name), each]));
  // Names from before they were compared as now may differ in spelling alone.
  const asWritten = new Map(mandates.map((each) => [each.compiled.name, each]));
  const placed = set.mandates.map((each) => {
    return { ...each, current: asWritten.get(each.name) ?? inForce.get(comparableName(each.name)) };
  });
  const conflicts = placed.flatMap(({ path, current }) => {
    const isTaken = current !== undefined && current.pack !== pack && (current.pack !== undefined || !adopt);
    return isTaken ? [[path, current] as const] : [];
  });
  if (conflicts.length > 0) throw mandateExists(conflicts);
  return placed;
}

/** Names the versions to publish. New ids ascend in the order of the set, as the mandates of one entry are listed by id. */
function publicationsOf(placed: readonly Placed[], author: Authorship): readonly Publication[] {
  const changed = placed.filter(({ current, digest }) => current?.sealed.digest !== digest);
  const ids = changed.flatMap(({ current }) => (current === undefined ? createId("mnd") : [])).sort();
  return changed.map(({ current, definition, digest, compiled }) => {
    const mandate_id = current?.sealed.mandate_id ?? (ids.shift() as string);
    const version = (current?.sealed.version ?? 0) + 1;
    const sealed = { mandate_id, version, digest, definition, ...sealedAuthorship(author) };
    return { sealed, current, compiled: { ...compiled, id: mandate_id, version } };
  });
}

function assertPublishable(state: WorkspaceState, set: CompiledSet, { publications, archived }: PackPlan): void {
  const gone = new Set([...archived, ...publications.flatMap(({ current }) => current ?? [])]);
  const rest = [...state.policies.mandates.values()].filter((mandate) => !gone.has(mandate));
  const afterwards = [...rest, ...publications].map(({ compiled }) => compiled);
  // Agents and departments may have gone since the set was compiled.
  const faults = set.mandates.flatMap(({ path, draft }) => within(path, targetFaults(state, draft)));
  faults.push(...budgetFaults(afterwards, "mandates"));
  if (faults.length > 0) throw mandateInvalid(faults, "pack");
}

function assertExpected(state: WorkspaceState, { name, expectedDigest }: PackDraft): void {
  if (expectedDigest === undefined) return;
  const digest = state.policies.packs.get(name) === undefined ? "" : packDigest(compiledOf(state, name));
  if (digest === expectedDigest) return;
  const now = digest === "" ? "there is none" : `its digest is \`${digest}\``;
  const message = `the pack \`${name}\` is not as expected: ${now}; read it again`;
  throw new ControlPlaneError(ErrorReason.PACK_CHANGED, message, {
    pack: name,
    digest,
    expected_digest: expectedDigest,
  });
}

const compiledOf = ({ policies }: WorkspaceState, pack: string): CompiledMandate[] =>
  policies.mandatesOf(pack).map(({ compiled }) => compiled);

/** Plans the change of a pack on a state that the set is current for. MUST NOT change anything. */
function planFrom(state: WorkspaceState, draft: PackDraft, set: CompiledSet): PackPlan {
  const before = state.policies.packs.get(draft.name);
  const placed = placeAll(state, draft, set);
  const kept = new Set(placed.map(({ current }) => current));
  const unchanged = placed.flatMap(({ current, digest }) => (current?.sealed.digest === digest ? current : []));
  const archived = state.policies.mandatesOf(draft.name).filter((mandate) => !kept.has(mandate));
  const adopted = unchanged.filter(({ pack }) => pack === undefined);
  const publications = publicationsOf(placed, draft.author);
  const digest = packDigest(set.mandates);
  const isSame = publications.length + archived.length + adopted.length === 0 && before?.appliedDigest === digest;
  const version = (before?.version ?? 0) + (isSame ? 0 : 1);
  const isNew = before === undefined;
  const plan = { publications, unchanged, adopted, archived, version, digest, isNew, changes: !isSame };
  if (plan.changes) {
    assertExpected(state, draft);
    assertPublishable(state, set, plan);
  }
  return plan;
}

/** Marks the last versions of some mandates. */
async function mark(
  { transaction, state: { workspaceId } }: ChangeScope,
  mandates: readonly MandateState[],
  as: { readonly archived: true } | { readonly pack: string },
): Promise<void> {
  if (mandates.length === 0) return;
  const $or = mandates.map(({ compiled: { id, version } }) => ({ mandateId: id, version }));
  await transaction.nativeUpdate(MandateVersionEntity, { workspaceId, $or }, as);
}

/** Rows that are written at a time: one statement with all rows of a large set would hold up other work. */
const INSERTED_ROWS = 50;

async function insertVersions({ transaction }: ChangeScope, rows: readonly MandateVersionRow[]): Promise<void> {
  for (let first = 0; first < rows.length; first += INSERTED_ROWS) {
    await transaction.insertMany(MandateVersionEntity, rows.slice(first, first + INSERTED_ROWS));
  }
}

/** Writes the rows of a change and seals it as one entry. */
async function sealPlan(scope: ChangeScope, by: string, name: string, plan: PackPlan): Promise<void> {
  const { transaction, state, nowMs, nextSeq, seal } = scope;
  const { publications, unchanged, adopted, archived, version, digest } = plan;
  const created = { createdAtMs: nowMs, createdSeq: nextSeq() };
  const rows = publications.map(({ sealed, current = created }) =>
    versionRow(scope, sealed, { ...current, pack: name }, by),
  );
  await insertVersions(scope, rows);
  await mark(scope, adopted, { pack: name });
  await mark(scope, archived, { archived: true });
  const row = { workspaceId: state.workspaceId, name, version, appliedDigest: digest };
  if (plan.isNew) await transaction.insert(PackEntity, row);
  else await transaction.nativeUpdate(PackEntity, { workspaceId: row.workspaceId, name }, row);
  for (const { sealed, compiled } of publications) state.policies.prepare(sealed, compiled);
  const published = publications.map(({ sealed }) => sealed);
  const archivedIds = archived.map(({ compiled }) => compiled.id).sort();
  const kept = [...published.map(({ mandate_id }) => mandate_id), ...unchanged.map(({ compiled }) => compiled.id)];
  seal({
    type: "pack_applied",
    pack: { name, version, digest, mandate_ids: kept.sort() },
    published,
    archived: archivedIds,
    policy_digest: state.policies.digestAfter(published, archivedIds),
  });
}

const packedFrom = ({ id, name, version, digest }: CompiledMandate): PackedMandate => ({
  mandateId: id,
  name,
  version,
  digest,
});

function appliedFrom(state: WorkspaceState, name: string, set: CompiledSet, plan: PackPlan): AppliedPack {
  const { publications, unchanged, archived, version, digest } = plan;
  const isCreated = ({ current }: Publication): boolean => current === undefined;
  const updated = publications.filter((each) => !isCreated(each));
  const listed = (mandates: readonly { readonly compiled: CompiledMandate }[]): PackedMandate[] =>
    mandates.map(({ compiled }) => packedFrom(compiled));
  return {
    pack: { name, version, digest, appliedDigest: digest },
    created: listed(publications.filter(isCreated)),
    updated: listed(updated),
    newVersions: updated.map(({ compiled }) => compiled),
    archived: listed(archived.toSorted((a, b) => byName(a.compiled, b.compiled))),
    unchanged: listed(unchanged),
    compiled: set.mandates.map(({ path, compiled: { rules } }) => ({ path, rules })),
    warnings: set.mandates.flatMap(({ path, compiled }) => {
      const rules = compiled.rules.map(({ source }) => source);
      const ignores = state.settings.approval_ignores;
      const warnings = [
        ...approvalWarnings(rules, ignores),
        ...whenWarnings(rules, ignores),
        ...outcomeWarnings(rules),
        ...provenanceWarnings(rules),
      ];
      return warnings.map((warning) => ({ ...warning, path: `${path}.${warning.path}` }));
    }),
  };
}

/** Returns a name as its pack is called, however it is spelled here; as it is for a name of no pack. */
export function nameOfPack({ policies: { packs } }: WorkspaceState, name: string): string {
  if (packs.has(name)) return name;
  const wanted = comparableName(name);
  return [...packs.keys()].find((each) => comparableName(each) === wanted) ?? name;
}

/**
 * Prepares a pack to hold exactly a set of mandates, sealed as one entry; a pack that does so already is left as it is. Fails with
 * INVALID_FIELD for a text that is no name, MANDATE_INVALID with everything that keeps a mandate of the set from being published,
 * MANDATE_EXISTS for the names of mandates outside the pack, and PACK_CHANGED.
 */
export async function preparePack(log: WorkspaceLog, draft: PackDraft): Promise<PreparedChange<AppliedPack>> {
  const given = checkedName("name", draft.name);
  const written = await writeAll(draft.mandates);
  // Compiled before the change, which holds the log's lock.
  const early = await compileAll(await log.caughtUp(), written);
  const { adopt, author } = draft;
  return {
    proposal: (state) => ({
      kind: "apply_pack",
      name: nameOfPack(state, given),
      definitions: written.map(({ definition }) => definition),
      adopt,
      note: author.note,
    }),
    async apply(scope) {
      const { state } = scope;
      const set = isCurrent(early, state) ? early : await compileAll(state, written);
      const name = nameOfPack(state, given);
      const plan = planFrom(state, { ...draft, name }, set);
      if (plan.changes) await sealPlan(scope, author.by, name, plan);
      return () => appliedFrom(state, name, set, plan);
    },
  };
}

/**
 * Returns what the change of a pack would return, without ids for mandates that it would create, and throws as it would. MUST NOT
 * change anything.
 */
export async function dryRunPack(log: WorkspaceLog, draft: PackDraft): Promise<AppliedPack> {
  const given = checkedName("name", draft.name);
  const written = await writeAll(draft.mandates);
  let state = await log.caughtUp();
  let set: CompiledSet;
  do {
    set = await compileAll(state, written);
    state = await log.caughtUp();
  } while (!isCurrent(set, state));
  const name = nameOfPack(state, given);
  const applied = appliedFrom(state, name, set, planFrom(state, { ...draft, name }, set));
  return { ...applied, created: applied.created.map((mandate) => ({ ...mandate, mandateId: undefined })) };
}

/** Digest of the mandates that a pack has in force, and its version; undefined for a pack that does not exist. */
export function packBase(state: WorkspaceState, name: string): Pick<PackView, "version" | "digest"> | undefined {
  const pack = state.policies.packs.get(name);
  return pack === undefined ? undefined : { version: pack.version, digest: packDigest(compiledOf(state, name)) };
}

/** Returns a pack, named in any spelling, with its mandates in force, sorted by name. Throws PACK_NOT_FOUND. */
export function getPack(
  state: WorkspaceState,
  given: string,
): { readonly pack: PackView; readonly mandates: readonly PackedMandate[] } {
  const name = nameOfPack(state, given);
  const pack = state.policies.packs.get(name);
  if (pack === undefined) throw notFound(ErrorReason.PACK_NOT_FOUND, "pack", { pack: given });
  const mandates = compiledOf(state, name).sort(byName);
  return { pack: { ...pack, digest: packDigest(mandates) }, mandates: mandates.map(packedFrom) };
}
