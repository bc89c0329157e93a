import { doInTurns, type Work } from "../async/work.ts";
import { ControlPlaneError, ErrorReason, type FieldViolation, invalidField, notFound } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { type ListKind, readListValue } from "../policy/lists/kinds.ts";
import {
  bytesOfValues,
  difference,
  digestOfValues,
  NamedList,
  type SortedValues,
  sortedValues,
} from "../policy/lists/named-list.ts";
import type { ProposedChange, SealedListChange } from "../state/control-changes.ts";
import { changedValues, type ListDelta, type ListState } from "../state/lists.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type Database, stored } from "../store/database.ts";
import {
  deleteListRow,
  readIsWhole,
  readListTail,
  removeUnusedContent,
  writeList,
  writeListContent,
} from "../store/sql/lists.ts";
import { type Reader, readerWithin } from "../store/transaction.ts";
import { type Page, type PageRequest, pageFrom } from "./page.ts";
import type { PreparedChange } from "./prepared-change.ts";

/** Maximum number of values of a list, and their bytes in UTF-8. */
const MAX_VALUES = 100_000;
const MAX_BYTES = 4_194_304;
/** Maximum number of lists of a workspace. */
const MAX_LISTS = 200;
/** Maximum number of values of all lists of a workspace, and their bytes: every process that decides holds them in memory. */
const MAX_ALL_VALUES = 1_000_000;
const MAX_ALL_BYTES = 33_554_432;
/** Maximum number of values that the entry of a change holds, and that the row of a list holds beside its base. */
const MAX_SEALED = 1_000;
/** Values of a part under a digest. */
const PART = 1_000;
/** Maximum number of refused values that an error names, and of mandates that a list shows. */
const MAX_FAULTS = 100;
const MAX_SHOWN_USES = 100;
/** Values that are read before other work may have a turn. */
const AT_ONCE = 500;

/** Content of a list as a person or a dry run gives it. */
export interface ListDraft {
  readonly name: string;
  readonly kind: ListKind;
  readonly values: readonly string[];
}

/** A mandate in force that names a list. */
export interface ListUse {
  readonly mandateId: string;
  readonly mandateName: string;
}

/** A list as it is shown. */
export interface ListView extends ListState {
  /** By name, 100 at most. */
  readonly usedBy: readonly ListUse[];
  /** Number of mandates in force that name it. */
  readonly uses: number;
}

/** A list after a change, with the number of values that came and went. */
export interface ChangedList {
  readonly view: ListView;
  readonly added: number;
  readonly removed: number;
}

/** Dependencies of changes. */
export interface ListParts {
  readonly log: WorkspaceLog;
  readonly database: Database;
}

/** A list before and after a change. */
interface Plan {
  readonly before: NamedList | undefined;
  readonly after: NamedList;
  readonly delta: ListDelta;
}

const listNotFound = (name: string): ControlPlaneError => notFound(ErrorReason.LIST_NOT_FOUND, "list", { list: name });

/** Reads values in the form in which they compare. Throws INVALID_FIELD with those that the kind does not take. */
function* readValues(kind: ListKind, values: readonly string[], field: string): Work<SortedValues> {
  const forms: string[] = [];
  const faults: FieldViolation[] = [];
  for (const [index, text] of values.entries()) {
    const read = readListValue(kind, text);
    if (read.kind === "value") forms.push(read.form);
    else if (faults.length < MAX_FAULTS)
      faults.push({ field: `${field}[${index}]`, description: read.fault, reason: "INVALID_FIELD" });
    if (index % AT_ONCE === 0) yield;
  }
  const [first] = faults;
  if (first === undefined) return yield* sortedValues(forms);
  const more = faults.length > 1 ? ` (and ${faults.length - 1} more)` : "";
  const metadata = { field: first.field, violations: String(faults.length) };
  const text = `\`${first.field}\` ${first.description}${more}`;
  throw new ControlPlaneError(ErrorReason.INVALID_FIELD, text, metadata, { violations: faults });
}

/** Builds a list of sorted values. Throws INVALID_FIELD for more than a list may hold. */
async function listOf(name: string, kind: ListKind, values: SortedValues, field: string): Promise<NamedList> {
  if (values.length > MAX_VALUES)
    throw invalidField(field, `would make ${values.length} values; a list holds at most ${MAX_VALUES}`);
  const bytes = await doInTurns(bytesOfValues(values));
  if (bytes > MAX_BYTES) throw invalidField(field, `would make ${bytes} bytes; a list holds at most ${MAX_BYTES}`);
  return new NamedList({ name, kind, values, bytes, digest: await doInTurns(digestOfValues(values)) });
}

/** Builds the list of a dry run. Throws INVALID_FIELD with faults below `field`. */
export async function suppositionalList({ name, kind, values }: ListDraft, field: string): Promise<NamedList> {
  const at = `${field}.values`;
  return listOf(name, kind, await doInTurns(readValues(kind, values, at)), at);
}

