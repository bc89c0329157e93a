import { useMutation, useQuery } from "@connectrpc/connect-query";
import { DryRunService, type TestResult, type TestRun } from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { Decision } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { VirtualList } from "../../kit/lists/virtual-list.tsx";
import { Message } from "../../kit/message.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { useMayChange } from "../../session.ts";

const ROW_HEIGHT = 56;
const WORDS: Readonly<Record<number, string>> = {
  [Decision.ALLOW]: "allow",
  [Decision.BLOCK]: "block",
  [Decision.ESCALATE]: "escalate",
};

/** Generated tests of a mandate's version in force. */
export function Tests({ mandateId }: { readonly mandateId: string }) {
  const mayChange = useMayChange();
  const run = useQuery(DryRunService.method.runTests, { mandateId }, { retry: false });
  const generate = useMutation(DryRunService.method.generateTests, { onSuccess: () => void run.refetch() });
  const { passed = 0, failed = 0, results = [] } = run.data ?? {};
  const sorted = results.toSorted((a, b) => Number(a.passed) - Number(b.passed));
  return (
    <div className="stack">
      <div className="row">
        {results.length === 0 ? (
          <span>{run.isPending ? "" : "This version has no tests."}</span>
        ) : (
          <span data-results>
            <Badge tone={failed === 0 ? "good" : "bad"}>
              {passed} passed, {failed} failed
            </Badge>
          </span>
        )}
        <Button action="run-tests" isBusy={run.isFetching} onClick={() => void run.refetch()}>
          Run
        </Button>
        {mayChange ? (
          <Button action="generate-tests" isBusy={generate.isPending} onClick={() => generate.mutate({ mandateId })}>
            Generate
          </Button>
        ) : null}
      </div>
      <p className="hint">
        Boundary cases of each rule, decided with this mandate alone: other mandates, permissions and tool policies do
        not take part. What they expect comes from a second evaluator, which shares no code with the rules.
      </p>
      {run.isPending ? <Loading what="the results" /> : null}
      {run.error === null ? null : <Fault error={run.error} />}
      {generate.error === null ? null : <Fault error={generate.error} />}
      {generate.data?.notes.map(({ rule, message }) => (
        <p key={`${rule} ${message}`} className="hint">
          {rule === undefined ? null : <code>{rule} </code>}
          <Message text={message} />
        </p>
      ))}
      {sorted.length === 0 ? null : (
        <VirtualList items={sorted} idOf={({ testId }) => testId} rowHeight={ROW_HEIGHT} label="Tests">
          {(each) => <TestRow run={each} />}
        </VirtualList>
      )}
    </div>
  );
}

const resultText = (result: TestResult | undefined): string =>
  `${WORDS[result?.decision ?? 0] ?? "?"}, the rule ${result?.fires === true ? "fires" : "does not fire"}`;

function TestRow({ run: { rule, name, passed, expected, actual, reasons } }: { readonly run: TestRun }) {
  return (
    <div className="test-row">
      <Badge tone={passed ? "good" : "bad"}>{passed ? "passed" : "failed"}</Badge>
      <code>{rule}</code>
      <span>
        <Message text={name} />
      </span>
      <span className="hint">
        expected {resultText(expected)}
        {passed ? "" : `; got ${resultText(actual)}`}
      </span>
      {passed
        ? null
        : reasons.slice(0, 3).map(({ message }) => (
            <span key={message} className="hint">
              <Message text={message} />
            </span>
          ))}
    </div>
  );
}
