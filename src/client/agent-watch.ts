import type { Client } from "@connectrpc/connect";
import { AgentChange, type AgentService, type WatchAgentResponse } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { AgentStoppedError, type StopDetails } from "./blocked-error.ts";
import { createDeferred } from "./deferred.ts";
import { followStream } from "./follow-stream.ts";
import { later } from "./timers.ts";

/**
 * Watch that reports at once when an agent must stop. It does not decide whether an action is allowed: while the control plane is
 * unreachable it reports nothing and aborts nothing. Only intercept fails closed.
 */
export interface AgentWatch {
  /**
   * Aborts with an `AgentStoppedError` when the agent is deactivated or revoked. Changes while the stream was broken are reported
   * when it is open again.
   */
  readonly signal: AbortSignal;
  /** Resolves when the agent's status first arrives. Never rejects. */
  readonly ready: Promise<void>;
  /**
   * Calls the listener once when the session is killed, alone or with its agent, or at once if it is known to be killed. Kills
   * before the stream was open, or while it was broken, are reported when it is open. Returns a function that removes the
   * listener.
   */
  onSessionKilled(sessionId: string, listener: () => void): () => void;
  /** Releases the stream and removes the listeners of this watch. Its signal may still abort. */
  close(): void;
}

const PAUSES = { firstMs: 100, maxMs: 10_000 };
/** Maximum killed sessions that are remembered for later listeners, since a kill may arrive before its call. */
const MAX_REMEMBERED_KILLS = 10_000;
/** Maximum sessions that one stream asks for when it is opened. */
const MAX_ASKED_SESSIONS = 1_000;
/** Milliseconds that an unused stream stays open, so that successive guarded calls of a busy agent share it. */
const LINGER_MS = 1_000;
/** Milliseconds after which a stream is reopened for a session that it did not ask for. Many guarded calls have ended by then. */
const REOPEN_MS = 1_000;

/** Watches of one client. All watches of an agent share one stream. */
export class AgentWatches {
  readonly #client: Client<typeof AgentService>;
  readonly #streams = new Map<string, SharedStream>();
  #lingerMs = LINGER_MS;

  constructor(client: Client<typeof AgentService>) {
    this.#client = client;
  }

