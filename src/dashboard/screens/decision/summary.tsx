import type { JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { EscalationService } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { approvedBy } from "../../../explain/approvals.ts";
import { reasonsIn, receiptSentences, type SealedReason } from "../../../explain/receipt.ts";
import { textAt } from "../../../verify/json.ts";
import { Shown } from "../../kit/shown.tsx";
import { ExactTime } from "../../kit/time.tsx";
import { WordBadge } from "./judged.tsx";
import { Reasons } from "./reasons.tsx";
import { SentenceView } from "./sentence-view.tsx";

/** Summary of a decision: when, what, why, and what would have passed. */
export function Summary({ decisionId, body }: { readonly decisionId: string; readonly body: JsonObject }) {
  const reasons = reasonsIn(body);
  const [word, at] = [textAt(body, "decision"), Date.parse(textAt(body, "at"))];
  return (
    <section className="card stack" aria-labelledby="summary-title" data-decision={word}>
      <div className="row is-apart">
        {Number.isNaN(at) ? null : (
          <p className="decided-at" data-part="time">
            <ExactTime at={timestampFromMs(at)} />
          </p>
        )}
        <WordBadge word={word} />
      </div>
      <h2 id="summary-title" className="decision-id">
        <code>{decisionId}</code>
      </h2>
      <div className="explanation stack is-tight" data-part="what">
        {receiptSentences(body).map((sentence, index) => (
          <SentenceView key={index} sentence={sentence} />
        ))}
        <Approvals escalationId={textAt(body, "used_escalation_id") || textAt(body, "escalation_id")} />
      </div>
      {reasons.length === 0 ? null : (
        <div className="stack is-tight" data-part="why">
          <h3>Why</h3>
          <Reasons reasons={reasons.map((reason) => ({ ...reason, wouldPass: "" }))} />
        </div>
      )}
      {word === "allow" || textAt(body, "decision_path") !== "policy" ? null : <Passes reasons={reasons} />}
    </section>
  );
}

/** Tells who approved an escalation whose rules name approvers, as the service has it now. */
function Approvals({ escalationId }: { readonly escalationId: string }) {
  const { getEscalation } = EscalationService.method;
  const { data } = useQuery(getEscalation, { escalationId }, { enabled: escalationId !== "" });
  const { approvals = [], approvalsNeeded: needs = [] } = data?.escalation ?? {};
  if (approvals.length === 0) return null;
  const told = approvals.map(({ by, byName, groups }) => ({ name: byName ?? by, groups }));
  return <SentenceView sentence={approvedBy({ needs, approvals: told })} />;
}

/** Changes of one argument with which the action would have been allowed. */
function Passes({ reasons }: { readonly reasons: readonly SealedReason[] }) {
  const changes = [...new Set(reasons.map(({ wouldPass }) => wouldPass))].filter((change) => change !== "");
  return (
    <div className="stack is-tight" data-part="passes">
      <h3>What would have passed</h3>
      {changes.length === 0 ? (
        <p className="hint">
          No change of a single argument is known to pass. Probe the action to try its rules of now.
        </p>
      ) : (
        <ul className="stack is-tight">
          {changes.map((change) => (
            <li key={change} className="would-pass">
              <Shown text={change} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
