import type { JsonObject } from "@bufbuild/protobuf";
import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import { EscalationService, EscalationStatus } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { textAt } from "../../../verify/json.ts";
import { laterOf } from "../../live/escalation-feed.ts";
import { useEscalations } from "../../live/use-escalations.tsx";
import { ApprovalNeeds } from "../escalations/approval-needs.tsx";
import { hasApprovers } from "../escalations/approval-words.ts";
import { OutcomeLine } from "../escalations/outcome.tsx";
import "../../styles/escalation-card.css";

/** Approvals that rules with approvers asked for, of the escalation that a decision made or used up. Nothing where one person was enough. */
export function ApprovalCard({ body }: { readonly body: JsonObject }) {
  const escalationId = textAt(body, "used_escalation_id") || textAt(body, "escalation_id");
  const { pending, resolved } = useEscalations();
  const live = [...pending, ...resolved].find((each) => each.escalationId === escalationId);
  const { data } = useQuery(EscalationService.method.getEscalation, { escalationId }, { enabled: escalationId !== "" });
  const escalation = laterOf(data?.escalation, live);
  if (escalation === undefined || !hasApprovers(escalation)) return null;
  return (
    <section className="card stack is-tight" aria-labelledby="approval-title" data-part="approval">
      <div className="row is-apart">
        <h2 id="approval-title">Approval</h2>
        <Link href={`/escalations/${escalationId}`}>The escalation</Link>
      </div>
      <ApprovalNeeds escalation={escalation} />
      {escalation.status === EscalationStatus.PENDING ? null : (
        <p className="row">
          <OutcomeLine escalation={escalation} />
        </p>
      )}
    </section>
  );
}
