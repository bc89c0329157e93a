import { useMemo, useState } from "react";
import { Link } from "wouter";
import type { Escalation } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import type { Reason } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Message } from "../../kit/message.tsx";
import { Shown } from "../../kit/shown.tsx";
import { firedArguments } from "./fired-argument.ts";
import { OriginValue } from "./origin-value.tsx";

const FIRST = 5;
const MORE = 50;

/** Reasons for an escalation: the rule, the argument, where its values come from, and the values that would have passed. */
export function Reasons({ escalation }: { readonly escalation: Escalation }) {
  const { reasons, sessionId } = escalation;
  const [limit, setLimit] = useState(FIRST);
  const fired = useMemo(() => new Map(firedArguments(escalation).map((each) => [each.path, each])), [escalation]);
  return (
    <ul className="card-reasons">
      {reasons.slice(0, limit).map((reason) => (
        <li key={`${reason.mandateId} ${reason.rule} ${reason.message}`}>
          <ReasonText reason={reason} />
          {sessionId === undefined || reason.argument === undefined ? null : (
            <OriginValue kind={reason.valueKind} argument={fired.get(reason.argument)} />
          )}
        </li>
      ))}
      {reasons.length > limit ? (
        <li>
          <button type="button" className="link" onClick={() => setLimit(limit + MORE)}>
            {reasons.length - limit} more reasons
          </button>
        </li>
      ) : null}
    </ul>
  );
}

function ReasonText({
  reason: { message, mandateId, mandateName, rule, argument, wouldPass },
}: {
  readonly reason: Reason;
}) {
  return (
    <>
      <Message text={message} />
      {argument === undefined ? null : (
        <span className="hint">
          {" "}
          at{" "}
          <code>
            <Shown text={argument} />
          </code>
        </span>
      )}
      {mandateId === undefined ? null : (
        <span className="hint">
          {" "}
          in{" "}
          <Link href={`/mandates/${mandateId}`}>
            <Shown text={mandateName ?? mandateId} />
          </Link>{" "}
          {rule === undefined ? null : <code>{rule}</code>}
        </span>
      )}
      {wouldPass === undefined ? null : (
        <span className="would-pass">
          <Shown text={wouldPass} />
        </span>
      )}
    </>
  );
}
