import type { JsonObject } from "@bufbuild/protobuf";
import { useTransport } from "@connectrpc/connect-query";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link } from "wouter";
import { Shown } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { type CompletedSequence, completedSequences, type FoundStep, findSteps } from "./find-steps.ts";
import { EarlierStep, type LineEnd, lineEndOf, StepLine } from "./step-line.tsx";

/** Ordered sequences that the action completed, each as a time line of its steps. */
export function Sequences({ body }: { readonly body: JsonObject }) {
  const completed = useMemo(() => completedSequences(body), [body]);
  return completed.map((sequence) => (
    <SequenceCard key={`${sequence.reason.mandateId} ${sequence.reason.rule}`} body={body} sequence={sequence} />
  ));
}

interface SequenceCardProps {
  readonly body: JsonObject;
  readonly sequence: CompletedSequence;
}

function SequenceCard({ body, sequence }: SequenceCardProps) {
  const transport = useTransport();
  const { mandateId, mandateName, rule, message } = sequence.reason;
  const end = lineEndOf(body);
  const query = useQuery({
    queryKey: ["steps", end.decisionId, mandateId, rule],
    queryFn: ({ signal }) => findSteps(transport, body, sequence, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <section className="card stack" aria-label="Sequence">
      <h2>Sequence</h2>
      <p className="hint">
        Completed by this action, by the mandate{" "}
        <Link href={`/mandates/${mandateId}`}>
          <Shown text={mandateName} />
        </Link>
        , <code>{rule}</code>
      </p>
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      {/* The reason lists every step, so the line has its room before the steps are found. */}
      <StepLine label="Steps of the sequence" end={end} rows={message.split(", then ").length}>
        {query.isPending ? (
          <li>
            <Loading what="the earlier steps" />
          </li>
        ) : null}
        {query.isSuccess ? <Steps steps={query.data} end={end} /> : null}
      </StepLine>
    </section>
  );
}

function Steps({ steps, end }: { readonly steps: readonly FoundStep[] | undefined; readonly end: LineEnd }) {
  if (steps === undefined) {
    return (
      <li className="hint">The service no longer lists this version of the mandate. Its reason names the steps.</li>
    );
  }
  return steps.map(({ pattern, record }, index) =>
    record === undefined ? (
      <li key={index} className="hint">
        No decision found for the step <Shown text={pattern} />: its agent may have left the department.
      </li>
    ) : (
      <EarlierStep key={index} record={record} end={end} pattern={pattern} />
    ),
  );
}
