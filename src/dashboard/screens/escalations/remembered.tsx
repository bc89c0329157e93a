import { Link } from "wouter";
import { type Escalation, EscalationStatus } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { type Reason, ValueKind } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { countText } from "../../kit/count-text.ts";
import { Shown } from "../../kit/shown.tsx";
import { sessionHref } from "../sessions/session-href.ts";

const KINDS: Readonly<Record<number, string>> = {
  [ValueKind.DESTINATION]: "a destination",
  [ValueKind.CREDENTIAL]: "a credential",
  [ValueKind.HOST]: "a host",
  [ValueKind.RESOURCE]: "a resource",
  [ValueKind.PATH]: "a path",
  [ValueKind.NUMBER]: "a number",
  [ValueKind.TEXT]: "a text",
};
const UNREADABLE = "PROVENANCE_UNREADABLE";
/** Arguments that the sentence names. */
const MAX_NAMED = 5;

/** Says that the session of the action remembers an approval of values on whose origin a rule asked. */
export function Remembered({ escalation: { reasons, sessionId, status } }: { readonly escalation: Escalation }) {
  const asked = askedFor(reasons);
  const isPending = status === EscalationStatus.PENDING;
  if (sessionId === undefined || asked.length === 0) return null;
  if (!isPending && status !== EscalationStatus.APPROVED) return null;
  const hasUnreadable = reasons.some(({ code }) => code === UNREADABLE);
  return (
    <p className="hint" data-part="remembered">
      {isPending ? "An approval" : "The approval"} holds for all of{" "}
      <Link href={sessionHref(sessionId)}>this session</Link> from {isPending ? "now" : "then"} on:{" "}
      {asked.slice(0, MAX_NAMED).map(({ argument, kind }, index) => (
        <span key={`${argument} ${kind}`}>
          {index === 0 ? "" : ", and "}for the value of{" "}
          <code>
            <Shown text={argument} />
          </code>{" "}
          as {KINDS[kind] ?? "its kind"}
        </span>
      ))}
      {asked.length > MAX_NAMED ? `, and for ${countText(asked.length - MAX_NAMED, "more argument")}` : ""}, in rules
      that trust approved values.
      {isPending ? " After an edit, it holds for the new values." : ""}
      {hasUnreadable ? " A value that cannot be read as its kind is not remembered." : ""}
    </p>
  );
}

interface Asked {
  readonly argument: string;
  readonly kind: ValueKind;
}

/** Lists the arguments on whose origin rules asked, each once for each kind. */
function askedFor(reasons: readonly Reason[]): readonly Asked[] {
  const asked = new Map<string, Asked>();
  for (const { argument, valueKind: kind } of reasons) {
    if (argument !== undefined && kind !== undefined) asked.set(`${kind} ${argument}`, { argument, kind });
  }
  return [...asked.values()];
}