/** Returns a list with what it is now and the mandates that name it. */
function viewOf({ policies }: WorkspaceState, { list, createdAtMs, updatedAtMs }: ListState): ListView {
  const users = [...policies.mandates.values()]
    .map(({ compiled }) => compiled)
    .filter(({ rules }) => rules.some(({ lists }) => lists.includes(list.name)))
    .map(({ id, name }) => ({ mandateId: id, mandateName: name }))
    .sort((a, b) => (a.mandateName < b.mandateName ? -1 : 1));
  return { list, createdAtMs, updatedAtMs, usedBy: users.slice(0, MAX_SHOWN_USES), uses: users.length };
}

/** Throws INVALID_FIELD if the workspace would hold more lists, values or bytes than it may. */
function assertRoom({ lists }: WorkspaceState, after: NamedList): void {
  const others = [...lists.all.values()].map(({ list }) => list).filter(({ name }) => name !== after.name);
  if (others.length >= MAX_LISTS)
    throw invalidField("name", `would be list ${MAX_LISTS + 1}; a workspace has ${MAX_LISTS}`);
  const values = others.reduce((sum, list) => sum + list.values.length, after.values.length);
  const bytes = others.reduce((sum, list) => sum + list.bytes, after.bytes);
  if (values <= MAX_ALL_VALUES && bytes <= MAX_ALL_BYTES) return;
  const most = `the lists of a workspace hold at most ${MAX_ALL_VALUES} values and ${MAX_ALL_BYTES} bytes`;
  throw invalidField("values", `would make ${values} values and ${bytes} bytes in all; ${most}`);
}

/** Values that changed in a list since its base. */
interface Tail {
  readonly baseDigest: string | null;
  readonly added: ReadonlySet<string>;
  readonly removed: ReadonlySet<string>;
}

const sizeOf = ({ added, removed }: Tail): number => added.size + removed.size;

async function readTail(reader: Reader, workspaceId: string, name: string): Promise<Tail> {
  type Row = { baseDigest: string | null; added: string; removed: string };
  const { rows } = await reader.query<Row>({ ...readListTail, values: [workspaceId, name] });
  const { baseDigest = null, added = "[]", removed = "[]" } = rows[0] ?? {};
  return { baseDigest, added: new Set(JSON.parse(added)), removed: new Set(JSON.parse(removed)) };
}

/** Returns the tail after a change, or undefined if the values are to be stored anew under their digest. */
function tailAfter(tail: Tail, { added, removed }: ListDelta): Tail | undefined {
  if (added.length + removed.length > MAX_SEALED) return undefined;
  const next = { baseDigest: tail.baseDigest, added: new Set(tail.added), removed: new Set(tail.removed) };
  // A value that comes back to the base, or leaves what came after it, is no change since the base.
  for (const each of added) if (!next.removed.delete(each)) next.added.add(each);
  for (const each of removed) if (!next.added.delete(each)) next.removed.add(each);
  return sizeOf(next) > MAX_SEALED ? undefined : next;
}

/** Stores the values of a list under its digest; one that is there already stays. */
async function writeContent(reader: Reader, workspaceId: string, { digest, values }: NamedList): Promise<void> {
  const parts = Math.max(1, Math.ceil(values.length / PART));
  for (let part = 0; part < parts; part++) {
    const text = JSON.stringify(values.slice(part * PART, (part + 1) * PART));
    await reader.query({ ...writeListContent, values: [workspaceId, digest, part, text, part === parts - 1] });
  }
}

/** Tests whether the values of a list are stored under its digest. */
async function isContentWhole(reader: Reader, workspaceId: string, digest: string): Promise<boolean> {
  const { rows } = await reader.query<{ isWhole: boolean }>({ ...readIsWhole, values: [workspaceId, digest] });
  return rows[0]?.isWhole === true;
}

/** Removes the stored values that no list rests on any more. */
async function removeUnused({ transaction, state }: Pick<ChangeScope, "transaction" | "state">): Promise<void> {
  await readerWithin(transaction).query({ ...removeUnusedContent, values: [state.workspaceId] });
}

/** Returns the first values, at most so many, those that were added before those that were removed. */
function sealedValues({
  added,
  removed,
}: ListDelta): Pick<SealedListChange, "added_values" | "removed_values" | "is_cut"> {
  const first = added.slice(0, MAX_SEALED);
  const others = removed.slice(0, MAX_SEALED - first.length);
  return {
    added_values: first,
    removed_values: others,
    is_cut: first.length + others.length < added.length + removed.length,
  };
}

