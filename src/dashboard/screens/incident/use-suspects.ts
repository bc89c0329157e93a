import { createQueryOptions, useQuery, useTransport } from "@connectrpc/connect-query";
import { useQueries } from "@tanstack/react-query";
import { type Agent, AgentOrder, AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";

/** Maximum number of agents of one incident: each is read and revoked by itself. */
export const MAX_SUSPECTS = 50;

/** Agents of an incident. */
export interface Suspects {
  readonly agents: readonly Agent[];
  readonly error: Error | null;
  readonly isPending: boolean;
  /** True if the department has more agents than are shown. */
  readonly hasMore: boolean;
}

/** Reads the agents of an incident: those that the address names, and the members of the department that it names. */
export function useSuspects(agentIds: readonly string[], departmentId: string): Suspects {
  const transport = useTransport();
  const named = useQueries({
    queries: agentIds.map((agentId) => createQueryOptions(AgentService.method.getAgent, { agentId }, { transport })),
  });
  const request = { departmentId, orderBy: AgentOrder.NAME, pageSize: MAX_SUSPECTS };
  const hasDepartment = departmentId !== "";
  const members = useQuery(AgentService.method.listAgents, request, { enabled: hasDepartment });
  const found = [...named.flatMap(({ data }) => data?.agent ?? []), ...(members.data?.agents ?? [])];
  const agents = [...new Map(found.map((agent) => [agent.agentId, agent])).values()];
  return {
    agents: agents.slice(0, MAX_SUSPECTS),
    error: named.map(({ error }) => error).find((error) => error !== null) ?? members.error,
    isPending: named.some(({ isPending }) => isPending) || (hasDepartment && members.isPending),
    hasMore: agents.length > MAX_SUSPECTS || members.data?.nextPageToken !== undefined,
  };
}
