import { ControlPlaneError, ErrorReason, notFound } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { comparableName } from "../policy/names.ts";
import type { ControlChange, ProposedChange } from "../state/control-changes.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type Database, stored } from "../store/database.ts";
import { MandateVersionEntity, ProposalEntity, type ProposalRow } from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import { type Reader, readerWithin } from "../store/transaction.ts";
import { canonicalJson, digestOf, type JsonObject } from "../tree/canonical.ts";
import { checkedText } from "./checked-text.ts";
import { prepareAddition, prepareDeletion, preparePut, prepareRemoval } from "./lists.ts";
import {
  type Authorship,
  draftFromDefinition,
  prepareArchival,
  prepareCreation,
  prepareRestoration,
  prepareUpdate,
} from "./mandates.ts";
import { packBase, preparePack } from "./packs.ts";
import { type Page, type PageRequest, pageFrom } from "./page.ts";
import { type PartyLines, readPartyLines } from "./parties.ts";
import type { PreparedChange } from "./prepared-change.ts";
import { prepareSettings, updateFromProposal } from "./workspaces.ts";

/** Time for which a proposal waits: a week, so that a person on leave for some days can still answer. */
const PROPOSAL_TTL_MS = 604_800_000;
/** Maximum number of proposals that wait in a workspace. */
const MAX_PENDING = 100;
/** Maximum number of a list's values that the entry of a proposal holds. */
const MAX_SEALED_VALUES = 1_000;

/** Status of a proposal. `expired` and `stale` follow from the time and from what it changes, and have no entry of their own. */
export type ProposalStatusWord = "pending" | "accepted" | "rejected" | "expired" | "stale";

/** Numbers of the statuses that are stored. */
const STATUS_NUMBERS = { pending: 1, accepted: 2, rejected: 3 } as const;

/** One acceptance. */
export interface Acceptance {
  readonly by: string;
  readonly atMs: number;
}

/** A change that waits, or waited, for others to accept it. */
export interface ProposalView {
  readonly proposalId: string;
  readonly kind: ProposedChange["kind"];
  /** Id of the mandate, or name of the pack or list; empty for others. */
  readonly target: string;
  /** Name of the mandate, pack or list, or of the setting. */
  readonly subject: string;
  readonly changeDigest: string;
  readonly status: ProposalStatusWord;
  /** Others who must accept it. */
  readonly needed: number;
  readonly acceptances: readonly Acceptance[];
  readonly createdBy: string;
  readonly createdAtMs: number;
  readonly createdSeq: number;
  readonly expiresAtMs: number;
  readonly endedBy: string | undefined;
  readonly endedAtMs: number | undefined;
  /** Note of the one who rejected it. */
  readonly endNote: string;
  /** State of what it changes when it was made. */
  readonly base: JsonObject;
}

/** A change that was made, or that waits as a proposal. */
export type Made<T> =
  | { readonly made: T; readonly proposal?: undefined }
  | { readonly made?: undefined; readonly proposal: ProposalView };

/** Dependencies of proposals. */
export interface ProposalParts {
  readonly log: WorkspaceLog;
  readonly database: Database;
}

/** One who answers a proposal. */
export interface Answer {
  readonly by: string;
  /** True for a key or person of the role `admin`. */
  readonly isAdmin: boolean;
}

/** One who reads proposals. */
export interface ProposalReader extends Answer {
  /** True for a key or person of the role `auditor`, who answers none. */
  readonly isAuditor: boolean;
}

const reviewsOf = ({ settings }: WorkspaceState): number => settings.mandate_reviews ?? 0;

const proposalNotFound = (proposalId: string): ControlPlaneError =>
  notFound(ErrorReason.PROPOSAL_NOT_FOUND, "proposal", { proposal_id: proposalId });

/** Object of a change. */
interface Target {
  readonly kind: ProposedChange["kind"];
  readonly target: string;
}

/** A proposal's row without its change, which may be large. */
type ListedRow = Omit<ProposalRow, "change">;

const LISTED = [
  "workspaceId",
  "proposalId",
  "kind",
  "target",
  "subject",
  "changeDigest",
  "base",
  "needed",
  "status",
  "createdBy",
  "createdSeq",
  "createdAtMs",
  "expiresAtMs",
  "acceptances",
  "endedBy",
  "endedAtMs",
  "endNote",
] as const;

function targetOf(change: ProposedChange): string {
  if ("mandate_id" in change) return change.mandate_id;
  return "name" in change ? change.name : "";
}

