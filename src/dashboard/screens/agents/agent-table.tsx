import { memo, useMemo } from "react";
import { Link, useSearchParams } from "wouter";
import {
  type Agent,
  AgentOrder,
  AgentService,
  AgentStatus,
  type ListAgentsResponse,
} from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { countText } from "../../kit/count-text.ts";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { AgentFilters, orderOf, statusOf } from "./agent-filters.tsx";
import { StatusBadge, TrustBar } from "./agent-marks.tsx";
import { useDepartmentNames } from "./use-departments.ts";

const PAGE_SIZE = 200;
const ROW_HEIGHT = 61;

const agentsOf = ({ agents }: ListAgentsResponse): readonly Agent[] => agents;
const idOf = ({ agentId }: Agent): string => agentId;

/** Agents that match the filters in the address. */
export function AgentTable() {
  const [parameters] = useSearchParams();
  const q = parameters.get("q") ?? "";
  const department = parameters.get("department") ?? "";
  const status = statusOf(parameters);
  const orderBy = orderOf(parameters);
  const request = useMemo(
    () => ({ q, status, orderBy, departmentId: department, pageSize: PAGE_SIZE }),
    [q, status, orderBy, department],
  );
  const pages = usePages(AgentService.method.listAgents, request, agentsOf);
  const nameOf = useDepartmentNames();
  const isFiltered = q !== "" || department !== "" || status !== AgentStatus.UNSPECIFIED;
  return (
    <>
      <AgentFilters />
      <PagedList
        key={`${q} ${department} ${status} ${orderBy ?? AgentOrder.NEWEST}`}
        pages={pages}
        loading="the agents"
        empty={<NoAgents isFiltered={isFiltered} />}
        idOf={idOf}
        rowHeight={ROW_HEIGHT}
        label="Agents"
        row={(agent) => <AgentRow agent={agent} nameOf={nameOf} />}
      >
        {(list) => (
          <div className="agents">
            <p className="agents-head" aria-hidden>
              <span>Name</span>
              <span>Trust</span>
              <span>Status</span>
              <span>Departments</span>
              <span>Last action</span>
            </p>
            {list}
            <p className="hint" role="status">
              {countText(pages.items.length, "agent")}
              {pages.readMore === undefined ? "" : " so far; scroll for more"}
            </p>
          </div>
        )}
      </PagedList>
    </>
  );
}

function NoAgents({ isFiltered }: { readonly isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No agent matches">Change the filters, or clear them.</Empty>;
  return <Empty title="No agents yet">Register one, and give its id to the program that acts for it.</Empty>;
}

const MAX_DEPARTMENTS = 3;

interface AgentRowProps {
  readonly agent: Agent;
  readonly nameOf: (departmentId: string) => string;
}

/** One agent. It renders again only when it changes, not while the list scrolls. */
const AgentRow = memo(({ agent, nameOf }: AgentRowProps) => {
  const departments = agent.departmentIds.slice(0, MAX_DEPARTMENTS).map(nameOf);
  const hidden = agent.departmentIds.length - departments.length;
  const { agentId, name, framework, trustLevel, status, lastActionAt } = agent;
  return (
    <div className="agents-row">
      <div className="agents-name">
        <Link href={`/agents/${agentId}`} className="one-line">
          <Shown text={name} />
        </Link>
        <span className="hint one-line">
          <code>{agentId}</code> {framework === "" ? null : <Shown text={framework} />}
        </span>
      </div>
      <TrustBar trust={trustLevel} />
      <span>
        <StatusBadge status={status} />
      </span>
      <span className="agents-departments one-line">
        {departments.map((department) => (
          <span key={department} className="word">
            <Shown text={department} />
          </span>
        ))}
        {hidden > 0 ? ` +${hidden}` : null}
      </span>
      <span className="hint">
        <span className="visually-hidden">last action </span>
        <Time at={lastActionAt} />
      </span>
    </div>
  );
});