async function sealPlan(
  scope: ChangeScope,
  operation: SealedListChange["operation"],
  { before, after, delta }: Plan,
): Promise<void> {
  const { transaction, state, nowMs, seal } = scope;
  const { workspaceId, lists } = state;
  const reader = readerWithin(transaction);
  const { name, kind, digest } = after;
  const tail = tailAfter(await readTail(reader, workspaceId, name), delta);
  // Mostly stored before the change; but another process may have changed the list, or removed what no list rested on yet.
  if (tail === undefined && !(await isContentWhole(reader, workspaceId, digest))) {
    await writeContent(reader, workspaceId, after);
  }
  const { baseDigest, added, removed } = tail ?? { baseDigest: digest, added: [], removed: [] };
  const texts = [JSON.stringify([...added]), JSON.stringify([...removed])];
  await reader.query({ ...writeList, values: [workspaceId, name, kind, digest, baseDigest, ...texts, nowMs] });
  if (tail === undefined) await removeUnused(scope);
  lists.prepare(after);
  seal({
    type: "list_changed",
    list: {
      name,
      kind,
      operation,
      added: delta.added.length,
      removed: delta.removed.length,
      size: after.values.length,
      digest_before: before?.digest ?? null,
      digest_after: digest,
      ...sealedValues(delta),
    },
  });
}

/** A change of a list's values. */
interface ListChange {
  readonly name: string;
  readonly operation: SealedListChange["operation"];
  /** Makes the plan: before the change, which holds the log's lock, and again if the list has changed meanwhile. */
  readonly planFor: (before: NamedList | undefined) => Promise<Plan>;
  /** Checks the list before and under the lock if something changes. */
  readonly check?: (before: NamedList | undefined) => void;
  /** The change as it is proposed. */
  readonly proposed: ProposedChange;
}

/** Prepares a change of a list's values. */
async function prepareValues(
  { log, database }: ListParts,
  by: string,
  { name, operation, planFor, check = () => undefined, proposed }: ListChange,
): Promise<PreparedChange<ChangedList>> {
  const { workspaceId } = log;
  const early = await planFor((await log.caughtUp()).lists.get(name));
  if (isChange(early)) check(early.before);
  const isStored =
    isChange(early) && tailAfter(await stored(readTail(database.pool, workspaceId, name)), early.delta) === undefined;
  if (isStored) await stored(writeContent(database.pool, workspaceId, early.after));
  return {
    proposal: () => proposed,
    async apply(scope) {
      const { state, nowMs } = scope;
      const current = state.lists.all.get(name);
      const before = current?.list;
      const isCurrent = before?.digest === early.before?.digest && before?.kind === early.before?.kind;
      const plan = isCurrent ? early : await planFor(before);
      const { after, delta } = plan;
      const counts = { added: delta.added.length, removed: delta.removed.length };
      if (current !== undefined && !isChange(plan)) {
        const view = viewOf(state, current);
        return () => ({ view, ...counts });
      }
      check(before);
      assertRoom(state, after);
      await sealPlan(scope, operation, plan);
      const view = viewOf(state, { list: after, createdAtMs: current?.createdAtMs ?? nowMs, updatedAtMs: nowMs });
      return () => ({ view, ...counts });
    },
    async discard() {
      // The stored values belong to no list now. If removing them fails as well, the next large change does it.
      if (isStored) await log.change(by, removeUnused).catch(() => undefined);
    },
  };
}

const isChange = ({ before, after }: Plan): boolean => before?.digest !== after.digest || before.kind !== after.kind;

/**
 * Prepares a list to hold exactly some values; nothing is sealed if it does already. `expectedDigest`: the digest that it MUST have,
 * empty if it MUST NOT exist; undefined accepts any. Fails with INVALID_FIELD and LIST_CHANGED.
 */
export async function preparePut(
  parts: ListParts,
  by: string,
  { name, kind, values, expectedDigest }: ListDraft & { readonly expectedDigest: string | undefined },
): Promise<PreparedChange<ChangedList>> {
  const sorted = await doInTurns(readValues(kind, values, "values"));
  const after = await listOf(name, kind, sorted, "values");
  const planFor = async (before: NamedList | undefined): Promise<Plan> => {
    const old = before?.values ?? [];
    // Values of another kind are others, even where they are written alike: an entry that names both is read without the kinds.
    const added = await doInTurns(difference(sorted, old));
    const removed = await doInTurns(difference(old, sorted));
    return { before, after, delta: { added, removed } };
  };
  const check = (before: NamedList | undefined): void => {
    const digest = before?.digest ?? "";
    if (expectedDigest === undefined || expectedDigest === digest) return;
    const now = before === undefined ? "there is none" : `its digest is \`${digest}\``;
    const message = `the list \`${name}\` is not as expected: ${now}; read it again`;
    const metadata = { list: name, digest, expected_digest: expectedDigest };
    throw new ControlPlaneError(ErrorReason.LIST_CHANGED, message, metadata);
  };
  const proposed: ProposedChange = { kind: "put_list", name, list_kind: kind, values: sorted };
  return prepareValues(parts, by, { name, operation: "put", planFor, check, proposed });
}

