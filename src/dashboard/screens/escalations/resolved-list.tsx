import { useEffect } from "react";
import { Link } from "wouter";
import {
  type Escalation,
  EscalationService,
  EscalationStatus,
  type ListEscalationsResponse,
} from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { usePages } from "../../kit/lists/use-pages.ts";
import { VirtualList } from "../../kit/lists/virtual-list.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty, Fault, Loading } from "../../kit/states.tsx";
import { Outcome } from "./outcome.tsx";

const ROW_HEIGHT = 96;
const PAGE_SIZE = 200;
const idOf = ({ escalationId }: Escalation): string => escalationId;
const resolvedOf = ({ escalations }: ListEscalationsResponse): readonly Escalation[] =>
  escalations.filter(({ status }) => status !== EscalationStatus.PENDING);

/** Escalations that were answered, newest first. */
export function ResolvedList({ agentId }: { readonly agentId: string }) {
  const { items, isPending, error, readMore, readAgain } = usePages(
    EscalationService.method.listEscalations,
    { pageSize: PAGE_SIZE, agentId },
    resolvedOf,
  );
  // Pages of nothing but pending ones are passed over.
  const isAtStart = items.length === 0 && readMore !== undefined;
  useEffect(() => {
    if (isAtStart) readMore?.();
  }, [isAtStart, readMore]);
  if (isPending || isAtStart) return <Loading what="the escalations" />;
  if (error !== null) return <Fault error={error} onRetry={readAgain} />;
  if (items.length === 0) return <Empty title="Nothing was answered yet" />;
  return (
    <VirtualList items={items} idOf={idOf} rowHeight={ROW_HEIGHT} label="Answered escalations" onEnd={readMore}>
      {(escalation) => <ResolvedRow escalation={escalation} />}
    </VirtualList>
  );
}

/** One answered escalation: what it was, and what became of it. */
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