/** Returns the state of what a change is about; another state makes its proposal stale. */
function baseOf(state: WorkspaceState, { kind, target }: Target): JsonObject {
  switch (kind) {
    case "create_mandate":
      return {};
    case "update_mandate":
    case "restore_mandate":
    case "archive_mandate":
      return { version: state.policies.mandates.get(target)?.sealed.version ?? null };
    case "apply_pack": {
      const mandates = state.policies.mandatesOf(target).map(({ sealed }) => [sealed.mandate_id, sealed.version]);
      return { ...packBase(state, target), mandates };
    }
    case "update_workspace":
      return { mandate_reviews: reviewsOf(state) };
    default: {
      const found = state.lists.all.get(target);
      return { digest: found?.list.digest ?? null, updated_at_ms: found?.updatedAtMs ?? null };
    }
  }
}

/** Returns the name of what a change is about. */
function subjectOf({ policies }: WorkspaceState, change: ProposedChange): string {
  if (change.kind === "create_mandate" || change.kind === "update_mandate") return String(change.definition.name);
  if ("mandate_id" in change) return policies.mandates.get(change.mandate_id)?.compiled.name ?? change.mandate_id;
  return change.kind === "update_workspace" ? "mandate_reviews" : change.name;
}

const targetIn = ({ kind, target }: ListedRow): Target => ({ kind: kind as Target["kind"], target });

function statusOf(row: ListedRow, state: WorkspaceState, nowMs: number): ProposalStatusWord {
  if (row.status === STATUS_NUMBERS.accepted) return "accepted";
  if (row.status === STATUS_NUMBERS.rejected) return "rejected";
  if (row.expiresAtMs <= nowMs) return "expired";
  return canonicalJson(baseOf(state, targetIn(row))) === row.base ? "pending" : "stale";
}

const changeOf = ({ change }: ProposalRow): ProposedChange => JSON.parse(change) as ProposedChange;
const acceptancesOf = ({ acceptances }: ListedRow): readonly Acceptance[] =>
  acceptances as unknown as readonly Acceptance[];

function viewFrom(row: ListedRow, state: WorkspaceState, nowMs: number): ProposalView {
  const { proposalId, subject, changeDigest, createdBy, createdAtMs, createdSeq, expiresAtMs, endNote } = row;
  return {
    proposalId,
    subject,
    changeDigest,
    createdBy,
    createdAtMs,
    createdSeq,
    expiresAtMs,
    endNote,
    needed: neededFor(row, state),
    status: statusOf(row, state, nowMs),
    ...targetIn(row),
    acceptances: acceptancesOf(row),
    endedBy: row.endedBy ?? undefined,
    endedAtMs: row.endedAtMs ?? undefined,
    base: JSON.parse(row.base) as JsonObject,
  };
}

/** A setting that was raised meanwhile holds; one that was lowered does not make a proposal easier. */
function neededFor(row: ListedRow, state: WorkspaceState): number {
  return row.status === STATUS_NUMBERS.pending ? Math.max(row.needed, reviewsOf(state)) : row.needed;
}

/** Makes a change or, where the workspace reviews it, a proposal of it. Throws what the change throws, and PROPOSALS_FULL. */
export async function makeChange<T>(log: WorkspaceLog, by: string, prepared: PreparedChange<T>): Promise<Made<T>> {
  try {
    const read = await log.change(by, async (scope): Promise<() => Made<T>> => {
      const change = reviewsOf(scope.state) === 0 ? undefined : prepared.proposal(scope.state);
      if (change !== undefined) return propose(scope, by, change, prepared);
      const made = await prepared.apply(scope);
      return () => ({ made: made() });
    });
    const result = read();
    if (result.proposal !== undefined) await prepared.discard?.();
    return result;
  } catch (error) {
    await prepared.discard?.();
    throw error;
  }
}

/** Makes the change within a savepoint that is rolled back, so that a proposal is refused for what its change would be refused. */
async function tryOut<T>(
  scope: ChangeScope,
  prepared: PreparedChange<T>,
): Promise<{ readonly made: () => T; readonly changes: readonly ControlChange[] }> {
  const reader = readerWithin(scope.transaction);
  const changes: ControlChange[] = [];
  await reader.query({ text: "savepoint proposed_change" });
  const made = await prepared.apply({
    ...scope,
    nextSeq: () => scope.nextSeq() + changes.length,
    seal: (change) => void changes.push(change),
  });
  await reader.query({ text: "rollback to savepoint proposed_change" });
  return { made, changes };
}

