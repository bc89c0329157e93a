import { setTimeout as delay } from "node:timers/promises";
import type { JsonObject } from "@bufbuild/protobuf";
import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason } from "../errors.ts";
import type { StoreLog } from "../store/migrate.ts";
import { DetachableReply } from "./detachable-reply.ts";
import { ClientLeft, type Exchange, type Forwarding, noteFault } from "./exchange.ts";
import type { HeldAction, HeldActions } from "./held-actions.ts";
import {
  type ApprovedCall,
  type CallKey,
  type KeptResults,
  RENEW_MS,
  type RunningCall,
  type TakenCall,
} from "./kept-results.ts";
import { createError, errorFromFault, RPC_CODES, type RpcRequest, type RpcResponse } from "./messages.ts";
import type { McpEnds } from "./session-ends.ts";
import type { OpenCall } from "./sessions.ts";

/** Parts of `ApprovedCalls`. */
export interface ApprovedCallsOptions {
  readonly held: Pick<HeldActions, "digestOfCall" | "isAlwaysBlocked">;
  readonly kept: KeptResults;
  readonly ends: Pick<McpEnds, "watch" | "endOf">;
  readonly log: StoreLog;
}

/** Result of looking for the response to an earlier identical call. */
export type Recalled =
  /** The response that reached nobody, or the fact that it is lost. The caller MUST put it back if it cannot be delivered. */
  | { readonly kind: "taken"; readonly call: ApprovedCall; readonly taken: TakenCall }
  /** The call still runs. */
  | { readonly kind: "running"; readonly call: ApprovedCall };

/** Milliseconds between two looks at a call that runs in another process, and between two reports of progress. */
const POLL_MS = 1_000;
const PROGRESS_MS = 10_000;
/** Reasons with which clients cancel a request because their time is up. */
const TIMED_OUT = /tim(?:ed|e)[ -]?out/i;

/**
 * Forwards calls that a person approved. Such a call goes on when its client leaves, and an identical call gets its response,
 * because it would need a second approval otherwise. Other calls are cancelled when their client leaves: the rules allow them
 * again, and a closed stream is how clients of 2026-07-28 cancel.
 */
export class ApprovedCalls {
  readonly #options: ApprovedCallsOptions;
  /** Calls of this process, by their decisions. */
  readonly #running = new Map<string, { readonly ending: AbortController; readonly settled: Promise<void> }>();

  constructor(options: ApprovedCallsOptions) {
    this.#options = options;
  }

