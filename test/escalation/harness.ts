import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { createEscalationFeed } from "../../src/escalation/feed.ts";
import type { WatchContext } from "../../src/escalation/watch.ts";
import { actionRule, openStage, type Party, type Stage } from "../log/harness.ts";

/** A stage on which the action type `ask` escalates, with streams on each replica. */
export interface EscalationStage extends Stage {
  readonly agentId: string;
  /** Escalates a new action; gives the escalation's id. */
  escalate(party?: Party, actionContent?: string): Promise<string>;
  /** What a stream of a replica works with; it ends when the signal aborts. */
  watchOn(party: Party, signal: AbortSignal, heartbeatMs?: number): WatchContext;
}

/** Opens the stage with some replicas. */
export async function openEscalationStage(replicas: number): Promise<EscalationStage> {
  const stage = await openStage(replicas);
  const agentId = await stage.agent();
  await stage.mandate([actionRule(Decision.ESCALATE, "ask")]);
  const feeds = new Map(stage.parties.map((party) => [party, createEscalationFeed(party.log, party.database.pool)]));
  return {
    ...stage,
    agentId,
    async escalate(party = stage.party, actionContent = "") {
      return (await stage.intercept({ agentId, actionType: "ask", actionContent }, party)).escalationId ?? "";
    },
    watchOn(party, signal, heartbeatMs = 1_000) {
      const feed = feeds.get(party);
      if (feed === undefined) throw new Error("the replica is not of this stage");
      return { log: party.log, pool: party.database.pool, feed, heartbeatMs, signal };
    },
  };
}
