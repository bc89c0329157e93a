import type { JsonObject } from "@bufbuild/protobuf";
import { ErrorReason, invalidField, notFound } from "../../errors.ts";
import { receiptFrom } from "../../log/receipts.ts";
import type { LongChecker } from "../../policy/long/checker.ts";
import type { Decision, PolicyReason } from "../../policy/types.ts";
import type { ListDraft } from "../../registry/lists.ts";
import type { ControlChange } from "../../state/control-changes.ts";
import { loadSnapshot } from "../../state/load.ts";
import type { SealedOutcome } from "../../state/outcomes.ts";
import { EntryKind } from "../../state/types.ts";
import type { WorkspaceState } from "../../state/workspace.ts";
import type { Reader, ReadOnlyDatabase } from "../../store/transaction.ts";
import { applyDrafts, applyLists, type Draft, notInForce } from "../drafts.ts";
import { type OwnStates, whileHeld } from "../own-state.ts";
import { Pace } from "../pace.ts";
import { type FiredArgument, firedArgument } from "./fired-argument.ts";
import { type MakeLongChecks, type Recorded, Replay, type Replayed } from "./replay.ts";
import { type Compared, type Report, ReportBuilder } from "./report.ts";
import { type PlacedChange, Stretch, type StretchEntry } from "./stretch.ts";

/** Query of a backtest. */
export interface BacktestQuery {
  readonly workspaceId: string;
  readonly drafts: readonly Draft[];
  /** Lists that are put in force before the drafts. */
  readonly lists: readonly ListDraft[];
  /** Mandates in force to leave out. */
  readonly archives: readonly string[];
  /** Epoch milliseconds; undefined for the first entry. */
  readonly sinceMs: number | undefined;
  /** Epoch milliseconds, exclusive; undefined for the last entry. */
  readonly untilMs: number | undefined;
  /** The only agent to report; undefined for all. */
  readonly agentId: string | undefined;
  readonly listsChanges: boolean;
  /** Compares with the decisions of the rules in force now, in place of the recorded ones. */
  readonly onlyDrafts: boolean;
  readonly signal: AbortSignal;
}

/** A decision that would be different. */
export interface Change {
  readonly decisionId: string;
  readonly agentId: string;
  readonly agentName: string;
  readonly actionType: string;
  readonly tool: string | undefined;
  readonly atMs: number;
  readonly was: Decision;
  readonly now: Decision;
  readonly reasons: readonly PolicyReason[];
  /** The argument that the reasons of the stricter of the two decisions name first; undefined if they name none. */
  readonly fired: FiredArgument | undefined;
}

/** A message of a backtest. */
export type BacktestEvent =
  | { readonly kind: "progress"; readonly replayed: number; readonly total: number }
  | { readonly kind: "change"; readonly change: Change }
  | { readonly kind: "report"; readonly report: Report };

/** Dependencies of a backtest. */
export interface BacktestParts {
  readonly reads: ReadOnlyDatabase;
  readonly ownStates: OwnStates;
  readonly checker: LongChecker;
}

/** Milliseconds between messages of progress. */
const PROGRESS_MS = 250;

/**
 * Replays the decisions of a window. Yields progress, changed decisions if they are asked for, and the report last. Throws
 * MANDATE_NOT_FOUND, AGENT_NOT_FOUND, OVERLOADED, STORE_UNAVAILABLE, and what publishing a draft would.
 */
export async function* backtest(parts: BacktestParts, query: BacktestQuery): AsyncGenerator<BacktestEvent> {
  const { workspaceId, signal } = query;
  const { ownStates } = parts;
  const acquired = query.onlyDrafts
    ? ownStates.acquirePair({ workspaceId }, signal)
    : ownStates.acquire({ workspaceId }, signal);
  yield* whileHeld(acquired, signal, () => run(parts, query));
}

async function* run({ reads, checker }: BacktestParts, query: BacktestQuery): AsyncGenerator<BacktestEvent> {
  const { workspaceId, agentId, signal, listsChanges, onlyDrafts } = query;
  const { state, without } = await reads.snapshot(async (reader) => ({
    state: await loadSnapshot(reader, workspaceId),
    without: onlyDrafts ? await loadSnapshot(reader, workspaceId) : undefined,
  }));
  await applyLists(state, query.lists);
  const pace = new Pace();
  await supposeRules(state, query, pace);
  if (without !== undefined) await supposeRules(without, { drafts: [], archives: [] }, pace);
  if (agentId !== undefined && !state.agents.has(agentId)) {
    throw notFound(ErrorReason.AGENT_NOT_FOUND, "agent", { agent_id: agentId });
  }
  const stretch = new Stretch(reads, workspaceId);
  const { fromSeq, toSeq } = await boundsOf(stretch, state, query);
  const lastAtMs = await stretch.timeOf(fromSeq - 1);
  const replay = new Replay(state, { seq: fromSeq, lastAtMs });
  const base = without && new Replay(without, { seq: fromSeq, lastAtMs });
  const replays = base === undefined ? [replay] : [replay, base];
  for await (const change of stretch.changesBefore(fromSeq)) {
    if (signal.aborted) return;
    for (const each of replays) each.change(change);
  }
  const builder = new ReportBuilder();
  const longChecks: MakeLongChecks = (missing) => checker.run({ workspaceId }, missing, signal);
  const total = toSeq - fromSeq;
  let toldAt = performance.now();
  yield { kind: "progress", replayed: 0, total };
  let done = 0;
  for await (const page of pagesOf({ stretch, replays, pace }, fromSeq, toSeq)) {
    done += page.length;
    for (const step of page) {
      if (signal.aborted) return;
      if ("change" in step) {
        for (const each of replays) each.change(step);
        continue;
      }
      if ("outcome" in step) {
        for (const each of replays) each.report(step.outcome);
        continue;
      }
      const { entry, body } = step;
      for (const each of replays) {
        if (!each.isReady(entry.atMs)) await stretch.within((reader) => each.complete(reader, entry));
      }
      const replayed = await replay.decide(step, longChecks);
      const before = await base?.decide(step, longChecks);
      if (agentId === undefined || body.action.agent_id === agentId) {
        const compared = comparedWith(replayed, before);
        const comparison = builder.add(compared, entry.atMs);
        if (listsChanges && (comparison === "stricter" || comparison === "looser")) {
          const { reasons } = comparison === "stricter" ? replayed : (before ?? body);
          const fired = firedArgument(reasons, body.action.metadata as JsonObject | undefined);
          yield { kind: "change", change: { ...changeFrom(compared, state, entry.atMs), fired } };
        }
      }
      await pace.turn();
    }
    await countPeople(stretch, builder);
    if (performance.now() - toldAt < PROGRESS_MS) continue;
    toldAt = performance.now();
    yield { kind: "progress", replayed: done, total };
  }
  const agents =
    agentId === undefined ? state.agents.values() : [state.agents.get(agentId)].filter((agent) => agent !== undefined);
  yield { kind: "report", report: builder.build({ fromSeq, toSeq, policyDigest: replay.policyDigest, agents }) };
}

