import { Link } from "wouter";
import type { SealedReason } from "../../../explain/receipt.ts";
import { Message } from "../../kit/message.tsx";
import { Shown } from "../../kit/shown.tsx";

/** Reasons of a decision, most decisive first. */
export function Reasons({ reasons }: { readonly reasons: readonly SealedReason[] }) {
  return (
    <ol className="reasons">
      {reasons.map((reason, index) => (
        <li key={index} data-reason={reason.code}>
          <ReasonView reason={reason} />
        </li>
      ))}
    </ol>
  );
}

function ReasonView({ reason }: { readonly reason: SealedReason }) {
  const { code, message, mandateId, mandateName, rule, argument, wouldPass } = reason;
  return (
    <>
      <p>
        <Message text={message} />
      </p>
      <p className="hint row">
        <code>{code}</code>
        {mandateId === "" ? null : (
          <span>
            mandate{" "}
            <Link href={`/mandates/${mandateId}`}>
              <Shown text={mandateName || mandateId} />
            </Link>
            {rule === "" ? null : (
              <>
                , <code>{rule}</code>
              </>
            )}
          </span>
        )}
        {argument === "" ? null : (
          <span>
            argument <Shown text={argument} />
          </span>
        )}
      </p>
      {wouldPass === "" ? null : (
        <p className="would-pass">
          <Shown text={wouldPass} />
        </p>
      )}
    </>
  );
}
