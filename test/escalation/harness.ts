import { randomUUID } from "node:crypto";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { EscalationFeed } from "../../src/escalation/feed.ts";
import type { WatchContext } from "../../src/escalation/watch.ts";
import {
  actionRule,
  openWorkspace,
  type Replica,
  type TestWorkspace,
  type WorkspaceOptions,
} from "../support/harness.ts";

/** A workspace in which the action type `ask` escalates, with streams on each replica. */
export interface EscalationWorkspace extends TestWorkspace {
  readonly agentId: string;
  /** Escalates a new action; gives the escalation's id. */
  escalate(replica?: Replica, actionContent?: string): Promise<string>;
  /** Gives the context of a replica's stream, which ends when the signal aborts. */
  watchOn(replica: Replica, signal: AbortSignal, heartbeatMs?: number): WatchContext;
}

/** Opens the workspace with some replicas. */
export async function openEscalationWorkspace(
  replicas: number,
  options: Pick<WorkspaceOptions, "deadlineMs"> = {},
): Promise<EscalationWorkspace> {
  const workspace = await openWorkspace({ ...options, replicas });
  const agentId = await workspace.agent();
  await workspace.mandate([actionRule(Decision.ESCALATE, "ask")]);
  const { workspaceId } = workspace;
  await workspace.admin.updateWorkspace({ workspaceId, maxPendingEscalationsPerAgent: 1_000 });
  const feeds = new Map(workspace.replicas.map(({ log, database }) => [log, new EscalationFeed(log, database.pool)]));
  return {
    ...workspace,
    agentId,
    async escalate(replica = workspace, actionContent = randomUUID()) {
      return (await workspace.intercept({ agentId, actionType: "ask", actionContent }, replica)).escalationId ?? "";
    },
    watchOn({ log, database }, signal, heartbeatMs = 1_000) {
      const feed = feeds.get(log);
      if (feed === undefined) throw new Error("the replica is not of this workspace");
      return { log, pool: database.pool, feed, heartbeatMs, signal };
    },
  };
}
