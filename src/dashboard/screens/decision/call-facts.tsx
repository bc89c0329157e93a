import type { JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { listAt, numberAt, textAt, valueAt } from "../../../verify/json.ts";
import { Actor } from "../../kit/actor.tsx";
import { Shown } from "../../kit/shown.tsx";
import { ExactTime } from "../../kit/time.tsx";
import { sessionHref } from "../sessions/session-href.ts";

interface Fact {
  readonly label: string;
  readonly value: ReactNode;
}

const idFact = (body: JsonObject, label: string, name: string, href?: (id: string) => string): readonly Fact[] => {
  const id = textAt(body, name);
  if (id === "") return [];
  const shown = (
    <code>
      <Shown text={id} />
    </code>
  );
  return [{ label, value: href === undefined ? shown : <Link href={href(id)}>{shown}</Link> }];
};

const escalation = (id: string): string => `/escalations/${id}`;
const agent = (id: string): string => `/agents/${id}`;

function factsOf(body: JsonObject, keyName: string | undefined): readonly Fact[] {
  const authority = listAt(body, "authority").map(String);
  return [
    { label: "Sealed at", value: <SealedAt text={textAt(body, "at")} /> },
    {
      label: "Entry of the log",
      value: <Link href={`/evidence?entry=${numberAt(body, "seq")}`}>{numberAt(body, "seq")}</Link>,
    },
    ...idFact(body, "Agent", "action.agent_id", agent),
    { label: "Key", value: <Actor id={textAt(body, "key_id")} name={keyName} /> },
    ...idFact(body, "For the principal", "on_behalf_of", agent),
    ...idFact(body, "Session", "session_id", sessionHref),
    ...idFact(body, "Trace", "trace_id"),
    ...idFact(body, "Grant", "grant_id"),
    ...idFact(body, "Intent contract", "intent_contract_id"),
    ...contractFacts(body),
    ...(authority.length === 0
      ? []
      : [{ label: "Authority that applied", value: <Shown text={authority.join(", ")} /> }]),
    ...idFact(body, "Escalation", "escalation_id", escalation),
    ...idFact(body, "Approval used", "used_escalation_id", escalation),
    ...idFact(body, "Approval presented", "presented_escalation_id", escalation),
    ...idFact(body, "Repeat of", "replay_of", (id) => `/decisions/${id}`),
    { label: "Permissions", value: textAt(body, "authorisation.permissions").replaceAll("_", " ") },
    ...idFact(body, "Policy set", "policy_digest"),
  ];
}

/** Tells the step that an action took in the plan of each intent contract that covers it. */
function contractFacts(body: JsonObject): readonly Fact[] {
  return listAt(body, "contracts").map((contract) => {
    const step = valueAt(contract, "step");
    const taken = typeof step === "number" ? `step ${step + 1}` : "inside";
    const where = valueAt(contract, "outside") === true ? "outside" : taken;
    return { label: "Plan", value: <Shown text={`${where} of ${textAt(contract, "intent_contract_id")}`} /> };
  });
}

/** Shows a time that was sealed; as it was sealed if it is no time. */
function SealedAt({ text }: { readonly text: string }) {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? <Shown text={text} /> : <ExactTime at={timestampFromMs(ms)} />;
}

/** Properties of the facts. */
interface CallFactsProps {
  readonly body: JsonObject;
  /** Name of the calling key, which is not sealed. */
  readonly keyName: string | undefined;
}

/** Caller, credentials, and ids in the decision. */
export function CallFacts({ body, keyName }: CallFactsProps) {
  return (
    <dl className="call-facts">
      {factsOf(body, keyName).map(({ label, value }) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
