import type { AgentWatch } from "./agent-watch.ts";
import { AgentStoppedError } from "./blocked-error.ts";
import { createDeferred } from "./deferred.ts";
import type { GuardCallOptions } from "./guard-options.ts";

/**
 * Runs a function until it is done or its agent must stop. In the second case it rejects with the `AgentStoppedError` at once and
 * aborts the function's signal with the same error. If the agent is already known to be stopped, the function does not run.
 * Closes the watch. The caller's cancellation aborts the function's signal too, and the function decides how the call ends.
 */
export async function runWatched<Result>(
  watch: AgentWatch,
  { agentId, sessionId, signal: caller }: GuardCallOptions & { readonly agentId: string },
  run: (signal: AbortSignal) => Result,
): Promise<Awaited<Result>> {
  const stopped = new AbortController();
  const { promise: stop, reject } = createDeferred<never>();
  stop.catch(() => undefined);
  const stopWith = (error: unknown): void => {
    // Rejects first: otherwise the function's own error about its signal could win the race.
    reject(error);
    stopped.abort(error);
  };
  const onAbort = () => stopWith(watch.signal.reason);
  const onLeave = () => stopped.abort(caller?.reason);
  try {
    watch.signal.throwIfAborted();
    watch.signal.addEventListener("abort", onAbort, { once: true });
    caller?.addEventListener("abort", onLeave, { once: true });
    if (sessionId !== undefined) {
      watch.onSessionKilled(sessionId, () => stopWith(new AgentStoppedError(agentId, { change: "killed", sessionId })));
    }
    stopped.signal.throwIfAborted();
    return await Promise.race([stop, run(stopped.signal)]);
  } finally {
    watch.signal.removeEventListener("abort", onAbort);
    caller?.removeEventListener("abort", onLeave);
    watch.close();
  }
}
