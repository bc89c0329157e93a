import { Link } from "wouter";
import {
  type Escalation,
  EscalationService,
  EscalationStatus,
  type ListEscalationsResponse,
} from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { Outcome } from "./outcome.tsx";

const ROW_HEIGHT = 96;
const PAGE_SIZE = 200;
const idOf = ({ escalationId }: Escalation): string => escalationId;
const resolvedOf = ({ escalations }: ListEscalationsResponse): readonly Escalation[] =>
  escalations.filter(({ status }) => status !== EscalationStatus.PENDING);

/** Resolved escalations, newest first. */
export function ResolvedList({ agentId }: { readonly agentId: string }) {
  return (
    <PagedList
      pages={usePages(EscalationService.method.listEscalations, { pageSize: PAGE_SIZE, agentId }, resolvedOf)}
      loading="the escalations"
      empty={<Empty title="Nothing was answered yet" />}
      idOf={idOf}
      rowHeight={ROW_HEIGHT}
      label="Answered escalations"
      row={(escalation) => <ResolvedRow escalation={escalation} />}
    />
  );
}

/** One resolved escalation with its outcome. */
export function ResolvedRow({ escalation }: { readonly escalation: Escalation }) {
  const { escalationId, actionType, agentId, agentName } = escalation;
  return (
    <div className="resolved">
      <span>
        <Link href={`/escalations/${escalationId}`}>
          <Shown text={actionType} />
        </Link>{" "}
        by{" "}
        <Link href={`/agents/${agentId}`}>
          <Shown text={agentName} />
        </Link>
      </span>
      <Outcome escalation={escalation} />
    </div>
  );
}
