import type { Client } from "@connectrpc/connect";
import type { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { type AgentStream, openAgentStream } from "./agent-stream.ts";
import { later } from "./back-off.ts";

/**
 * Hears at once when an agent must stop. Says nothing about whether an action is allowed: while the control plane is away
 * nothing is heard and nothing aborts, and it is Intercept that fails closed.
 */
export interface AgentWatch {
  /**
   * Aborts, with an `AgentStoppedError`, when the agent is deactivated or revoked. What happened while the stream was
   * broken is heard when it is whole again.
   */
  readonly signal: AbortSignal;
  /** Resolves when the agent's status was heard for the first time. Never rejects. */
  readonly ready: Promise<void>;
  /**
   * Calls the listener once when the session is killed, by itself or with the agent; at once if that was heard already.
   * A kill while the stream was broken is not heard. Gives what cancels it.
   */
  onSessionKilled(sessionId: string, listener: () => void): () => void;
  /** Lets go of the stream; listeners of this watch hear nothing any more. Its signal may still abort. */
  close(): void;
}

/** The watches of one client; one stream for each agent, however many watch it. */
export interface AgentWatches {
  watch(agentId: string): AgentWatch;
  /** Ends every stream at once. Later watches work, but leave no stream behind. */
  close(): void;
}

/** A stream with those who hold it. */
interface Shared {
  readonly stream: AgentStream;
  holders: number;
  cancelEnd: () => void;
}

/** Milliseconds that a stream nobody holds stays open: the guarded calls of a busy agent share it. */
const LINGER_MS = 1_000;

/** Creates the watches over a client of AgentService. */
export function createAgentWatches(client: Client<typeof AgentService>): AgentWatches {
  const streams = new Map<string, Shared>();
  let lingerMs = LINGER_MS;

  const end = (agentId: string, shared: Shared): void => {
    if (streams.get(agentId) === shared) streams.delete(agentId);
    shared.cancelEnd();
    shared.stream.stop();
  };

  const open = (agentId: string): Shared => {
    const shared = { stream: openAgentStream(client, agentId), holders: 0, cancelEnd: () => undefined };
    streams.set(agentId, shared);
    // Whoever asks later is to hear the status as it is then.
    const forget = () => void (streams.get(agentId) === shared && streams.delete(agentId));
    shared.stream.signal.addEventListener("abort", forget, { once: true });
    return shared;
  };

  const release = (agentId: string, shared: Shared): void => {
    shared.holders -= 1;
    if (shared.holders > 0) return;
    // A stream that told of its agent's end has nothing to tell the next call.
    const mayLinger = lingerMs > 0 && streams.get(agentId) === shared;
    if (mayLinger) shared.cancelEnd = later(lingerMs, () => end(agentId, shared));
    else end(agentId, shared);
  };

  return {
    watch(agentId) {
      const shared = streams.get(agentId) ?? open(agentId);
      shared.cancelEnd();
      shared.holders += 1;
      return createAgentWatch(shared.stream, () => release(agentId, shared));
    },
    close() {
      lingerMs = 0;
      for (const [agentId, shared] of streams) end(agentId, shared);
    },
  };
}

function createAgentWatch(stream: AgentStream, release: () => void): AgentWatch {
  const cancels = new Set<() => void>();
  let isOpen = true;
  return {
    signal: stream.signal,
    ready: stream.ready,
    onSessionKilled(sessionId, listener) {
      if (!isOpen) return () => undefined;
      const cancel = stream.onSessionKilled(sessionId, listener);
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
