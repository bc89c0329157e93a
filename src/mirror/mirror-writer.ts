import { randomBytes } from "node:crypto";
import { continues, type MirrorEntry, type MirrorSource, type MirrorStore, type Recording } from "./mirror-store.ts";

/** Maximum number of entries that one script adds, so that it keeps Redis busy for a few milliseconds. */
const PAGE = 1_000;
/** Maximum number of entries that a mirror lies behind: past it a new recording is cheaper than filling it up. */
const MAX_BEHIND = 100_000;
/** Maximum number of agents that one script forgets. */
const FORGOTTEN_AT_ONCE = 500;

/** State of a mirror after a step: at the log's end, with more to write, or begun again. */
export type WriteResult = "complete" | "more" | "begun";

async function beginAt(
  store: MirrorStore,
  instead: Recording | undefined,
  last: MirrorEntry | undefined,
  keepMs: number,
): Promise<WriteResult> {
  if (last !== undefined) await store.begin(instead, randomBytes(9).toString("base64url"), last, keepMs);
  return "begun";
}

/**
 * Brings the mirror of a log a step nearer to the log's end. It writes from the log itself: nothing waits in memory, so there
 * is no queue to bound, a gap is filled like any other stretch, and of several replicas that write at once each continues after
 * the last one. Rejects when Redis or the database does not answer.
 */
export async function writeMirror(
  store: MirrorStore,
  source: MirrorSource,
  { workspaceId, seq: end, keepMs }: { workspaceId: string; seq: number; keepMs: number },
): Promise<WriteResult> {
  const recording = await store.recording();
  if (recording === undefined || end - recording.seq > MAX_BEHIND) {
    const [last] = await source.entries(workspaceId, end - 1, 1);
    return beginAt(store, recording, last, keepMs);
  }
  const entries = await source.entries(workspaceId, recording.seq - 1, PAGE + 1);
  if (!continues(entries, recording)) {
    const [last] = await source.entries(workspaceId, end - 1, 1);
    return beginAt(store, recording, last, keepMs);
  }
  if (!(await store.append(recording, entries.slice(1), keepMs))) return "more";
  return entries.length > PAGE ? "more" : "complete";
}

/** Removes agents whose decisions are all too old to be kept. */
export async function sweepMirror(store: MirrorStore, keepMs: number): Promise<void> {
  const found = await store.recordingWithAgents();
  if (found === undefined) return;
  const newest = found.agents.reduce((latest, { lastAt }) => Math.max(latest, lastAt), 0);
  const until = newest - keepMs;
  const stale = found.agents.filter(({ lastAt }) => lastAt <= until).map(({ agentId }) => agentId);
  for (let start = 0; start < stale.length; start += FORGOTTEN_AT_ONCE) {
    await store.forget(found.recording, stale.slice(start, start + FORGOTTEN_AT_ONCE), until);
  }
}