async function propose<T>(
  scope: ChangeScope,
  by: string,
  change: ProposedChange,
  prepared: PreparedChange<T>,
): Promise<() => Made<T>> {
  const { transaction, state, nowMs, seal } = scope;
  const { workspaceId } = state;
  const { made, changes } = await tryOut(scope, prepared);
  if (changes.length === 0) return () => ({ made: made() });
  const open = { workspaceId, status: STATUS_NUMBERS.pending, expiresAtMs: { $gt: nowMs } };
  const waiting = (await transaction.find(ProposalEntity, open, { fields: LISTED })) as readonly ListedRow[];
  const changeDigest = digestOf(change as JsonObject);
  const same = waiting.find(
    (row) => row.createdBy === by && row.changeDigest === changeDigest && statusOf(row, state, nowMs) === "pending",
  );
  if (same !== undefined) return () => ({ proposal: viewFrom(same, state, nowMs) });
  if (waiting.length >= MAX_PENDING) {
    const message = `${waiting.length} proposals wait, and at most ${MAX_PENDING} may; answer some of them first`;
    throw new ControlPlaneError(ErrorReason.PROPOSALS_FULL, message, { pending: String(waiting.length) });
  }
  const target = targetOf(change);
  const base = baseOf(state, { kind: change.kind, target });
  const needed = reviewsOf(state);
  const row: ProposalRow = {
    workspaceId,
    proposalId: createId("prp"),
    kind: change.kind,
    target,
    subject: subjectOf(state, change),
    change: canonicalJson(change as JsonObject),
    changeDigest,
    base: canonicalJson(base),
    needed,
    status: STATUS_NUMBERS.pending,
    createdBy: by,
    createdSeq: scope.nextSeq(),
    createdAtMs: nowMs,
    expiresAtMs: nowMs + PROPOSAL_TTL_MS,
    acceptances: [],
    endedBy: null,
    endedAtMs: null,
    endNote: "",
  };
  await transaction.insert(ProposalEntity, row);
  const { proposalId: proposal_id, expiresAtMs } = row;
  seal({
    type: "proposal_made",
    proposal: {
      proposal_id,
      change: sealedChange(change),
      change_digest: changeDigest,
      base,
      needed,
      expires_at: new Date(expiresAtMs).toISOString(),
    },
  });
  return () => ({ proposal: viewFrom(row, state, nowMs) });
}

/** Returns a change as its entry holds it: a long list's values stand in the table, and the digest covers them. */
function sealedChange(change: ProposedChange): ProposedChange {
  return "values" in change && change.values.length > MAX_SEALED_VALUES ? { ...change, values: [] } : change;
}

/** Prepares the change of a proposal as its author would make it now. */
async function prepareProposed(
  parts: ProposalParts,
  by: string,
  change: ProposedChange,
): Promise<PreparedChange<unknown>> {
  const authorOf = (note: string): Authorship => ({ by, note, isProposed: true });
  switch (change.kind) {
    case "create_mandate":
      return prepareCreation(authorOf(change.note), draftFromDefinition(change.definition));
    case "update_mandate":
      return prepareUpdate(authorOf(change.note), change.mandate_id, draftFromDefinition(change.definition));
    case "restore_mandate":
      return prepareRestoration(authorOf(change.note), change.mandate_id, change.version);
    case "archive_mandate":
      return prepareArchival(change.mandate_id);
    case "apply_pack": {
      const { name, definitions, adopt, note } = change;
      const mandates = definitions.map(draftFromDefinition);
      return preparePack(parts.log, { name, mandates, adopt, expectedDigest: undefined, author: authorOf(note) });
    }
    case "put_list": {
      const { name, list_kind: kind, values } = change;
      return preparePut(parts, by, { name, kind, values, expectedDigest: undefined });
    }
    case "add_list_values":
      return prepareAddition(parts, by, change.name, change.values);
    case "remove_list_values":
      return prepareRemoval(parts, by, change.name, change.values);
    case "delete_list":
      return prepareDeletion(change.name);
    case "update_workspace":
      return prepareSettings(updateFromProposal(change.settings));
  }
}

