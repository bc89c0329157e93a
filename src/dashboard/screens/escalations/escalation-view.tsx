import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import { EscalationService } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { useEscalations } from "../../live/use-escalations.tsx";
import { EscalationCard } from "./card.tsx";

/** One escalation with its context. */
export function EscalationView({ escalationId }: { readonly escalationId: string }) {
  const { pending, resolved } = useEscalations();
  const live = [...pending, ...resolved].find((each) => each.escalationId === escalationId);
  const query = useQuery(EscalationService.method.getEscalation, { escalationId }, { enabled: live === undefined });
  const escalation = live ?? query.data?.escalation;
  return (
    <ScreenFrame name="escalations" title="Escalation">
      <p>
        <Link href="/escalations">All escalations</Link> ·{" "}
        <Link href={`/decisions/${escalation?.decisionId ?? ""}`}>the decision</Link> · <code>{escalationId}</code>
      </p>
      {escalation === undefined && query.isPending ? <Loading what="the escalation" /> : null}
      {escalation === undefined && query.isError ? (
        <Fault error={query.error} onRetry={() => void query.refetch()} />
      ) : null}
      {escalation === undefined ? null : (
        <div className="card" data-id={escalation.escalationId}>
          <EscalationCard escalation={escalation} isWhole />
        </div>
      )}
    </ScreenFrame>
  );
}
