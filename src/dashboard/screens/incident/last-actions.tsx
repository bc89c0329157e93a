import { timestampMs } from "@bufbuild/protobuf/wkt";
import { createQueryOptions, useTransport } from "@connectrpc/connect-query";
import { useQueries } from "@tanstack/react-query";
import type { Agent } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { EnforcementService } from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { DecisionRecord } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Empty, Fault, Loading } from "../../kit/states.tsx";
import { DecisionRow } from "../decisions/decision-row.tsx";
import "../../styles/decisions.css";

/** Actions read of each agent, and shown of all. */
const READ = 20;
const SHOWN = 50;
const REFRESH_MS = 5_000;

const timeOf = ({ decidedAt }: DecisionRecord): number => (decidedAt === undefined ? 0 : timestampMs(decidedAt));

/** The last actions of some agents together, newest first. */
export function LastActions({ agents }: { readonly agents: readonly Agent[] }) {
  const transport = useTransport();
  const method = EnforcementService.method.listDecisions;
  const lists = useQueries({
    queries: agents.map(({ agentId }) => ({
      ...createQueryOptions(method, { agentId, pageSize: READ }, { transport }),
      refetchInterval: REFRESH_MS,
    })),
  });
  const error = lists.map(({ error: fault }) => fault).find((fault) => fault !== null);
  if (error !== undefined && error !== null) {
    return <Fault error={error} onRetry={() => lists.forEach((list) => void list.refetch())} />;
  }
  if (lists.some(({ isPending }) => isPending)) return <Loading what="the last actions" />;
  const records = lists
    .flatMap(({ data }) => data?.decisions ?? [])
    .sort((a, b) => timeOf(b) - timeOf(a))
    .slice(0, SHOWN);
  if (records.length === 0) return <Empty title="They have not acted yet">Every action is shown here.</Empty>;
  return (
    <ul className="incident-actions" aria-label="Last actions">
      {records.map((record) => (
        <li key={record.decisionId} data-id={record.decisionId}>
          <DecisionRow record={record} />
        </li>
      ))}
    </ul>
  );
}
