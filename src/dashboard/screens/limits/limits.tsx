import { useEffect } from "react";
import { useSearchParams } from "wouter";
import {
  type Limit,
  type ListLimitsResponse,
  MandateService,
} from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Field } from "../../kit/field.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Empty } from "../../kit/states.tsx";
import "../../styles/limits.css";
import { LimitGroups, LimitMandate, LimitOutcome, LimitSentence } from "./limit-cells.tsx";

/** Milliseconds between two reads of the counts. */
const REFRESH_MS = 5_000;
const ROW_HEIGHT = 80;
const PAGE_SIZE = 100;

const COLUMNS: readonly Column<Limit>[] = [
  { title: "Limit", cell: (limit) => <LimitSentence limit={limit} /> },
  { title: "Decides", cell: (limit) => <LimitOutcome limit={limit} /> },
  { title: "Mandate", cell: (limit) => <LimitMandate limit={limit} /> },
  { title: "Counted now", cell: (limit) => <LimitGroups limit={limit} /> },
];

const limitsOf = ({ limits }: ListLimitsResponse): readonly Limit[] => limits;
const idOf = ({ mandateId, rule }: Limit): string => `${mandateId} ${rule}`;

/** Limits in force, with their current counts. */
export function Limits() {
  const [parameters, setParameters] = useSearchParams();
  const agentId = parameters.get("agent") ?? "";
  const pages = usePages(MandateService.method.listLimits, { pageSize: PAGE_SIZE, agentId }, limitsOf);
  // biome-ignore lint/correctness/useExhaustiveDependencies: one timer for the life of the screen
  useEffect(() => {
    const timer = setInterval(pages.readAgain, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <ScreenFrame name="limits" title="Limits">
      <div className="filters">
        <Field label="Agent" hint="An agent's id; empty shows all.">
          {(control) => (
            <input
              {...control}
              name="agent"
              defaultValue={agentId}
              onChange={({ target }) =>
                setParameters(target.value === "" ? {} : { agent: target.value }, { replace: true })
              }
            />
          )}
        </Field>
      </div>
      <PagedList
        pages={pages}
        loading="the limits"
        empty={
          <Empty title="There are no limits">
            A mandate with a rule of the type <code>sequence</code> counts actions.
          </Empty>
        }
        idOf={idOf}
        rowHeight={ROW_HEIGHT}
        label="Limits"
        columns={COLUMNS}
        className="limits"
        rowClassName="limit"
      />
    </ScreenFrame>
  );
}
