import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import { EnforcementService } from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { Escalation, PrecedingDecision } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import type { CollectiveLimit } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { DecisionBadge } from "../../kit/badge.tsx";
import { BudgetBar } from "../../kit/budget-bar.tsx";
import { CopyButton } from "../../kit/copy.tsx";
import { JsonView } from "../../kit/json-view.tsx";
import { type Budget, moneyText, restOfBudget, usedOfBudget } from "../../kit/money.ts";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { ClockTime, durationText, Time } from "../../kit/time.tsx";
import { argumentsLine } from "./argument-rows.ts";
import type { useApprovalContext } from "./use-approval-context.ts";

const BEFORE = 10;
const BEFORE_ON_CARD = 3;
const MAX_LIMITS = 50;
const LIMITS_ON_CARD = 2;
const STALE_MS = 60_000;
const DIGEST_SHOWN = 12;

/** Properties of the context of an escalation. */
export interface AroundProps {
  readonly escalation: Escalation;
  readonly context: Pick<ReturnType<typeof useApprovalContext>, "data" | "error">;
  /** True on a screen of its own. A card in the queue shows the first items. */
  readonly isWhole: boolean;
  /** True once it is to be read. */
  readonly isOn: boolean;
}

/** Context of an escalation: the decisions just before, the limits that count it, and what an approval covers. */
export function Around({ escalation, context, isWhole, isOn }: AroundProps) {
  const { decisionId, sessionId } = escalation;
  return (
    <div className={isWhole ? "around is-whole" : "around"}>
      {/* What is read later comes last, so that it moves nothing. */}
      <Covered escalation={escalation} isWhole={isWhole} />
      <Before context={context} isInSession={sessionId !== undefined} limit={isWhole ? BEFORE : BEFORE_ON_CARD} />
      <Limits decisionId={decisionId} limit={isWhole ? MAX_LIMITS : LIMITS_ON_CARD} isOn={isOn} />
    </div>
  );
}

interface BeforeProps extends Pick<AroundProps, "context"> {
  readonly isInSession: boolean;
  /** Maximum number of decisions shown. */
  readonly limit: number;
}

function Before({ context: { data, error }, isInSession, limit }: BeforeProps) {
  const before = data?.before.slice(0, limit);
  return (
    <section aria-label="Before">
      <h3>{isInSession ? "Just before, in this session" : "Just before"}</h3>
      {error === null ? null : <Fault error={error} />}
      {before === undefined && error === null ? <Loading what="the actions" /> : null}
      {before?.length === 0 ? <p className="hint">Nothing else.</p> : null}
      <ul className="before">
        {before?.map((each) => (
          <Preceding key={each.decision?.decisionId} preceding={each} />
        ))}
      </ul>
    </section>
  );
}

/** One decision before the escalation, with its arguments in a line. */
function Preceding({
  preceding: { decision, arguments: args, argumentsCut },
}: {
  readonly preceding: PrecedingDecision;
}) {
  if (decision === undefined) return null;
  const { decisionId, actionType, decision: outcome, decidedAt } = decision;
  const line = args === undefined ? "" : `${argumentsLine(args)}${argumentsCut ? " …" : ""}`;
  return (
    <li data-id={decisionId}>
      <DecisionBadge decision={outcome} />
      <Link href={`/decisions/${decisionId}`}>
        <Shown text={actionType} />
      </Link>
      <Time at={decidedAt} />
      <span className="before-arguments" title={shownText(line, 600)}>
        {line === "" ? "no arguments" : <Shown text={line} />}
      </span>
    </li>
  );
}

interface PartProps {
  /** Maximum number of items shown. */
  readonly limit: number;
  readonly isOn: boolean;
}