  /** Ends every call in flight, and waits until that is written. */
  async close(reason: unknown): Promise<void> {
    for (const { ending } of this.#running.values()) ending.abort(reason);
    await Promise.all([...this.#running.values()].map(({ settled }) => settled));
  }

  /**
   * Forwards a request that `decisionId` allowed, and keeps the response if the client does not get it. Resolves with false if the
   * server may answer later. Rejects with STORE_UNAVAILABLE, without sending, if that cannot be written first.
   */
  async forward(
    forwarding: Pick<Forwarding, "forward">,
    exchange: Exchange,
    request: RpcRequest,
    call: OpenCall,
    { action, decisionId }: { readonly action: HeldAction; readonly decisionId: string },
  ): Promise<boolean> {
    const { workspaceId, agentId } = exchange.caller;
    const running = await this.#begin({ workspaceId, agentId, decisionId }, action);
    const ending = new AbortController();
    const settled = Promise.withResolvers<void>();
    this.#running.set(decisionId, { ending, settled: settled.promise });
    try {
      return await this.#run(forwarding, { ...exchange, ending }, exchange.ending.signal, request, call, running);
    } finally {
      this.#running.delete(decisionId);
      settled.resolve();
    }
  }

  /**
   * Looks for the response to an earlier identical call that reached nobody. Waits while that call runs, at most for the hold of
   * `action`. Returns undefined if its client got the response, another caller was first, or the agent may no longer call the tool.
   */
  async recall(
    action: HeldAction,
    found: ApprovedCall,
    onWaiting: ((decisionId: string, seconds: number) => Promise<void>) | undefined,
  ): Promise<Recalled | undefined> {
    const { held, kept } = this.#options;
    const { caller, signal } = action;
    if (await held.isAlwaysBlocked(action)) return undefined;
    const { workspaceId, agentId } = caller;
    const startedAt = performance.now();
    let toldAt = Number.NEGATIVE_INFINITY;
    let call: ApprovedCall | undefined = found;
    while (call.status === "running") {
      const waited = performance.now() - startedAt;
      if (waited >= action.holdMs) return { kind: "running", call };
      if (waited - toldAt >= PROGRESS_MS) {
        toldAt = waited;
        await onWaiting?.(call.decisionId, Math.round(waited / 1000));
      }
      const pause = delay(Math.min(POLL_MS, action.holdMs - waited), undefined, { signal }).catch(() => undefined);
      await Promise.race([pause, this.#running.get(call.decisionId)?.settled ?? pause]);
      signal.throwIfAborted();
      call = await kept.find({ workspaceId, agentId, ...call });
      if (call === undefined) return undefined;
    }
    signal.throwIfAborted();
    const taken = await kept.take(caller, call);
    return taken && { kind: "taken", call, taken };
  }

  async #begin(key: CallKey, action: HeldAction): Promise<RunningCall> {
    const { held, kept, log } = this.#options;
    try {
      return await kept.begin(key, await held.digestOfCall(action));
    } catch (error) {
      const { reason, message } = controlPlaneErrorFrom(error);
      log.warn({ ...key, reason: message }, "approved mcp call not sent");
      if (reason !== ErrorReason.STORE_UNAVAILABLE) throw error;
      const text =
        "the approved call was not sent to its server, because the database did not answer; call again, which needs a new approval";
      throw new ControlPlaneError(reason, text, { decision_id: key.decisionId }, { cause: error });
    }
  }

  async #run(
    forwarding: Pick<Forwarding, "forward">,
    exchange: Exchange,
    client: AbortSignal,
    request: RpcRequest,
    call: OpenCall,
    running: RunningCall,
  ): Promise<boolean> {
    const { ends, kept } = this.#options;
    const { caller, session, ending, server } = exchange;
    const reply = new DetachableReply(exchange.reply, request.id);
    let timer: NodeJS.Timeout | undefined;
    let unwatch = (): void => undefined;
    const leave = (): void => {
      reply.detach();
      timer ??= setTimeout(() => ending.abort(cancelled("the time of the approval is over")), running.keptMs);
      timer.unref();
    };
    const onClientEnd = (): void => {
      if (client.reason instanceof ClientLeft) leave();
      else ending.abort(client.reason);
    };
    client.addEventListener("abort", onClientEnd);
    if (client.aborted) onClientEnd();
    call.ending = ending;
    call.onCancelled = (reason) => {
      const hasLeft = TIMED_OUT.test(reason);
      if (hasLeft) leave();
      else ending.abort(cancelled("the client cancelled the call"));
      return hasLeft;
    };
    const renewing = setInterval(() => void kept.renew(running), RENEW_MS);
    try {
      unwatch = await ends.watch(caller, (reason) => ending.abort(reason), session?.id);
      // The watch does not report an end before it began.
      const ended = await ends.endOf(caller);
      if (ended !== undefined) ending.abort(ended);
      const isAnswered = await forwarding.forward({ ...exchange, reply }, request, call);
      await this.#settle(running, reply, call, request);
      return isAnswered;
    } catch (error) {
      if (!call.isForwarded) {
        await kept.forget(running);
        throw error;
      }
      if (isEnded(ending.signal)) {
        await kept.loseTrack(running);
        throw error;
      }
      noteFault(this.#options.log, server, error);
      await reply.finish(errorFromFault(request.id, error));
      await this.#settle(running, reply, call, request);
      return true;
    } finally {
      clearInterval(renewing);
      clearTimeout(timer);
      client.removeEventListener("abort", onClientEnd);
      unwatch();
    }
  }

  /** Forgets a call whose client got the response, and keeps the response otherwise. */
  async #settle(running: RunningCall, reply: DetachableReply, call: OpenCall, { id }: RpcRequest): Promise<void> {
    const { kept } = this.#options;
    // An ended call is answered with the reason, which does not tell how far the server came.
    if (!call.isAnswered && isEnded(call.ending.signal)) return kept.loseTrack(running);
    const response = reply.response ?? (reply.isRefused ? refused(id) : undefined);
    if (response !== undefined) {
      if (await reply.delivered()) await kept.forget(running);
      else await kept.keep(running, answerOf(response));
    } else if (call.isAnswered) {
      // The response came on another stream of the session.
      await kept.forget(running);
    } else {
      call.onAnswered = () => void kept.forget(running);
      await kept.loseTrack(running);
    }
  }
}

const cancelled = (text: string): ControlPlaneError => new ControlPlaneError(ErrorReason.CANCELLED, text);

/** True if a call was ended for another reason than its server's silence. */
const isEnded = ({ aborted, reason }: AbortSignal): boolean =>
  aborted && controlPlaneErrorFrom(reason).reason !== ErrorReason.MCP_UPSTREAM_UNAVAILABLE;

const refused = (id: RpcRequest["id"]): RpcResponse =>
  createError(id, RPC_CODES.server, "the server refused the call with an HTTP error");

function answerOf({
  result,
  error,
}: RpcResponse): { result: JsonObject } | { error: NonNullable<RpcResponse["error"]> } {
  if (error !== undefined) return { error };
  return { result: result ?? {} };
}