  watch(agentId: string): AgentWatch {
    const shared = this.#streams.get(agentId) ?? this.#open(agentId);
    shared.cancelEnd();
    shared.holders += 1;
    return createAgentWatch(shared.stream, () => this.#release(agentId, shared));
  }

  /** Closes every stream at once. Later watches work, but their streams close with them. */
  close(): void {
    this.#lingerMs = 0;
    for (const [agentId, shared] of this.#streams) this.#end(agentId, shared);
  }

  #open(agentId: string): SharedStream {
    const stream = new AgentStream(this.#client, agentId);
    const shared: SharedStream = { stream, holders: 0, cancelEnd: () => undefined };
    this.#streams.set(agentId, shared);
    // The next watch opens a new stream, which reports the status at that time.
    stream.signal.addEventListener("abort", () => this.#forget(agentId, shared), { once: true });
    return shared;
  }

  #release(agentId: string, shared: SharedStream): void {
    shared.holders -= 1;
    if (shared.holders > 0) return;
    // A stream that has reported the end of its agent is useless for the next call.
    const mayLinger = this.#lingerMs > 0 && this.#streams.get(agentId) === shared;
    if (mayLinger) shared.cancelEnd = later(this.#lingerMs, () => this.#end(agentId, shared));
    else this.#end(agentId, shared);
  }

  #end(agentId: string, shared: SharedStream): void {
    this.#forget(agentId, shared);
    shared.cancelEnd();
    shared.stream.stop();
  }

  #forget(agentId: string, shared: SharedStream): void {
    if (this.#streams.get(agentId) === shared) this.#streams.delete(agentId);
  }
}

interface SharedStream {
  readonly stream: AgentStream;
  /** Number of open watches. */
  holders: number;
  /** Cancels the timer that closes the stream after the last watch. */
  cancelEnd: () => void;
}

function createAgentWatch(stream: AgentStream, release: () => void): AgentWatch {
  const cancels = new Set<() => void>();
  let isOpen = true;
  return {
    signal: stream.signal,
    ready: stream.ready,
    onSessionKilled(sessionId, listener) {
      if (!isOpen) return () => undefined;
      const cancel = stream.kills.listen(sessionId, listener);
      cancels.add(cancel);
      return () => {
        cancels.delete(cancel);
        cancel();
      };
    },
    close() {
      if (!isOpen) return;
      isOpen = false;
      for (const cancel of cancels) cancel();
      release();
    },
  };
}

/** The WatchAgent stream of one agent, until `stop()` or the end of the agent. */
class AgentStream {
  readonly kills = new KilledSessions();
  readonly #client: Client<typeof AgentService>;
  readonly #agentId: string;
  readonly #blocked = new AbortController();
  readonly #stopped = new AbortController();
  readonly #ready = createDeferred<void>();
  /** Aborts when the open stream is replaced by one that asks for more sessions. */
  #left = new AbortController();
  #cancelLeaving: (() => void) | undefined;

  constructor(client: Client<typeof AgentService>, agentId: string) {
    this.#client = client;
    this.#agentId = agentId;
    void this.#follow();
  }

  /** Aborts with an `AgentStoppedError` when the agent is deactivated or revoked. */
  get signal(): AbortSignal {
    return this.#blocked.signal;
  }

  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  stop(): void {
    this.#stopped.abort();
    this.#cancelLeaving?.();
  }

  async #follow(): Promise<void> {
    // Listeners that are added together with the watch are included in the stream's request.
    await Promise.resolve();
    const messages = followStream({
      open: (signal) => this.#open(signal),
      signal: this.#stopped.signal,
      pauses: PAUSES,
      onLost: () => this.#onLost(),
    });
    for await (const message of messages) this.#receive(message);
  }

  #open(signal: AbortSignal): AsyncIterable<WatchAgentResponse> {
    const left = new AbortController();
    this.#left = left;
    this.#cancelLeaving?.();
    this.#cancelLeaving = undefined;
    const sessionIds = this.kills.ask(() => {
      this.#cancelLeaving ??= later(REOPEN_MS, () => left.abort());
    });
    const request = { agentId: this.#agentId, sessionIds };
    return this.#client.watchAgent(request, { signal: AbortSignal.any([signal, left.signal]), timeoutMs: 0 });
  }

  /** Treats every fault as temporary, even a refusal by a proxy. The first message of the next stream reports what was missed. */
  #onLost(): number | undefined {
    if (this.#blocked.signal.aborted) this.stop();
    return this.#left.signal.aborted ? 0 : undefined;
  }

  #receive({ change, sessionId, revocationId }: WatchAgentResponse): void {
    this.#ready.resolve();
    if (change === AgentChange.KILLED && sessionId !== undefined) this.kills.add(sessionId);
    if (change === AgentChange.DEACTIVATED) this.#block({ change: "deactivated" });
    if (change === AgentChange.REVOKED) this.#block({ change: "revoked", revocationId: revocationId ?? null });
  }

  #block(details: StopDetails): void {
    this.#blocked.abort(new AgentStoppedError(this.#agentId, details));
  }
}

/** Killed sessions and their listeners. The platform reports an exception of a listener; other listeners still run. */
class KilledSessions {
  readonly #killed = new Set<string>();
  readonly #listeners = new Map<string, Set<() => void>>();
  /** Sessions that the open stream asked for. */
  #asked: ReadonlySet<string> = new Set();
  #onMoreToAsk: () => void = () => undefined;

  add(sessionId: string): void {
    const [oldest] = this.#killed;
    if (this.#killed.size >= MAX_REMEMBERED_KILLS && oldest !== undefined) this.#killed.delete(oldest);
    this.#killed.add(sessionId);
    for (const listener of this.#listeners.get(sessionId) ?? []) queueMicrotask(listener);
    this.#listeners.delete(sessionId);
  }

  /**
   * Returns the sessions that have a listener, for the request of a stream. Calls back when a listener is added for another
   * session, which may have been killed before the stream was open.
   */
  ask(onMoreToAsk: () => void): string[] {
    const asked = [...this.#listeners.keys()].slice(0, MAX_ASKED_SESSIONS);
    this.#asked = new Set(asked);
    this.#onMoreToAsk = onMoreToAsk;
    return asked;
  }

  /** Calls the listener when the session is killed, or at once if it was. Returns a function that removes the listener. */
  listen(sessionId: string, listener: () => void): () => void {
    if (this.#killed.has(sessionId)) {
      listener();
      return () => undefined;
    }
    // Wrapped, so that one function can be added twice.
    const call = () => listener();
    const listeners = this.#listeners.get(sessionId) ?? new Set();
    this.#listeners.set(sessionId, listeners.add(call));
    if (!this.#asked.has(sessionId) && this.#listeners.size <= MAX_ASKED_SESSIONS) this.#onMoreToAsk();
    return () => {
      listeners.delete(call);
      if (listeners.size === 0 && this.#listeners.get(sessionId) === listeners) this.#listeners.delete(sessionId);
    };
  }
}