function Limits({ decisionId, limit: shown, isOn }: PartProps & { readonly decisionId: string }) {
  const query = useQuery(EnforcementService.method.getDecision, { decisionId }, { enabled: isOn, staleTime: STALE_MS });
  const limits = (query.data?.receipt?.authorisation?.collectiveLimits ?? []).toSorted(
    (a, b) => shareOf(b) - shareOf(a),
  );
  return (
    <section aria-label="Shared limits">
      <h3>Shared limits</h3>
      {query.isPending ? <Loading what="the limits" /> : null}
      {query.isError ? <Fault error={query.error} /> : null}
      {query.isSuccess && limits.length === 0 ? <p className="hint">No limit counts this action.</p> : null}
      <ul className="stack">
        {limits.slice(0, shown).map((limit) => (
          <li key={`${limit.mandateId} ${limit.rule} ${limit.group}`}>
            <LimitBar limit={limit} />
          </li>
        ))}
      </ul>
      {limits.length > shown ? <p className="hint">and {limits.length - shown} more, on the decision</p> : null}
    </section>
  );
}

/** Share of a limit or a budget that is used; above 1 beyond it. */
function shareOf({ budget, count, limit }: Pick<CollectiveLimit, "budget" | "count" | "limit">): number {
  const [used, most] = budget === undefined ? [Number(count), Number(limit)] : [budget.total, budget.limit];
  return most === 0 ? Infinity : used / most;
}

function LimitBar({ limit }: { readonly limit: CollectiveLimit }) {
  const { budget, resetsAt } = limit;
  return (
    <>
      <span>
        {budget === undefined ? <CountText limit={limit} /> : <MoneyText limit={limit} budget={budget} />}
        {resetsAt === undefined ? null : (
          <>
            ; {budget === undefined ? "one more" : "more"} fits from <ClockTime atMs={timestampMs(resetsAt)} />
          </>
        )}
      </span>
      {budget === undefined ? <CountBar limit={limit} /> : <BudgetBar budget={budget} />}
    </>
  );
}

const windowText = ({ window }: CollectiveLimit): string => durationText(Number(window) * 1_000);

function CountText({ limit }: { readonly limit: CollectiveLimit }) {
  const { count, limit: most, group } = limit;
  return (
    <>
      {(count - 1n).toString()} before, {count.toString()} with this action, of {most.toString()} in {windowText(limit)}{" "}
      for <Shown text={group} />
    </>
  );
}

/** Tells a budget with what this action would add, which is among the reserved. */
function MoneyText({ limit, budget }: { readonly limit: CollectiveLimit; readonly budget: Budget }) {
  const { total, currency } = budget;
  return (
    <>
      <Shown text={`${moneyText(total, currency)} with this action, ${restOfBudget(budget)}`} /> in {windowText(limit)}{" "}
      for <Shown text={limit.group} />: <Shown text={usedOfBudget(budget)} />
    </>
  );
}

function CountBar({ limit: { count, limit } }: { readonly limit: CollectiveLimit }) {
  const filled = Math.min(1, shareOf({ count, limit }));
  const before = Math.min(1, shareOf({ count: count - 1n, limit }));
  return (
    <span className={count > limit ? "bar is-full" : "bar"} aria-hidden>
      <span style={{ width: `${before * 100}%` }} />
      <span className="is-new" style={{ width: `${(filled - before) * 100}%` }} />
    </span>
  );
}

function Covered({ escalation, isWhole }: { readonly escalation: Escalation; readonly isWhole: boolean }) {
  const { actionDigest, ignoredMetadata, metadata } = escalation;
  return (
    <section aria-label="What the approval covers" className="covered">
      <h3>An approval covers</h3>
      <p>
        This exact action, once: <code title={actionDigest}>{actionDigest.slice(0, DIGEST_SHOWN)}…</code>{" "}
        <CopyButton text={actionDigest} what="the digest" isSmall />
      </p>
      {ignoredMetadata.length === 0 ? null : (
        <p>
          It leaves out the metadata <Shown text={ignoredMetadata.join(", ")} />.
        </p>
      )}
      {metadata === undefined || !isWhole ? null : (
        <details>
          <summary>All metadata, as sent</summary>
          <JsonView value={metadata} />
        </details>
      )}
    </section>
  );
}