/** Reads a proposal. Throws PROPOSAL_NOT_FOUND. */
async function readRow({ orm }: Pick<Database, "orm">, workspaceId: string, proposalId: string): Promise<ProposalRow> {
  const row = await stored(orm.em.fork().findOne(ProposalEntity, { workspaceId, proposalId }));
  if (row === null) throw proposalNotFound(proposalId);
  return row;
}

/** Returns PROPOSAL_STALE or PROPOSAL_ENDED for a proposal that no longer waits. */
function endOf(row: ListedRow, state: WorkspaceState, nowMs: number): ControlPlaneError | undefined {
  const status = statusOf(row, state, nowMs);
  if (status === "pending") return undefined;
  const metadata = { proposal_id: row.proposalId, status };
  if (status === "stale") {
    const message = `\`${row.subject}\` has changed since proposal \`${row.proposalId}\` was made; make it anew`;
    return new ControlPlaneError(ErrorReason.PROPOSAL_STALE, message, { ...metadata, subject: row.subject });
  }
  const message = `proposal \`${row.proposalId}\` is ${status} and takes no answer`;
  return new ControlPlaneError(ErrorReason.PROPOSAL_ENDED, message, metadata);
}

/** Throws PROPOSAL_STALE or PROPOSAL_ENDED for a proposal that no longer waits. */
function assertPending(row: ListedRow, state: WorkspaceState, nowMs: number): void {
  const end = endOf(row, state, nowMs);
  if (end !== undefined) throw end;
}

/** Reads the lines of one who answers, and of the authors of proposals and those who accepted them. */
const linesOf = (reader: Reader, workspaceId: string, by: string, rows: readonly ListedRow[]): Promise<PartyLines> =>
  readPartyLines(reader, workspaceId, [
    by,
    ...rows.flatMap((row) => [row.createdBy, ...acceptancesOf(row).map((each) => each.by)]),
  ]);

/** Returns FOUR_EYES for one who is, or counts as the same party as, the author or one who accepted before. */
function fourEyes(lines: PartyLines, row: ListedRow, by: string): ControlPlaneError | undefined {
  const proposal = `proposal \`${row.proposalId}\``;
  const refused = (why: string): ControlPlaneError =>
    new ControlPlaneError(ErrorReason.FOUR_EYES, `${why}; others have to accept it`, { proposal_id: row.proposalId });
  if (row.createdBy === by) return refused(`you made ${proposal}`);
  const others = acceptancesOf(row).map((each) => each.by);
  const author = lines.shared(by, [row.createdBy]);
  if (author !== undefined) return refused(`you and the author of ${proposal} count as one: ${author}`);
  const other = lines.shared(by, others);
  return other === undefined ? undefined : refused(`you and one who accepted ${proposal} count as one: ${other}`);
}

/** Throws what `fourEyes` returns. */
async function assertOther({ transaction, state }: ChangeScope, row: ListedRow, by: string): Promise<void> {
  const refused = fourEyes(await linesOf(readerWithin(transaction), state.workspaceId, by, [row]), row, by);
  if (refused !== undefined) throw refused;
}

/** Returns ROLE_NOT_ALLOWED for one who may not make the change themselves. */
function roleFault({ isAdmin }: Answer, kind: string): ControlPlaneError | undefined {
  if (isAdmin || kind !== "update_workspace") return undefined;
  const message = "settings are reviewed by keys and people of the role `admin`";
  return new ControlPlaneError(ErrorReason.ROLE_NOT_ALLOWED, message, { allowed_roles: "admin" });
}

/** Returns the reason why one may not accept a proposal now, or need not again; undefined for one who may. */
function whyNot(
  reader: ProposalReader,
  { row, lines, state, nowMs }: { row: ListedRow; lines: PartyLines; state: WorkspaceState; nowMs: number },
): string | undefined {
  if (reader.isAuditor) return "proposals are answered by keys and people of the roles `admin` and `operator`";
  const end = endOf(row, state, nowMs);
  if (end !== undefined) return end.message;
  if (acceptancesOf(row).some(({ by }) => by === reader.by)) return `you accepted proposal \`${row.proposalId}\``;
  return (roleFault(reader, row.kind) ?? fourEyes(lines, row, reader.by))?.message;
}

/** Returns the row of a proposal under the log's lock. */
async function rowWithin({ transaction, state }: ChangeScope, proposalId: string): Promise<ListedRow> {
  const key = { workspaceId: state.workspaceId, proposalId };
  const row = (await transaction.findOne(ProposalEntity, key, { fields: LISTED })) as ListedRow | null;
  if (row === null) throw proposalNotFound(proposalId);
  return row;
}

