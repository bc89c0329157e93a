import { createEventBuffer } from "../log/event-buffer.ts";
import type { LedgerEvent } from "../log/events.ts";
import type { WorkspaceLog } from "../log/workspace-log.ts";
import { agentOf } from "./lookups.ts";

/** What a runtime that watches its agent hears of. */
export interface AgentChange {
  readonly kind: "active" | "deactivated" | "revoked" | "killed";
  /** The session that was killed. */
  readonly sessionId?: string;
  /** The revocation. */
  readonly revocationId?: string;
  readonly atMs: number;
}

/** How an agent is watched. */
export interface WatchAgentOptions {
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
}

function changesFrom(event: LedgerEvent, agentId: string): AgentChange[] {
  if (event.kind === "decision") return [];
  const { change, atMs } = event;
  if (!("agent_id" in change) || change.agent_id !== agentId) return [];
  if (change.type === "agent_deactivated") return [{ kind: "deactivated", atMs }];
  if (change.type === "authority_ended" && change.kind === "session") {
    return change.ids.map((sessionId) => ({ kind: "killed", sessionId, atMs }));
  }
  if (change.type !== "agent_revoked") return [];
  const killed = change.ended.sessions.map((sessionId) => ({ kind: "killed" as const, sessionId, atMs }));
  // First what stops everything: an agent may have had thousands of sessions.
  return [{ kind: "revoked", revocationId: change.revocation_id, atMs }, ...killed];
}

/** The changes that one entry of the log made: one element of the buffer, so that no revocation is too long for it. */
interface EntryChanges {
  readonly seq: number;
  readonly changes: readonly AgentChange[];
}

/**
 * The agent's status as it is, then every change of it and every session that is killed. `undefined` is a heartbeat. Ends
 * after `revoked` and the sessions that were killed with it. Throws AGENT_NOT_FOUND.
 */
export async function* watchAgent(
  log: WorkspaceLog,
  agentId: string,
  { heartbeatMs, signal }: WatchAgentOptions,
): AsyncGenerator<AgentChange | undefined> {
  const live = createEventBuffer<EntryChanges>();
  const stop = log.subscribe((events) => {
    for (const event of events) {
      const changes = changesFrom(event, agentId);
      if (changes.length > 0) live.push({ seq: event.seq, changes });
    }
  });
  try {
    const state = await log.caughtUp();
    const { status, registeredAtMs, deactivatedAtMs } = agentOf(state, agentId);
    const { seq: end } = state;
    yield { kind: status, atMs: deactivatedAtMs ?? registeredAtMs };
    if (status === "revoked") return;
    for await (const entry of live.read(heartbeatMs, signal)) {
      if (entry === undefined) yield undefined;
      // What came before the status was read is in it.
      else if (entry.seq >= end) yield* entry.changes;
      if (entry?.changes[0]?.kind === "revoked") return;
    }
  } finally {
    stop();
  }
}
