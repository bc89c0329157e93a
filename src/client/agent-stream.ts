import type { Client } from "@connectrpc/connect";
import { AgentChange, type AgentService, type WatchAgentResponse } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { createBackOff, sleep } from "./back-off.ts";
import { AgentStoppedError } from "./blocked-error.ts";
import { liveStream } from "./live-stream.ts";

/** One agent as the control plane tells of it, over one WatchAgent stream that is opened again whenever it breaks. */
export interface AgentStream {
  /** Aborts with an `AgentStoppedError` when the agent is deactivated or revoked. */
  readonly signal: AbortSignal;
  /** Resolves when the agent's status was heard for the first time. Never rejects. */
  readonly ready: Promise<void>;
  /** Calls the listener once, when the session is killed or at once if that was heard already. Gives what cancels it. */
  onSessionKilled(sessionId: string, listener: () => void): () => void;
  /** Ends the stream; nobody hears anything any more. */
  stop(): void;
}

const FIRST_PAUSE_MS = 100;
const MOST_PAUSE_MS = 10_000;
/** Killed sessions that are remembered for listeners that come late; a kill is heard before the call that it concerns. */
const REMEMBERED_KILLS = 10_000;

/** Who waits for which session. What a listener throws is reported by the platform and keeps no other from hearing. */
class KilledSessions {
  readonly #killed = new Set<string>();
  readonly #listeners = new Map<string, Set<() => void>>();

  add(sessionId: string): void {
    const [oldest] = this.#killed;
    if (this.#killed.size >= REMEMBERED_KILLS && oldest !== undefined) this.#killed.delete(oldest);
    this.#killed.add(sessionId);
    for (const listener of this.#listeners.get(sessionId) ?? []) queueMicrotask(listener);
    this.#listeners.delete(sessionId);
  }

  listen(sessionId: string, listener: () => void): () => void {
    if (this.#killed.has(sessionId)) {
      listener();
      return () => undefined;
    }
    // One of its own, so that the same function can be given twice.
    const hear = () => listener();
    const known = this.#listeners.get(sessionId) ?? new Set();
    this.#listeners.set(sessionId, known.add(hear));
    return () => {
      known.delete(hear);
      if (known.size === 0 && this.#listeners.get(sessionId) === known) this.#listeners.delete(sessionId);
    };
  }
}

/** Opens the stream of an agent. */
export function openAgentStream(client: Client<typeof AgentService>, agentId: string): AgentStream {
  const blocked = new AbortController();
  const stopped = new AbortController();
  const sessions = new KilledSessions();
  const { promise: ready, resolve: isReady } = Promise.withResolvers<void>();

  const hear = ({ change, sessionId, revocationId }: WatchAgentResponse): void => {
    isReady();
    if (change === AgentChange.KILLED && sessionId !== undefined) sessions.add(sessionId);
    if (change === AgentChange.DEACTIVATED) blocked.abort(new AgentStoppedError(agentId, { change: "deactivated" }));
    if (change === AgentChange.REVOKED)
      blocked.abort(new AgentStoppedError(agentId, { change: "revoked", revocationId: revocationId ?? null }));
  };
  const open = (signal: AbortSignal) => client.watchAgent({ agentId }, { signal, timeoutMs: 0 });
  const follow = async (): Promise<void> => {
    for await (const message of liveStream(open, { signal: stopped.signal })) hear(message);
  };
  const keepFollowing = async (): Promise<void> => {
    const backOff = createBackOff({ firstMs: FIRST_PAUSE_MS, mostMs: MOST_PAUSE_MS });
    while (!blocked.signal.aborted) {
      const openedAt = performance.now();
      // Every fault may pass, a refusal by something on the way included; the first message tells what was missed.
      await follow().catch(() => undefined);
      if (performance.now() - openedAt > MOST_PAUSE_MS) backOff.reset();
      await sleep(backOff.next(), stopped.signal);
    }
  };
  // Rejects only when it is stopped while it pauses.
  keepFollowing().catch(() => undefined);

  return {
    signal: blocked.signal,
    ready,
    onSessionKilled: (sessionId, listener) => sessions.listen(sessionId, listener),
    stop: () => stopped.abort(),
  };
}
