import { useQuery } from "@connectrpc/connect-query";
import { EnforcementService } from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { type Mandate, MandateMode } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";

/** What a mandate that only observes would have done in the last day. */
export function Observed({ mandate: { mandateId, mode, version } }: { readonly mandate: Mandate }) {
  const query = useQuery(EnforcementService.method.summarizeDecisions, {}, { enabled: mode === MandateMode.OBSERVE });
  if (mode !== MandateMode.OBSERVE) return null;
  const found = query.data?.observed.find((each) => each.mandateId === mandateId && each.version === version);
  return (
    <p className="card observed" data-observed>
      This mandate observes: it decides nothing.{" "}
      {query.data === undefined
        ? ""
        : `In the last day version ${version} would have blocked ${found?.wouldBlock ?? 0n} and escalated ${found?.wouldEscalate ?? 0n} of ${query.data.reasonsFrom} decisions.`}
    </p>
  );
}
