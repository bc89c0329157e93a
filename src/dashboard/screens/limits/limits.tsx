import { useEffect } from "react";
import { useSearchParams } from "wouter";
import {
  type Limit,
  LimitOrder,
  type ListLimitsResponse,
  MandateService,
} from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { AddressChoice, useAddressFilter } from "../../kit/address-filter.tsx";
import { AgentSearch } from "../../kit/agent-search.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { useHeldOrder } from "../../kit/lists/use-held-order.ts";
import { usePages } from "../../kit/lists/use-pages.ts";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Empty } from "../../kit/states.tsx";
import "../../styles/limits.css";
import { LimitFill, LimitGroups, LimitMandate, LimitOutcome, LimitSentence } from "./limit-cells.tsx";

/** Milliseconds between two reads of the counts. */
const REFRESH_MS = 5_000;
const ROW_HEIGHT = 112;
const PAGE_SIZE = 100;

const COLUMNS: readonly Column<Limit>[] = [
  { title: "Limit", cell: (limit) => <LimitSentence limit={limit} /> },
  { title: "Filled", cell: (limit) => <LimitFill limit={limit} /> },
  { title: "Decides", cell: (limit) => <LimitOutcome limit={limit} /> },
  { title: "Mandate", cell: (limit) => <LimitMandate limit={limit} /> },
  { title: "Counted now", cell: (limit) => <LimitGroups limit={limit} /> },
];
const ORDERS = [
  { word: "", title: "Fullest first" },
  { word: "rule", title: "By mandate, newest first" },
];

const limitsOf = ({ limits }: ListLimitsResponse): readonly Limit[] => limits;
const idOf = ({ mandateId, rule }: Limit): string => `${mandateId} ${rule}`;

/** Limits in force with their current counts, the fullest first. */
export function Limits() {
  const [parameters] = useSearchParams();
  const setFilter = useAddressFilter();
  const agentId = parameters.get("agent") ?? "";
  const orderBy = parameters.get("order") === "rule" ? LimitOrder.RULE : LimitOrder.FILL;
  return (
    <ScreenFrame name="limits" title="Limits">
      <search className="filters">
        <AgentSearch name="agent" value={agentId} onChange={(id) => setFilter("agent", id)} />
        <AddressChoice name="order" label="Order" options={ORDERS} />
      </search>
      <LimitList key={`${agentId} ${orderBy}`} agentId={agentId} orderBy={orderBy} />
    </ScreenFrame>
  );
}

interface LimitListProps {
  readonly agentId: string;
  readonly orderBy: LimitOrder;
}

/** A list that is read again and again. Its rows keep their places while the mouse or the keyboard is on it. */
function LimitList({ agentId, orderBy }: LimitListProps) {
  const request = { pageSize: PAGE_SIZE, agentId, orderBy, withHistory: true };
  const pages = usePages(MandateService.method.listLimits, request, limitsOf);
  // biome-ignore lint/correctness/useExhaustiveDependencies: one timer for the life of the list
  useEffect(() => {
    const timer = setInterval(pages.readAgain, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  // A rule whose fill crosses the end of a page between two reads may come on both.
  const { items, handlers } = useHeldOrder(pages.items, idOf);
  return (
    <div {...handlers}>
      <PagedList
        pages={{ ...pages, items }}
        loading="the limits"
        empty={
          <Empty title="There are no limits">
            {agentId === "" ? (
              <>
                A mandate with a rule of the type <code>sequence</code> counts actions.
              </>
            ) : (
              "No mandate with a limit covers this agent."
            )}
          </Empty>
        }
        idOf={idOf}
        rowHeight={ROW_HEIGHT}
        label="Limits"
        columns={COLUMNS}
        className="limits"
        rowClassName="limit"
      />
    </div>
  );
}
