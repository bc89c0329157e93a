import { invalidField } from "../../errors.ts";
import type { LongChecker } from "../../policy/long/checker.ts";
import type { ListDraft } from "../../registry/lists.ts";
import type { OneToolDraft } from "../../registry/tools.ts";
import { loadSnapshot } from "../../state/load.ts";
import type { ReadOnlyDatabase } from "../../store/transaction.ts";
import { applyDrafts, applyLists, applyTools, type Draft } from "../drafts.ts";
import { type OwnStates, whileHeld } from "../own-state.ts";
import { Pace } from "../pace.ts";
import type { DecidedCall, Episode, Escalated, ReplayedCall } from "./episode.ts";
import { EpisodeRun } from "./episode-run.ts";
import { type ReplaySummary, ReplayTally } from "./replay-tally.ts";

/** Query of a replay. */
export interface ReplayQuery {
  readonly workspaceId: string;
  readonly episodes: readonly Episode[];
  readonly drafts: readonly Draft[];
  readonly lists: readonly ListDraft[];
  readonly tools: readonly OneToolDraft[];
  readonly escalated: Escalated;
  readonly agentId: string | undefined;
  /** Aborts when the caller leaves. */
  readonly signal: AbortSignal;
}

/** A message of a replay. */
export type ReplayEvent =
  | { readonly kind: "episode"; readonly id: string; readonly calls: readonly ReplayedCall[] }
  | { readonly kind: "summary"; readonly summary: ReplaySummary };

/** Maximum number of reasons of one call that are shown. */
const MAX_REASONS = 10;

/** Dependencies of a replay. */
export interface ReplayParts {
  readonly reads: ReadOnlyDatabase;
  readonly ownStates: OwnStates;
  readonly checker: LongChecker;
}

/**
 * Decides recorded sessions again, each in a workspace of its own. Yields each episode's result in their order, and the summary last.
 * Throws AGENT_NOT_FOUND, OVERLOADED, STORE_UNAVAILABLE, PLAN_INVALID, SCHEMA_INVALID, INVALID_FIELD, and what publishing a draft
 * would. MUST NOT write anything.
 */
export async function* replayEpisodes(parts: ReplayParts, query: ReplayQuery): AsyncGenerator<ReplayEvent> {
  const { workspaceId, signal } = query;
  assertDistinct(query.episodes);
  yield* whileHeld(parts.ownStates.acquire({ workspaceId }, signal), signal, () => run(parts, query));
}

function assertDistinct(episodes: readonly Episode[]): void {
  const seen = new Set<string>();
  for (const [index, { id }] of episodes.entries()) {
    if (seen.has(id))
      throw invalidField(`episodes[${index}].id`, `is that of an earlier episode, \`${id}\`; give each its own`);
    seen.add(id);
  }
}

async function* run({ reads, checker }: ReplayParts, query: ReplayQuery): AsyncGenerator<ReplayEvent> {
  const { workspaceId, episodes, agentId, escalated, signal } = query;
  const state = await reads.snapshot((reader) => loadSnapshot(reader, workspaceId));
  const pace = new Pace();
  const giveTurn = (): Promise<void> => pace.turn();
  await applyTools(state, query.tools, giveTurn);
  await applyLists(state, query.lists);
  await applyDrafts(state, query.drafts, giveTurn);
  const options = {
    agentId,
    escalated,
    pace,
    makeLongChecks: (missing: Parameters<LongChecker["run"]>[1]) => checker.run({ workspaceId }, missing, signal),
  };
  const tally = new ReplayTally();
  for (const [index, episode] of episodes.entries()) {
    const calls: ReplayedCall[] = [];
    tally.begin();
    for await (const call of new EpisodeRun(state, episode, `episodes[${index}]`, options).run()) {
      if (signal.aborted) return;
      tally.add(call);
      calls.push(replayedFrom(call));
    }
    yield { kind: "episode", id: episode.id, calls };
  }
  yield { kind: "summary", summary: tally.summary(state.policies.policySet().digest) };
}

function replayedFrom({ index, ran, outcome }: DecidedCall): ReplayedCall {
  const { decision, path, policyName, reasons } = outcome;
  return { index, ran, decision, path, policyName, reasons: reasons.slice(0, MAX_REASONS) };
}
