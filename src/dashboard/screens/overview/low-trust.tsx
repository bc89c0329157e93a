import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import { AgentOrder, AgentService, AgentStatus } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { Shown } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";

const COUNT = 5;
const REFRESH_MS = 10_000;

/** Active agents with the lowest trust. Its place is there before they are read. */
export function LowTrust() {
  const query = useQuery(
    AgentService.method.listAgents,
    { status: AgentStatus.ACTIVE, orderBy: AgentOrder.LOWEST_TRUST, pageSize: COUNT },
    { refetchInterval: REFRESH_MS },
  );
  const agents = query.data?.agents ?? [];
  return (
    <section className="card stack" aria-label="Lowest trust">
      <h2>Lowest trust</h2>
      {query.isPending ? <Loading what="the agents" lines={COUNT} /> : null}
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      {query.isSuccess && agents.length === 0 ? <p className="hint">No agent is active.</p> : null}
      <ul className="low-trust">
        {agents.map(({ agentId, name, trustLevel }) => (
          <li key={agentId} data-id={agentId}>
            <Link href={`/agents/${agentId}`}>
              <Shown text={name} />
            </Link>
            <span className="number">{trustLevel.toFixed(1)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
