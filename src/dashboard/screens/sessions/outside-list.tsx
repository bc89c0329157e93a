import {
  EnforcementService,
  type ListDecisionsResponse,
} from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { DecisionPath, type DecisionRecord } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { useNarrow } from "../../kit/lists/use-narrow.ts";
import { usePages } from "../../kit/lists/use-pages.ts";
import { DecisionRow } from "../decisions/decision-row.tsx";
import "../../styles/decisions.css";

/** Decisions per page: those inside the plan are read, and not shown. */
const PAGE_SIZE = 200;
/** Height of a row, pixels, on wide pages and on narrow ones. */
const [ROW_HEIGHT, NARROW_ROW_HEIGHT] = [44, 84];

const isOutside = ({ decisionPath, outsideContract }: DecisionRecord): boolean =>
  outsideContract || decisionPath === DecisionPath.INTENT_CONTRACT;
const outsideOf = ({ decisions }: ListDecisionsResponse): readonly DecisionRecord[] => decisions.filter(isOutside);
const idOf = ({ decisionId }: DecisionRecord): string => decisionId;

/** Actions of a session outside the intent contracts that cover them, newest first, whatever was decided on each. */
export function OutsideList({ sessionId }: { readonly sessionId: string }) {
  const request = { sessionId, pageSize: PAGE_SIZE };
  const pages = usePages(EnforcementService.method.listDecisions, request, outsideOf);
  const rowHeight = useNarrow() ? NARROW_ROW_HEIGHT : ROW_HEIGHT;
  return (
    <section className="stack" aria-label="Outside the plan">
      <h2>Outside the plan</h2>
      <PagedList
        key={rowHeight}
        pages={pages}
        loading="the decisions"
        empty={<p className="hint">No action of the session was outside an intent contract.</p>}
        idOf={idOf}
        rowHeight={rowHeight}
        isEven
        label="Decisions outside the plan, newest first"
        row={(record) => <DecisionRow record={record} />}
      />
    </section>
  );
}
