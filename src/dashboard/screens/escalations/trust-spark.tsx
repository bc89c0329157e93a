import { useQuery } from "@connectrpc/connect-query";
import { AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { SparkLine } from "../../kit/spark-line.tsx";

const POINTS = 30;
const STALE_MS = 30_000;

/** The agent's trust, with its last changes as a line. */
export function TrustSpark({ agentId, trust }: { readonly agentId: string; readonly trust: number }) {
  const query = useQuery(AgentService.method.getAgentHistory, { agentId, pageSize: POINTS }, { staleTime: STALE_MS });
  const values = (query.data?.trustHistory ?? []).map(({ trustLevel }) => trustLevel).reverse();
  return (
    <span className="trust">
      trust {trust.toFixed(1)}
      {values.length < 2 ? null : (
        <SparkLine values={values} range={[0, 100]} label={`trust over the last ${values.length} changes`} />
      )}
    </span>
  );
}