/** Joins a decision with the one that it is compared with: without the drafts, or as it was recorded. */
function comparedWith(replayed: Replayed, before: Replayed | undefined): Compared {
  const was = before?.now ?? replayed.body.decision;
  return {
    ...replayed,
    was,
    isSemantic: replayed.isSemantic || before?.isSemantic === true,
    lacksProvenance: replayed.lacksProvenance || before?.lacksProvenance === true,
  };
}

function changeFrom(
  { body, was, now, reasons }: Compared,
  { agents }: WorkspaceState,
  atMs: number,
): Omit<Change, "fired"> {
  const { agent_id: agentId, action_type: actionType, tool } = body.action;
  return {
    decisionId: body.decision_id,
    agentId,
    agentName: agents.get(agentId)?.registration.name ?? "",
    actionType,
    tool: tool ?? undefined,
    atMs,
    was,
    now,
    reasons,
  };
}

/** Puts the rules of a backtest in force in a state of its own. */
async function supposeRules(
  state: WorkspaceState,
  { drafts, archives }: Pick<BacktestQuery, "drafts" | "archives">,
  pace: Pace,
): Promise<void> {
  for (const [index, id] of archives.entries()) {
    if (!state.policies.mandates.has(id)) throw notInForce(`archives[${index}]`, id);
  }
  // First, since drafts may take their names.
  for (const id of archives) state.policies.removeMandate(id);
  await applyDrafts(state, drafts, () => pace.turn());
}

/** Returns the indexes of a window's first entry and of the one after its last. */
async function boundsOf(stretch: Stretch, { seq }: WorkspaceState, { sinceMs, untilMs }: BacktestQuery) {
  if (sinceMs !== undefined && untilMs !== undefined && untilMs <= sinceMs)
    throw invalidField("until", "must lie after `since`");
  const fromSeq = sinceMs === undefined ? 0 : await stretch.firstAfter(sinceMs - 1, seq);
  const toSeq = untilMs === undefined ? seq : await stretch.firstAfter(untilMs - 1, seq);
  return { fromSeq, toSeq };
}

/** A decision to replay, or a change or an outcome between decisions. */
type Step = Recorded | PlacedChange | { readonly outcome: SealedOutcome };

/** Parts of a running backtest. */
interface Running {
  readonly stretch: Stretch;
  /** Under the drafts, and without them if that is asked. */
  readonly replays: readonly Replay[];
  readonly pace: Pace;
}

/** Reads the window page by page, and what its decisions depend on. */
function pagesOf({ stretch, replays, pace }: Running, from: number, before: number): AsyncGenerator<readonly Step[]> {
  const read = async (reader: Reader, entries: readonly StretchEntry[]): Promise<readonly Step[]> => {
    const steps = entries.flatMap(stepsFrom);
    const unknown = steps.flatMap((step) =>
      "body" in step ? replays.flatMap((each) => each.unknownAuthority(step.body)) : [],
    );
    const facts = await stretch.authorityFacts(reader, [...new Set(unknown)]);
    for (const each of replays) each.learn(facts);
    return steps;
  };
  return stretch.pages(from, before, read, pace);
}

/** Returns the step of an entry; none for a claim, on which no rule depends. */
function stepsFrom(entry: StretchEntry): readonly Step[] {
  const { seq, atMs, kind, body } = entry;
  if (kind === EntryKind.CHANGE) {
    const change = JSON.parse(body) as ControlChange & { readonly by: string };
    return [{ seq, atMs, by: change.by, change }];
  }
  if (kind === EntryKind.CLAIM) return [];
  if (kind === EntryKind.OUTCOME) return [{ outcome: JSON.parse(body) as SealedOutcome }];
  return [{ entry, body: receiptFrom(body, NO_HASH).body }];
}

/** The leaf hash is not needed here. */
const NO_HASH = new Uint8Array();

async function countPeople(stretch: Stretch, builder: ReportBuilder): Promise<void> {
  const asked = builder.takeAsked();
  const ids = asked.flatMap(({ escalationId }) => escalationId ?? []);
  const statuses = await stretch.escalationStatuses([...new Set(ids)]);
  for (const { decisionId, escalationId } of asked) {
    const status = escalationId === undefined ? "approved" : statuses.get(escalationId);
    if (status !== undefined) builder.addPeople(decisionId, status);
  }
}
