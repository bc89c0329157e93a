import { type CheckedStep, type Compared, failedStep } from "../proof/steps.ts";
import { Badge, type Tone } from "./badge.tsx";
import { CopyButton } from "./copy.tsx";
import { Shown } from "./shown.tsx";

const STATES: Readonly<Record<CheckedStep["state"], readonly [Tone, string]>> = {
  holds: ["good", "holds"],
  fails: ["bad", "fails"],
  skipped: ["plain", "not checked"],
};
const HASH = /^[0-9a-f]{64}$/;

/** Steps of a check, each with the values that it compared. */
export function StepsView({ steps }: { readonly steps: readonly CheckedStep[] }) {
  return (
    <ol className="proof-steps">
      {steps.map((step) => (
        <StepView key={step.name} step={step} />
      ))}
    </ol>
  );
}

function StepView({ step: { name, title, state, compared, fault } }: { readonly step: CheckedStep }) {
  const [tone, word] = STATES[state];
  return (
    <li data-step={name} data-state={state}>
      <div className="proof-step">
        <Badge tone={tone}>{word}</Badge>
        <span>{title}</span>
      </div>
      {fault === undefined ? null : (
        <p className="fault-text" role="alert">
          <Shown text={`Step “${name}” does not hold: ${fault}.`} />
        </p>
      )}
      {compared.length === 0 ? null : (
        <dl className="compared">
          {compared.map((each) => (
            <ComparedView key={each.label} compared={each} />
          ))}
        </dl>
      )}
    </li>
  );
}

function ComparedView({ compared: { label, value } }: { readonly compared: Compared }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>
        {HASH.test(value) ? <Hash hash={value} what={label.toLowerCase()} /> : <Shown text={value.slice(0, 300)} />}
      </dd>
    </div>
  );
}

/** A hash in short form, on paper in full. Its button copies all of it. */
export function Hash({ hash, what }: { readonly hash: string; readonly what: string }) {
  return (
    <span className="hash">
      <code title={hash} className="screen-only">
        {hash.slice(0, 10)}…{hash.slice(-8)}
      </code>
      <code className="print-only" aria-hidden>
        {hash}
      </code>
      <CopyButton text={hash} what={`the hash “${what}”`} isSmall />
    </span>
  );
}

/** Shows the result of a check in one line. */
export function Verdict({ steps }: { readonly steps: readonly CheckedStep[] }) {
  const failed = failedStep(steps);
  if (failed === undefined) {
    return (
      <p className="verdict" data-verdict="holds" role="status">
        <Badge tone="good">proven</Badge> All {steps.length} steps hold.
      </p>
    );
  }
  return (
    <p className="verdict is-bad" data-verdict="fails" data-failed-step={failed.name} role="alert">
      <Badge tone="bad">not proven</Badge> Do not rely on this: step “{failed.name}” does not hold.
    </p>
  );
}

/** Shows the result of a check in one line, which unfolds to its steps. A check that fails is unfolded. */
export function FoldedSteps({ steps }: { readonly steps: readonly CheckedStep[] }) {
  const isProven = failedStep(steps) === undefined;
  return (
    <>
      {isProven ? null : <Verdict steps={steps} />}
      <details className="folded-steps" open={!isProven}>
        <summary data-action="show-proof">
          {isProven ? (
            <span data-verdict="holds" role="status">
              <Badge tone="good">
                proven, {steps.length} of {steps.length}
              </Badge>
            </span>
          ) : (
            "Steps of the check"
          )}
        </summary>
        <StepsView steps={steps} />
      </details>
    </>
  );
}
