import type { JsonObject } from "@bufbuild/protobuf";
import { useQuery } from "@connectrpc/connect-query";
import { useMemo } from "react";
import { Link } from "wouter";
import {
  EnforcementService,
  type GetDecisionResponse,
} from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { reasonsIn, receiptSentences } from "../../../explain/receipt.ts";
import { isJsonRecord, textAt } from "../../../verify/json.ts";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Empty, Fault, Loading } from "../../kit/states.tsx";
import type { ScreenProps } from "../../screens.tsx";
import "../../styles/decision.css";
import { ActionCard } from "./action-card.tsx";
import { CallFacts } from "./call-facts.tsx";
import { Guards, Observed, WordBadge } from "./judged.tsx";
import { LimitBars } from "./limit-bars.tsx";
import { ProbeCard } from "./probe-card.tsx";
import { ProofCard } from "./proof-card.tsx";
import { Reasons } from "./reasons.tsx";
import { SealedCard } from "./sealed-card.tsx";
import { SentenceView } from "./sentence-view.tsx";

/** One decision: its receipt in sentences, its proof, and a dry run of it now. */
export function DecisionScreen({ id = "" }: ScreenProps) {
  // A sealed decision never changes.
  const query = useQuery(
    EnforcementService.method.getDecision,
    { decisionId: id },
    { staleTime: Number.POSITIVE_INFINITY },
  );
  return (
    <ScreenFrame name="decision" title="Decision" actions={<Link href="/decisions">All decisions</Link>}>
      {query.isPending ? <Loading what="the receipt" /> : null}
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      {query.data === undefined ? null : <Receipt key={id} decisionId={id} response={query.data} />}
    </ScreenFrame>
  );
}

function parsed(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonRecord(value) ? value : undefined;
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
      <Empty title="The receipt cannot be read">The sealed text is no JSON object. Verify the log with agentctl.</Empty>
    );
  }
  return (
    <div className="receipt">
      <div className="stack">
        <Summary decisionId={decisionId} body={body} />
        <section className="card stack" aria-labelledby="limits-title">
          <h2 id="limits-title">Shared limits</h2>
          <LimitBars body={body} />
        </section>
        <Observed body={body} />
        <Guards body={body} />
        <ActionCard body={body} />
      </div>
      <div className="stack">
        <ProofCard decisionId={decisionId} response={response} />
        <section className="card stack" aria-labelledby="facts-title">
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

function Summary({ decisionId, body }: { readonly decisionId: string; readonly body: JsonObject }) {
  const sentences = receiptSentences(body);
  const reasons = reasonsIn(body);
  return (
    <section className="card stack" aria-labelledby="summary-title" data-decision={textAt(body, "decision")}>
      <div className="row">
        <WordBadge word={textAt(body, "decision")} />
        <h2 id="summary-title">
          <code>{decisionId}</code>
        </h2>
      </div>
      <div className="explanation stack is-tight">
        {sentences.map((sentence, index) => (
          <SentenceView key={index} sentence={sentence} />
        ))}
      </div>
      {reasons.length === 0 ? null : (
        <>
          <h3>Why</h3>
          <Reasons reasons={reasons} />
        </>
      )}
    </section>
  );
}
