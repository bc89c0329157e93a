import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { interceptOver, type RestDecision } from "../log/rest.ts";
import type { TestServer } from "../support/server.ts";

/** Milliseconds before a call without a decision is made again, with the same `request_id`. */
const RETRY_MS = 100;

/** A decision that its caller received. */
export interface Acknowledged {
  readonly reply: RestDecision;
  /** Milliseconds of `performance.now` at which it was received. */
  readonly at: number;
}

/** Callers of several replicas, each with one call at a time that is repeated until it is decided. */
export interface RetryingCallers {
  readonly acknowledged: readonly Acknowledged[];
  /** Numbers of calls without a decision by reason. */
  readonly refusals: ReadonlyMap<string, number>;
  /** Resolves once every call in flight is decided. */
  stop(): Promise<void>;
}

/** An agent, and the key that acts for it. */
export interface Actor {
  readonly agentId: string;
  /** Default: the key of the server's administrator. */
  readonly apiKey?: string;
}

/** Starts callers that act for the agents in turn, at the servers in turn: at those that are in the list at the time of a call. */
export function startRetryingCallers(
  servers: readonly TestServer[],
  actors: readonly Actor[],
  count: number,
  actionType: string,
): RetryingCallers {
  const acknowledged: Acknowledged[] = [];
  const refusals = new Map<string, number>();
  let isOver = false;
  const call = async (caller: number): Promise<void> => {
    const { agentId, apiKey } = actors[caller % actors.length] as Actor;
    const action = { agent_id: agentId, action_type: actionType, request_id: randomUUID() };
    for (let attempt = caller; ; attempt++) {
      const server = servers[attempt % servers.length] as TestServer;
      const outcome = await interceptOver(apiKey === undefined ? server : { ...server, adminKey: apiKey }, action);
      if (outcome.kind === "decided") {
        acknowledged.push({ reply: outcome.reply, at: performance.now() });
        return;
      }
      const reason = outcome.kind === "refused" ? outcome.reason : outcome.kind;
      refusals.set(reason, (refusals.get(reason) ?? 0) + 1);
      await delay(RETRY_MS);
    }
  };
  const lanes = Array.from({ length: count }, async (_, caller) => {
    while (!isOver) await call(caller);
  });
  return {
    acknowledged,
    refusals,
    async stop() {
      isOver = true;
      await Promise.all(lanes);
    },
  };
}