/**
 * Accepts a proposal. The last acceptance that it needs makes its change, compiled anew, in the same transaction. Accepting it again
 * changes nothing. Throws PROPOSAL_NOT_FOUND, PROPOSAL_STALE, PROPOSAL_ENDED, FOUR_EYES, ROLE_NOT_ALLOWED, and what the change throws.
 */
export async function acceptProposal(parts: ProposalParts, answer: Answer, proposalId: string): Promise<ProposalView> {
  const { log, database } = parts;
  const { by } = answer;
  const early = await readRow(database, log.workspaceId, proposalId);
  const change = changeOf(early);
  const refused = roleFault(answer, change.kind);
  if (refused !== undefined) throw refused;
  const isPending = early.status === STATUS_NUMBERS.pending;
  // A stale change may not compile, which is not what is wrong with it.
  if (isPending) assertPending(early, await log.caughtUp(), 0);
  const prepared = isPending ? await prepareProposed(parts, early.createdBy, change) : undefined;
  let isMade = false;
  try {
    return await log.change(by, async (scope) => {
      const { transaction, state, nowMs, seal } = scope;
      const { workspaceId } = state;
      const row = await rowWithin(scope, proposalId);
      const before = acceptancesOf(row);
      if (before.some((each) => each.by === by)) return viewFrom(row, state, nowMs);
      assertPending(row, state, nowMs);
      await assertOther(scope, row, by);
      const acceptances = [...before, { by, atMs: nowMs }];
      const needed = neededFor(row, state);
      const isLast = acceptances.length >= needed;
      const ended = isLast ? { status: STATUS_NUMBERS.accepted, endedBy: by, endedAtMs: nowMs, needed } : {};
      const update = { acceptances: acceptances as never, ...ended };
      await transaction.nativeUpdate(ProposalEntity, { workspaceId, proposalId }, update);
      seal({ type: "proposal_accepted", proposal_id: proposalId, given: acceptances.length, needed });
      if (isLast) {
        await prepared?.apply(scope);
        isMade = true;
      }
      return viewFrom({ ...row, ...update }, state, nowMs);
    });
  } catch (error) {
    isMade = false;
    throw error;
  } finally {
    if (!isMade) await prepared?.discard?.();
  }
}

/**
 * Ends a proposal without its change; its author may too. Throws PROPOSAL_NOT_FOUND, and PROPOSAL_ENDED for one that has ended or
 * expired. A stale one may be rejected.
 */
export async function rejectProposal(
  { log }: Pick<ProposalParts, "log">,
  { by }: Answer,
  proposalId: string,
  given: string,
): Promise<ProposalView> {
  const note = checkedText("note", given).trim();
  return log.change(by, async (scope) => {
    const { transaction, state, nowMs, seal } = scope;
    const { workspaceId } = state;
    const row = await rowWithin(scope, proposalId);
    if (statusOf(row, state, nowMs) !== "stale") assertPending(row, state, nowMs);
    const update = { status: STATUS_NUMBERS.rejected, endedBy: by, endedAtMs: nowMs, endNote: note };
    await transaction.nativeUpdate(ProposalEntity, { workspaceId, proposalId }, update);
    seal({ type: "proposal_rejected", proposal_id: proposalId, note });
    return viewFrom({ ...row, ...update }, state, nowMs);
  });
}

/** A proposal as one reader sees it. */
export interface ReadProposal {
  readonly proposal: ProposalView;
  readonly change: ProposedChange;
  /** Reason why the reader may not accept it; undefined for one who may. */
  readonly cannotAccept: string | undefined;
}

/** Returns a proposal with its change. Throws PROPOSAL_NOT_FOUND. */
export async function getProposal(
  database: Database,
  state: WorkspaceState,
  reader: ProposalReader,
  proposalId: string,
  nowMs: number,
): Promise<ReadProposal> {
  const row = await readRow(database, state.workspaceId, proposalId);
  const lines = await stored(linesOf(database.pool, state.workspaceId, reader.by, [row]));
  return {
    proposal: viewFrom(row, state, nowMs),
    change: changeOf(row),
    cannotAccept: whyNot(reader, { row, lines, state, nowMs }),
  };
}

/** A mandate before and after a proposed change, as its author writes it; undefined where it is not in force. */
export interface ProposedMandate {
  readonly mandateId: string | undefined;
  readonly before: JsonObject | undefined;
  readonly after: JsonObject | undefined;
}

