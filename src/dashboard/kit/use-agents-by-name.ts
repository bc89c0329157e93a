import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { useDeferredValue } from "react";
import { AgentOrder, AgentService, type AgentStatus } from "../../../gen/agentcontrol/v1/agent_service_pb.js";

const SHOWN = 50;
/** Characters of a name that the service searches by. */
const MAX_NAME = 200;

const folded = (name: string): string => name.normalize("NFKC").trim().toLowerCase();

/** Reads the first agents, by name, whose names begin with what is typed. Without a status, agents of every one. */
export function useAgentsByName(typed: string, status?: AgentStatus) {
  const q = useDeferredValue(typed.trim().slice(0, MAX_NAME));
  const query = useQuery(
    AgentService.method.listAgents,
    { q, orderBy: AgentOrder.NAME, pageSize: SHOWN, ...(status !== undefined && { status }) },
    { placeholderData: keepPreviousData },
  );
  const found = query.data?.agents ?? [];
  // Until the answer is there, the agents of the one before it that still fit.
  const isBefore = query.isPlaceholderData || q !== typed.trim();
  const wanted = folded(typed);
  return {
    agents: isBefore ? found.filter(({ name }) => folded(name).startsWith(wanted)) : found,
    hasMore: query.data?.nextPageToken !== undefined,
    isSuccess: query.isSuccess && !isBefore,
  };
}
