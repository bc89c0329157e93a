import { useQuery } from "@connectrpc/connect-query";
import { EnforcementService } from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { type Mandate, MandateMode } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Fault } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";

const REFRESH_MS = 10_000;

/** Shows how an observing mandate would have decided since its version was published. */
export function Observed({ mandate: { mandateId, mode, version, updatedAt } }: { readonly mandate: Mandate }) {
  const isObserving = mode === MandateMode.OBSERVE;
  const query = useQuery(
    EnforcementService.method.summarizeDecisions,
    updatedAt === undefined ? {} : { since: updatedAt },
    { enabled: isObserving, refetchInterval: REFRESH_MS },
  );
  if (!isObserving) return null;
  if (query.isError) return <Fault error={query.error} onRetry={() => void query.refetch()} />;
  const found = query.data?.observed.find((each) => each.mandateId === mandateId && each.version === version);
  const { totals, reasonsFrom = 0n } = query.data ?? {};
  const all = (totals?.allow ?? 0n) + (totals?.escalate ?? 0n) + (totals?.block ?? 0n);
  return (
    <p className="card observed" data-observed>
      This mandate observes: it decides nothing.{" "}
      {query.data === undefined ? null : (
        <>
          Since version {version} was published <Time at={updatedAt} /> it would have blocked{" "}
          {(found?.wouldBlock ?? 0n).toLocaleString("en")} and escalated{" "}
          {(found?.wouldEscalate ?? 0n).toLocaleString("en")} of{" "}
          {reasonsFrom < all ? `the newest ${reasonsFrom.toLocaleString("en")}` : reasonsFrom.toLocaleString("en")}{" "}
          decisions.
        </>
      )}
    </p>
  );
}
