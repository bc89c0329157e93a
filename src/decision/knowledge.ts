import type { SessionKnowledge } from "../provenance/sources.ts";
import type { Attempt } from "./verdict.ts";

/** Returns what the session of an action observed, or a dry run supposes it to know; undefined for an action without a session of its agent, and for one that observed nothing. */
export function knowledgeOf({ state, action }: Pick<Attempt, "state" | "action">): SessionKnowledge | undefined {
  const { sessionId, agentId, knowledge } = action;
  if (knowledge !== undefined) return knowledge;
  if (sessionId === undefined) return undefined;
  const session = state.authority.get(sessionId)?.sealed;
  if (session?.kind !== "session" || session.agent_id !== agentId) return undefined;
  return state.sessions.get(sessionId);
}
