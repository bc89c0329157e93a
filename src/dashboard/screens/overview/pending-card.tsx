import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import { EscalationService, EscalationStatus } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Time } from "../../kit/time.tsx";

const PAGE = 500;
const REFRESH_MS = 5_000;

/** What waits for a person, and since when. */
export function PendingCard() {
  const query = useQuery(
    EscalationService.method.listEscalations,
    { status: EscalationStatus.PENDING, pageSize: PAGE },
    { refetchInterval: REFRESH_MS },
  );
  const pending = query.data?.escalations ?? [];
  const oldest = pending.at(-1);
  const isMore = query.data?.nextPageToken !== undefined;
  return (
    <section className="card stack" aria-label="Waiting for a person">
      <h2>Waiting for a person</h2>
      <p className="big">{query.data === undefined ? "…" : `${pending.length}${isMore ? " or more" : ""}`}</p>
      <p className="hint">
        {oldest === undefined ? (
          "Nothing waits."
        ) : isMore ? (
          "The newest 500 are counted."
        ) : (
          <>
            The oldest was asked <Time at={oldest.createdAt} />.
          </>
        )}
      </p>
      {oldest === undefined ? null : <Link href="/escalations">Look at them</Link>}
    </section>
  );
}
