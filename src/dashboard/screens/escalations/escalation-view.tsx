import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import { type Escalation, EscalationService } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { ScreenFrame, type ScreenPlace } from "../../kit/screen.tsx";
import { shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { laterOf } from "../../live/escalation-feed.ts";
import { useEscalations } from "../../live/use-escalations.tsx";
import { EscalationCard } from "./card.tsx";
import { COMPARISONS } from "./queue-view.ts";

const QUEUE: ScreenPlace = { title: "Escalations", href: "/escalations" };
const MAX_NAME = 60;

/** One escalation with its context, and the way to the next one. */
export function EscalationView({ escalationId }: { readonly escalationId: string }) {
  const { pending, resolved } = useEscalations();
  const live = [...pending, ...resolved].find((each) => each.escalationId === escalationId);
  const query = useQuery(EscalationService.method.getEscalation, { escalationId }, { enabled: live === undefined });
  const escalation = laterOf(query.data?.escalation, live);
  return (
    <ScreenFrame
      name="escalations"
      title={escalation === undefined ? "Escalation" : shownText(escalation.actionType, MAX_NAME)}
      within={QUEUE}
      isFull
      actions={<Next others={pending.filter((each) => each.escalationId !== escalationId)} />}
    >
      <p className="escalation-place">
        <Link href={`/decisions/${escalation?.decisionId ?? ""}`}>The decision</Link> · <code>{escalationId}</code>
      </p>
      {escalation === undefined && query.isPending ? <Loading what="the escalation" /> : null}
      {escalation === undefined && query.isError ? (
        <Fault error={query.error} onRetry={() => void query.refetch()} />
      ) : null}
      {escalation === undefined ? null : (
        <div className="queue-card" data-id={escalation.escalationId}>
          <EscalationCard escalation={escalation} isWhole />
        </div>
      )}
    </ScreenFrame>
  );
}

/** Leads to the most urgent of the other pending escalations. */
function Next({ others }: { readonly others: readonly Escalation[] }) {
  const [first, ...more] = others;
  if (first === undefined) return <span className="hint">No other waits</span>;
  const next = more.reduce((most, each) => (COMPARISONS.time(each, most) < 0 ? each : most), first);
  return (
    <Link href={`/escalations/${next.escalationId}`} className="button is-plain" data-action="next">
      Next ({others.length.toLocaleString("en")} {others.length === 1 ? "waits" : "wait"})
    </Link>
  );
}
