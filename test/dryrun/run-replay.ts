import type { Draft } from "../../src/dryrun/drafts.ts";
import { DryRuns } from "../../src/dryrun/dry-runs.ts";
import type { Episode } from "../../src/dryrun/episodes/episode.ts";
import { REPLAYED_SESSION } from "../../src/dryrun/episodes/own-workspace.ts";
import type { ReplayEvent } from "../../src/dryrun/episodes/replay-episodes.ts";
import type { ReplaySummary } from "../../src/dryrun/episodes/replay-tally.ts";
import { LongChecker } from "../../src/policy/long/checker.ts";
import { ReadOnlyDatabase } from "../../src/store/transaction.ts";
import { actionOf, type Replica } from "../support/harness.ts";

/** A call of a tool with its arguments. */
interface Call {
  readonly tool: string;
  readonly arguments: object;
}

/** Replays one episode of an agent in the workspace `default`, and returns the summary. */
export async function replaySummary(...of: Parameters<typeof replayEvents>): Promise<ReplaySummary> {
  for (const event of await replayEvents(...of)) if (event.kind === "summary") return event.summary;
  throw new Error("no summary");
}

/** Replays as `replaySummary` does, and returns every message. */
export async function replayEvents(
  { logs, database }: Pick<Replica, "logs" | "database">,
  agentId: string,
  calls: readonly Call[],
  drafts: readonly Draft[],
): Promise<readonly ReplayEvent[]> {
  const checker = new LongChecker();
  const dryRuns = new DryRuns({ logs, reads: new ReadOnlyDatabase(database.pool), checker });
  const steps = calls.map(({ tool, arguments: args }, index) => ({
    kind: "call" as const,
    index,
    action: actionOf({
      agentId,
      actionType: tool,
      tool,
      metadata: { arguments: args } as never,
      sessionId: REPLAYED_SESSION,
    }),
    result: `result ${index}`,
    isError: false,
    isCut: false,
    isParallel: false,
    role: undefined,
    atMs: undefined,
  }));
  const episode: Episode = { id: "e", prompt: "pay", contract: undefined, steps };
  const query = {
    workspaceId: "default",
    episodes: [episode],
    drafts,
    lists: [],
    tools: [],
    escalated: "run",
    agentId,
    signal: new AbortController().signal,
  } as const;
  try {
    const events: ReplayEvent[] = [];
    for await (const event of dryRuns.replay(query)) events.push(event);
    return events;
  } finally {
    await checker.close();
  }
}
