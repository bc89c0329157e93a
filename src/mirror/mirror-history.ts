import type { History, MissingHistory } from "../state/counters/log-history.ts";
import {
  continues,
  type MirrorSource,
  type MirrorStore,
  type RecordedAgent,
  type RecordedEntry,
  type Recording,
} from "./mirror-store.ts";

/** Maximum number of decisions that are loaded from the mirror for a window: the database counts more faster. */
const MAX_ENTRIES = 100_000;
/**
 * Approximate number of entries that one script reads, so that it keeps Redis busy for a few milliseconds; a set is read as a
 * whole.
 */
const ENTRIES_A_READ = 5_000;
/** Maximum number of entries that are read from the log when the mirror lies behind. */
const MAX_BEHIND = 5_000;

function chunksOf(agents: readonly RecordedAgent[]): string[][] {
  const chunks: string[][] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const { agentId, count } of agents) {
    if (size + count > ENTRIES_A_READ) {
      chunks.push([]);
      size = 0;
    }
    chunks.at(-1)?.push(agentId);
    size += count + 1;
  }
  return chunks;
}

async function readAll(
  store: MirrorStore,
  recording: Recording,
  agents: readonly RecordedAgent[],
): Promise<RecordedEntry[] | undefined> {
  const all: RecordedEntry[] = [];
  for (const agentIds of chunksOf(agents)) {
    const entries = await store.read(recording, agentIds);
    if (entries === undefined) return undefined;
    for (const entry of entries) all.push(entry);
  }
  return all;
}

/** Reads the entries of the log after a recording; undefined when they are too many, or the log is another one. */
async function readRest(
  source: MirrorSource,
  workspaceId: string,
  recording: Recording,
  before: number,
): Promise<RecordedEntry[] | undefined> {
  const behind = Math.max(0, before - recording.seq);
  if (behind > MAX_BEHIND) return undefined;
  const entries = await source.entries(workspaceId, recording.seq - 1, behind + 1);
  if (!continues(entries, recording) || entries.length < behind + 1) return undefined;
  return entries.slice(1).flatMap(({ seq, at, decided }) => (decided === null ? [] : [{ seq, at, ...decided }]));
}

/**
 * Loads a window from the mirror of a log; undefined when the mirror cannot be trusted: it recorded only a part of the window,
 * lost entries, lies far behind, or belongs to another log. Rejects when Redis does not answer.
 */
export async function loadMirrored(
  store: MirrorStore,
  source: MirrorSource,
  workspaceId: string,
  { before, after }: MissingHistory,
): Promise<History | undefined> {
  const found = await store.recordingWithAgents();
  if (found === undefined || found.recording.since > after) return undefined;
  const { recording } = found;
  const agents = found.agents.filter(({ lastAt }) => lastAt > after);
  if (agents.reduce((sum, { count }) => sum + count, 0) > MAX_ENTRIES) return undefined;
  const rest = await readRest(source, workspaceId, recording, before);
  if (rest === undefined) return undefined;
  const recorded = await readAll(store, recording, agents);
  if (recorded === undefined) return undefined;
  // Other processes may have added and trimmed entries meanwhile: added ones are in `rest`, and trimming shows in `since`.
  const now = await store.recording();
  if (now?.gen !== recording.gen || now.since > after) return undefined;
  const end = Math.min(recording.seq, before);
  const entries = [...recorded.filter(({ seq }) => seq < end), ...rest].filter(({ at }) => at > after);
  entries.sort((one, other) => one.seq - other.seq);
  return { expired: [], entries, nextIndex: before, rest: [], source: "mirror" };
}
