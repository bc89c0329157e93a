import { useMemo } from "react";
import { Link, useSearchParams } from "wouter";
import {
  type Agent,
  AgentService,
  AgentStatus,
  type ListAgentsResponse,
} from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { countText } from "../../kit/count-text.ts";
import type { Column } from "../../kit/lists/column-list.tsx";
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
  const pages = usePages(AgentService.method.listAgents, request, agentsOf, { keepsPrevious: true });
  const nameOf = useDepartmentNames();
  const columns = useMemo(() => columnsOf(nameOf), [nameOf]);
  const isFiltered = q !== "" || department !== "" || status !== AgentStatus.UNSPECIFIED;
  return (
    <>
      <AgentFilters />
      <PagedList
        pages={pages}
        contents={`${q} ${department} ${status} ${orderBy}`}
        loading="the agents"
        empty={<NoAgents isFiltered={isFiltered} />}
        idOf={idOf}
        rowHeight={ROW_HEIGHT}
        label="Agents"
        columns={columns}
        className="agents"
        rowClassName="agents-row"
      >
        {(list) => (
          <div className="stack">
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

/** Makes the columns. `nameOf` names a department by its id. */
const columnsOf = (nameOf: (departmentId: string) => string): readonly Column<Agent>[] => [
  { title: "Name", cell: (agent) => <Name agent={agent} /> },
  { title: "Trust", cell: ({ trustLevel }) => <TrustBar trust={trustLevel} /> },
  { title: "Status", cell: ({ status }) => <StatusBadge status={status} /> },
  {
    title: "Departments",
    cell: ({ departmentIds }) =>
      departmentIds.length === 0 ? null : (
        <DepartmentNames
          names={departmentIds.slice(0, MAX_DEPARTMENTS).map(nameOf)}
          hidden={Math.max(0, departmentIds.length - MAX_DEPARTMENTS)}
        />
      ),
  },
  {
    title: "Last action",
    cell: ({ lastActionAt }) => (
      <span className="hint">
        <Time at={lastActionAt} />
      </span>
    ),
  },
];

function Name({ agent: { agentId, name, framework } }: { readonly agent: Agent }) {
  return (
    <div className="agents-name">
      <Link href={`/agents/${agentId}`} className="one-line">
        <Shown text={name} />
      </Link>
      <span className="hint one-line">
        <code>{agentId}</code> {framework === "" ? null : <Shown text={framework} />}
      </span>
    </div>
  );
}

interface DepartmentNamesProps {
  readonly names: readonly string[];
  /** Departments that are not named. */
  readonly hidden: number;
}

function DepartmentNames({ names, hidden }: DepartmentNamesProps) {
  return (
    <span className="agents-departments one-line">
      {names.map((name) => (
        <span key={name} className="word">
          <Shown text={name} />
        </span>
      ))}
      {hidden > 0 ? ` +${hidden}` : null}
    </span>
  );
}
