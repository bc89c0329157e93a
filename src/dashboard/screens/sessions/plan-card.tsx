import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import {
  AuthorityService,
  AuthorityStatus,
  type IntentContract,
  OutsideContract,
  type PlanStep,
  type Session,
} from "../../../../gen/agentcontrol/v1/authority_service_pb.js";
import { type Condition, type Conditions, OnMissing } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { countText } from "../../kit/count-text.ts";
import { WordList } from "../../kit/lists/word-list.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { AuthorityBadge } from "../agents/authority-badge.tsx";
import { valueText } from "../decision/nearest.tsx";

/** Milliseconds between two reads of the calls used. */
const REFRESH_MS = 5_000;
/** Contracts of the agent among which that of an ended session is looked for, the newest ones. */
const PAGE_SIZE = 500;

/** Intent contract that covers a session, as it is read. */
export interface PlanRead {
  /** The contract in force, else the last one that covered the session; undefined without one. */
  readonly contract: IntentContract | undefined;
  readonly isPending: boolean;
  /** Error of the last attempt. */
  readonly error: unknown;
  readonly readAgain: () => void;
}

/** Reads the contract that covers a session. `contractId`: the one in force; undefined without one, then the last one is looked for. */
export function usePlan({ agentId, sessionId }: Session, contractId: string | undefined): PlanRead {
  const isOver = contractId === undefined;
  const inForce = useQuery(
    AuthorityService.method.getIntentContract,
    { intentContractId: contractId ?? "" },
    { enabled: !isOver, refetchInterval: REFRESH_MS },
  );
  const list = useQuery(
    AuthorityService.method.listIntentContracts,
    { agentId, pageSize: PAGE_SIZE },
    { enabled: isOver },
  );
  const last = list.data?.intentContracts.find((each) => each.sessionId === sessionId);
  const { isPending, error, refetch } = isOver ? list : inForce;
  const contract = isOver ? last : inForce.data?.intentContract;
  return { contract, isPending, error, readAgain: () => void refetch() };
}

/** Properties of the plan of a session. */
export interface PlanCardProps {
  readonly session: Session;
  readonly plan: PlanRead;
}

/** Intent contract that covers a session, with the steps of its plan. */
export function PlanCard({ session: { status }, plan }: PlanCardProps) {
  const { contract, isPending, error, readAgain } = plan;
  // A contract has nothing left to cover once its session has ended.
  const isActive = status === AuthorityStatus.ACTIVE;
  return (
    <section className="card stack" aria-label="Plan">
      <div className="row">
        <h2>Plan</h2>
        {contract === undefined ? null : <AuthorityBadge status={isActive ? contract.status : status} />}
      </div>
      {error === null ? null : <Fault error={error} onRetry={readAgain} />}
      {isPending && error === null ? <Loading what="the intent contract" /> : null}
      {!isPending && error === null && contract === undefined ? (
        <p className="hint">
          No intent contract covers the session: an action is planned only where it names a contract itself.
        </p>
      ) : null}
      {contract === undefined ? null : <Contract contract={contract} isActive={isActive} />}
    </section>
  );
}

const OUTSIDE: Readonly<Record<number, string>> = {
  [OutsideContract.BLOCK]: "Any other action is blocked.",
  [OutsideContract.ESCALATE]: "A person is asked about any other action.",
  [OutsideContract.RULES]: "The mandates decide on any other action.",
};

interface ContractProps {
  readonly contract: IntentContract;
  /** True while the session is active. */
  readonly isActive: boolean;
}

function Contract({ contract, isActive }: ContractProps) {
  const { intentContractId, goal, allowedActionTypes, allowedTools, actions, maxActions, steps, expiresAt } = contract;
  return (
    <>
      <p>
        <Shown text={goal} />
      </p>
      <dl className="facts">
        <dt>Intent contract</dt>
        <dd>
          <code>{intentContractId}</code>
        </dd>
        <dt>Actions used</dt>
        <dd data-count="actions">{usedText(actions, maxActions)}</dd>
        {expiresAt === undefined || !isActive ? null : (
          <>
            <dt>Expires</dt>
            <dd>
              <Time at={expiresAt} />
            </dd>
          </>
        )}
        {allowedActionTypes.length === 0 ? null : (
          <>
            <dt>Action types</dt>
            <dd>
              <WordList words={allowedActionTypes} none="" />
            </dd>
          </>
        )}
        {allowedTools.length === 0 ? null : (
          <>
            <dt>Tools</dt>
            <dd>
              <WordList words={allowedTools} none="" />
            </dd>
          </>
        )}
      </dl>
      {steps.length === 0 ? (
        <p className="hint">It has no steps: it admits actions by their types and tools alone.</p>
      ) : (
        <>
          <h3 id="steps-title">Steps</h3>
          <ol className="plan-steps" aria-labelledby="steps-title">
            {steps.map((step, index) => (
              <Step key={index} step={step} number={index + 1} />
            ))}
          </ol>
        </>
      )}
      <p data-part="outside">{OUTSIDE[contract.outside] ?? ""}</p>
    </>
  );
}

const usedText = (used: bigint, max: bigint | undefined): string =>
  `${used.toLocaleString("en")}${max === undefined ? ", without a limit" : ` of ${max.toLocaleString("en")}`}`;

interface StepProps {
  readonly step: PlanStep;
  /** Place in the plan, from 1: steps are tried in this order. */
  readonly number: number;
}

function Step({ step: { tool, conditions, calls, maxCalls }, number }: StepProps) {
  const isUsedUp = maxCalls !== undefined && calls >= maxCalls;
  return (
    <li className="plan-step" data-step={number}>
      <span className="plan-step-number" aria-hidden>
        {number}
      </span>
      <div className="stack is-tight">
        <Link href={`/tools/${encodeURIComponent(tool)}`} className="plan-step-tool">
          <Shown text={tool} />
        </Link>
        <StepConditions conditions={conditions} />
      </div>
      <span className={isUsedUp ? "plan-step-calls is-used-up" : "plan-step-calls"}>
        {maxCalls === undefined
          ? countText(calls, "call")
          : `${calls.toLocaleString("en")} of ${countText(maxCalls, "call")}`}
      </span>
    </li>
  );
}

function StepConditions({ conditions }: { readonly conditions: Conditions | undefined }) {
  const { rules = [], operator = "" } = conditions ?? {};
  if (rules.length === 0) return <span className="hint">with any arguments</span>;
  const isEither = operator.toUpperCase() === "OR";
  return (
    <>
      {rules.length === 1 ? null : <span className="hint">{isEither ? "where one holds:" : "where all hold:"}</span>}
      <ul className="plan-conditions">
        {rules.map((rule, index) => (
          <li key={index}>
            <ConditionText condition={rule} />
          </li>
        ))}
      </ul>
    </>
  );
}

/** Writes a condition as the trace of a rule does: the argument, the operator in words, and the value. */
function ConditionText({ condition }: { readonly condition: Condition }) {
  const { field, operator, value, currency, onMissing } = condition;
  const wanted = valueText(value);
  return (
    <>
      <Shown text={field} /> {operator.replaceAll("_", " ")}{" "}
      {wanted === "" ? null : (
        <code>
          <Shown text={wanted} />
        </code>
      )}
      {currency === undefined ? null : <Shown text={` ${currency}`} />}
      {onMissing === OnMissing.IGNORE ? <span className="hint"> (does not hold where it is missing)</span> : null}
    </>
  );
}