/** Makes the plan of a change of an existing list's values. Throws LIST_NOT_FOUND. */
const planWith =
  (name: string, values: readonly string[], deltaOf: (before: SortedValues, read: SortedValues) => Work<ListDelta>) =>
  async (before: NamedList | undefined): Promise<Plan> => {
    if (before === undefined) throw listNotFound(name);
    const read = await doInTurns(readValues(before.kind, values, "values"));
    const delta = await doInTurns(deltaOf(before.values, read));
    const isSame = delta.added.length + delta.removed.length === 0;
    const next = isSame ? before : await listOf(name, before.kind, await changedValues(before.values, delta), "values");
    return { before, after: next, delta };
  };

function* addition(before: SortedValues, read: SortedValues): Work<ListDelta> {
  return { added: yield* difference(read, before), removed: [] };
}

function* removal(before: SortedValues, read: SortedValues): Work<ListDelta> {
  const unknown = yield* difference(read, before);
  return { added: [], removed: yield* difference(read, unknown) };
}

/** Prepares values to be added to a list; those that it has already are no fault. Fails with INVALID_FIELD and LIST_NOT_FOUND. */
export function prepareAddition(
  parts: ListParts,
  by: string,
  name: string,
  values: readonly string[],
): Promise<PreparedChange<ChangedList>> {
  const proposed: ProposedChange = { kind: "add_list_values", name, values };
  return prepareValues(parts, by, { name, operation: "add", planFor: planWith(name, values, addition), proposed });
}

/** Prepares values to be removed from a list; those that it does not have are no fault. Fails with INVALID_FIELD and LIST_NOT_FOUND. */
export function prepareRemoval(
  parts: ListParts,
  by: string,
  name: string,
  values: readonly string[],
): Promise<PreparedChange<ChangedList>> {
  const proposed: ProposedChange = { kind: "remove_list_values", name, values };
  return prepareValues(parts, by, { name, operation: "remove", planFor: planWith(name, values, removal), proposed });
}

/** Prepares the deletion of a list, whose result is as it was. Fails with LIST_NOT_FOUND, or LIST_IN_USE while a mandate in force names it. */
export function prepareDeletion(name: string): PreparedChange<ListView> {
  const apply = async (scope: ChangeScope): Promise<() => ListView> => {
    const { transaction, state, seal } = scope;
    const view = getList(state, name);
    const { list, usedBy, uses } = view;
    const [first] = usedBy;
    if (first !== undefined) {
      const more = uses > 1 ? ` and ${uses - 1} more` : "";
      const message = `list \`${name}\` is named by mandate \`${first.mandateName}\`${more}; archive or change it first`;
      const metadata = {
        list: name,
        mandate_id: first.mandateId,
        mandate_name: first.mandateName,
        mandates: String(uses),
      };
      throw new ControlPlaneError(ErrorReason.LIST_IN_USE, message, metadata);
    }
    await readerWithin(transaction).query({ ...deleteListRow, values: [state.workspaceId, name] });
    await removeUnused(scope);
    const { kind, digest, values } = list;
    const counts = { added: 0, removed: values.length, size: 0 };
    const digests = { digest_before: digest, digest_after: null };
    const sealed = { added_values: [], removed_values: [], is_cut: false };
    seal({ type: "list_changed", list: { name, kind, operation: "delete", ...counts, ...digests, ...sealed } });
    return () => view;
  };
  return { apply, proposal: () => ({ kind: "delete_list", name }) };
}

/** Returns a list with the mandates that name it. Throws LIST_NOT_FOUND. */
export function getList(state: WorkspaceState, name: string): ListView {
  const found = state.lists.all.get(name);
  if (found === undefined) throw listNotFound(name);
  return viewOf(state, found);
}

/** Lists the lists by name; a position is a name. */
export function listLists(state: WorkspaceState, { size, after }: PageRequest<string>): Page<ListView, string> {
  const found = [...state.lists.all.values()]
    .filter(({ list }) => after === undefined || list.name > after)
    .sort((a, b) => (a.list.name < b.list.name ? -1 : 1))
    .slice(0, size + 1)
    .map((each) => viewOf(state, each));
  return pageFrom(
    found,
    size,
    ({ list }) => list.name,
    ({ usedBy }) => 512 + usedBy.length * 300,
  );
}

/** Pages through the values of a list that contain a text, sorted; a position is a value. */
export async function listValues(
  list: NamedList,
  search: string,
  page: PageRequest<string>,
): Promise<Page<string, string>> {
  return pageFrom(await doInTurns(list.search(search, page)), page.size, (each) => each);
}
