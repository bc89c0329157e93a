import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import { AgentService } from "../../../gen/agentcontrol/v1/agent_service_pb.js";
import { Shown } from "./shown.tsx";

const STALE_MS = 300_000;

/** Shows an agent as a link under its name, which is read when it is first shown. Shows its id until then. */
export function AgentName({ agentId }: { readonly agentId: string }) {
  const { data } = useQuery(AgentService.method.getAgent, { agentId }, { staleTime: STALE_MS });
  return (
    <Link href={`/agents/${agentId}`} title={agentId}>
      {data?.agent === undefined ? <code>{agentId}</code> : <Shown text={data.agent.name} />}
    </Link>
  );
}
