import type { AgentWatch } from "./agent-watch.ts";
import { AgentStoppedError } from "./blocked-error.ts";

/** Whose work runs. */
export interface WatchedWork {
  readonly agentId: string;
  /** The session that the work belongs to; undefined when there is none. */
  readonly sessionId: string | undefined;
}

/**
 * Runs work until it is done or its agent must stop: then rejects with the `AgentStoppedError` at once, and the signal that
 * the work was given aborts with the same error. The work is not run when that is known already. Closes the watch.
 */
export async function runWatched<Result>(
  watch: AgentWatch,
  { agentId, sessionId }: WatchedWork,
  run: (signal: AbortSignal) => Result,
): Promise<Awaited<Result>> {
  const stopped = new AbortController();
  const { promise: stop, reject } = Promise.withResolvers<never>();
  stop.catch(() => undefined);
  const stopWith = (error: unknown): void => {
    // First, so that what the work makes of its signal is not what the call rejects with.
    reject(error);
    stopped.abort(error);
  };
  const onAbort = () => stopWith(watch.signal.reason);
  try {
    watch.signal.throwIfAborted();
    watch.signal.addEventListener("abort", onAbort, { once: true });
    if (sessionId !== undefined) {
      watch.onSessionKilled(sessionId, () => stopWith(new AgentStoppedError(agentId, { change: "killed", sessionId })));
    }
    stopped.signal.throwIfAborted();
    return await Promise.race([stop, run(stopped.signal)]);
  } finally {
    watch.signal.removeEventListener("abort", onAbort);
    watch.close();
  }
}
