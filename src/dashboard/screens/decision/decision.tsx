import type { JsonObject } from "@bufbuild/protobuf";
import { useQuery } from "@connectrpc/connect-query";
import { useMemo } from "react";
import {
  EnforcementService,
  type GetDecisionResponse,
} from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { isJsonRecord, textAt } from "../../../verify/json.ts";
import { isKnownVersion, restored } from "../../../verify/sealed-form.ts";
import { Button } from "../../kit/button.tsx";
import { ScreenFrame, type ScreenPlace } from "../../kit/screen.tsx";
import { shownText } from "../../kit/shown.tsx";
import { Empty, Fault, Loading } from "../../kit/states.tsx";
import type { ScreenProps } from "../../screens.tsx";
import "../../styles/decision.css";
import { ActionCard } from "./action-card.tsx";
import { ApprovalCard } from "./approval-card.tsx";
import { CallFacts } from "./call-facts.tsx";
import { Guards, Observed } from "./judged.tsx";
import { LimitBars } from "./limit-bars.tsx";
import { isOpen, OutcomeCard } from "./outcome-card.tsx";
import { ProbeCard } from "./probe-card.tsx";
import { ProofCard } from "./proof-card.tsx";
import { SealedCard } from "./sealed-card.tsx";
import { Sequences } from "./sequences.tsx";
import { SessionSteps } from "./session-steps.tsx";
import { Summary } from "./summary.tsx";

/** Milliseconds between two reads of a decision whose outcome is open. */
const REFRESH_MS = 5_000;
const DECISIONS: ScreenPlace = { title: "Decisions", href: "/decisions" };

/** Returns the title of the page: what was decided on what. */
function titleOf(response: GetDecisionResponse | undefined): string | undefined {
  const body = parsed(response?.receipt?.canonicalBody ?? "");
  return body === undefined
    ? undefined
    : shownText(`${textAt(body, "decision")} ${textAt(body, "action.action_type")}`);
}

/** One decision: its receipt in sentences, its context, its proof, and a dry run of it now. */
export function DecisionScreen({ id = "" }: ScreenProps) {
  // A sealed decision never changes; what follows it does until its outcome stands.
  const query = useQuery(
    EnforcementService.method.getDecision,
    { decisionId: id },
    {
      staleTime: ({ state }) => (isOpen(state.data?.decision?.outcome) ? 0 : Number.POSITIVE_INFINITY),
      refetchInterval: ({ state }) => (isOpen(state.data?.decision?.outcome) ? REFRESH_MS : false),
    },
  );
  return (
    <ScreenFrame
      name="decision"
      title="Decision"
      pageTitle={titleOf(query.data)}
      within={DECISIONS}
      actions={
        query.data === undefined ? undefined : (
          <Button action="print" onClick={() => window.print()}>
            Print
          </Button>
        )
      }
    >
      {query.isPending ? <Loading what="the receipt" /> : null}
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      {query.data === undefined ? null : <Receipt key={id} decisionId={id} response={query.data} />}
    </ScreenFrame>
  );
}

function parsed(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonRecord(value) && isKnownVersion(value) ? restored(value) : undefined;
  } catch {
    return undefined;
  }
}

/** Shows the sealed text, not the other members of the answer: only the text is proven. */
function Receipt({ decisionId, response }: { readonly decisionId: string; readonly response: GetDecisionResponse }) {
  const text = response.receipt?.canonicalBody ?? "";
  const body = useMemo(() => parsed(text), [text]);
  if (body === undefined) {
    return (
      <Empty title="The receipt cannot be read">
        The sealed text is no JSON object of a version that this page knows. Verify the log with agentctl.
      </Empty>
    );
  }
  return (
    <div className="receipt">
      <div className="stack">
        <Summary decisionId={decisionId} body={body} />
        <OutcomeCard body={body} record={response.decision} />
        <ActionCard body={body} />
      </div>
      <div className="stack">
        <div className="stack receipt-context" data-part="context">
          <Sequences body={body} />
          <SessionSteps body={body} />
          <LimitBars body={body} />
          <Observed body={body} />
          <Guards body={body} />
          <ApprovalCard body={body} />
        </div>
        <ProofCard decisionId={decisionId} response={response} />
        <section className="card stack" aria-labelledby="facts-title" data-part="facts">
          <h2 id="facts-title">The call</h2>
          <CallFacts body={body} keyName={response.keyName} />
        </section>
      </div>
      <div className="stack is-whole">
        <ProbeCard body={body} />
        <SealedCard name={`${decisionId}-sealed`} text={text} />
      </div>
    </div>
  );
}