/** Reads the mandates that a proposal changes, as they were when it was made and as it would make them. */
export async function readProposedMandates(
  { orm }: Database,
  workspaceId: string,
  { base }: ProposalView,
  change: ProposedChange,
): Promise<readonly ProposedMandate[]> {
  const definitions = async (
    keys: readonly (readonly [string, number])[],
  ): Promise<ReadonlyMap<string, JsonObject>> => {
    if (keys.length === 0) return new Map();
    const $or = keys.map(([mandateId, version]) => ({ mandateId, version }));
    const rows = await stored(orm.em.fork().find(MandateVersionEntity, { workspaceId, $or }));
    return new Map(
      rows.map(({ mandateId, version, definition }) => [`${mandateId} ${version}`, definition as JsonObject]),
    );
  };
  if (change.kind === "create_mandate") return [{ mandateId: undefined, before: undefined, after: change.definition }];
  if (change.kind === "apply_pack") {
    const keys = (base.mandates ?? []) as unknown as readonly (readonly [string, number])[];
    const found = await definitions(keys);
    const before = keys.flatMap(([mandateId, version]) => {
      const definition = found.get(`${mandateId} ${version}`);
      return definition === undefined ? [] : [{ mandateId, definition }];
    });
    const nameOf = (definition: JsonObject): string => comparableName(String(definition.name));
    const old = new Map(before.map((each) => [nameOf(each.definition), each]));
    const kept = new Set(change.definitions.map(nameOf));
    const after = change.definitions.map((definition) => {
      const current = old.get(nameOf(definition));
      return { mandateId: current?.mandateId, before: current?.definition, after: definition };
    });
    const gone = before.filter(({ definition }) => !kept.has(nameOf(definition)));
    return [
      ...after.filter((each) => each.before === undefined || canonicalJson(each.before) !== canonicalJson(each.after)),
      ...gone.map(({ mandateId, definition }) => ({ mandateId, before: definition, after: undefined })),
    ];
  }
  if (!("mandate_id" in change)) return [];
  const { mandate_id: mandateId } = change;
  const current = Number(base.version);
  const restored = change.kind === "restore_mandate" ? change.version : current;
  const found = await definitions([
    [mandateId, current],
    ...(restored === current ? [] : [[mandateId, restored] as const]),
  ]);
  const definition = (version: number): JsonObject | undefined => found.get(`${mandateId} ${version}`);
  const after = {
    update_mandate: () => (change as { readonly definition?: JsonObject }).definition,
    restore_mandate: () => definition(restored),
    archive_mandate: () => undefined,
  }[change.kind]();
  return [{ mandateId, before: definition(current), after }];
}

/** Proposals to list. */
export interface ProposalFilter {
  /** Those alone that no answer has ended and that have not expired. */
  readonly isOpen: boolean;
  /** Those alone that wait for this reader, who may accept them and has not; undefined for all. */
  readonly waitsFor: ProposalReader | undefined;
}

/** Lists proposals, newest first; a position is the index of the entry that made it. */
export async function listProposals(
  { orm, pool }: Database,
  state: WorkspaceState,
  { isOpen, waitsFor }: ProposalFilter,
  { size, after }: PageRequest,
  nowMs: number,
): Promise<Page<ProposalView>> {
  const { workspaceId } = state;
  const where = {
    workspaceId,
    ...(after !== undefined && { createdSeq: { $lt: after } }),
    ...((isOpen || waitsFor !== undefined) && { status: STATUS_NUMBERS.pending, expiresAtMs: { $gt: nowMs } }),
  };
  // Those that wait for somebody are found among all that wait.
  const limit = waitsFor === undefined ? size + 1 : MAX_PENDING;
  const options = { orderBy: { createdSeq: "desc" }, limit, fields: LISTED } as const;
  const rows = (await stored(orm.em.fork().find(ProposalEntity, where, options))) as readonly ListedRow[];
  const lines = waitsFor === undefined ? undefined : await stored(linesOf(pool, workspaceId, waitsFor.by, rows));
  const wanted = rows.filter(
    (row) =>
      waitsFor === undefined || lines === undefined || whyNot(waitsFor, { row, lines, state, nowMs }) === undefined,
  );
  return pageFrom(
    wanted.map((row) => viewFrom(row, state, nowMs)),
    size,
    ({ createdSeq }) => createdSeq,
    () => 1_024,
  );
}
