import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Link } from "wouter";
import {
  type Limit,
  type LimitGroup,
  MandateMode,
  OtherCurrency,
  SequenceMode,
} from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, OutcomeStatus, Scope } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Badge, DecisionBadge } from "../../kit/badge.tsx";
import { BudgetBar, barClass, NEARLY_FULL } from "../../kit/budget-bar.tsx";
import { countText } from "../../kit/count-text.ts";
import { type Budget, moneyText, restOfBudget, usedOfBudget } from "../../kit/money.ts";
import { Shown } from "../../kit/shown.tsx";
import { ClockTime, durationText } from "../../kit/time.tsx";
import { LimitHistory } from "./limit-history.tsx";

const SCOPES: Readonly<Record<number, string>> = {
  [Scope.AGENT]: "each agent",
  [Scope.DEPARTMENT]: "a department together",
  [Scope.WORKSPACE]: "the workspace together",
};
const COUNTED: Readonly<Record<number, string>> = {
  [Decision.ALLOW]: "allowed",
  [Decision.BLOCK]: "blocked",
  [Decision.ESCALATE]: "escalated",
};

interface LimitProps {
  readonly limit: Limit;
}

/** Says how much of a limit its fullest group has used, or how many steps of a sequence it has done. */
export function LimitFill({ limit: { fill, sequenceMode, groups, steps } }: LimitProps) {
  const [fullest] = groups;
  if (fullest === undefined || fill === 0) return <span className="hint">nothing yet</span>;
  if (fullest.budget !== undefined && fullest.budget.total > fullest.budget.limit) {
    return <Badge tone="bad">exceeded</Badge>;
  }
  if (sequenceMode === SequenceMode.ORDERED) {
    const text = `${fullest.count.toLocaleString("en")} of ${countText(steps.length, "step")}`;
    return fullest.remaining === 0n ? <Badge tone="wait">last step left</Badge> : text;
  }
  const text = `${Math.floor(fill * 100).toLocaleString("en")} %`;
  if (fill >= 1) return <Badge tone="bad">full</Badge>;
  return fill >= NEARLY_FULL ? <Badge tone="wait">{text}, nearly full</Badge> : text;
}

/** Shows the decision on an action beyond the limit. */
export function LimitOutcome({ limit: { decision, mode } }: LimitProps) {
  return (
    <span className="limit-outcome">
      <DecisionBadge decision={decision} />
      {mode === MandateMode.OBSERVE ? <Badge tone="plain">observes</Badge> : null}
    </span>
  );
}

/** Names the rule that sets the limit. */
export function LimitMandate({ limit: { mandateId, mandateName, version, rule } }: LimitProps) {
  return (
    <>
      <Link href={`/mandates/${mandateId}`} className="limit-mandate">
        <Shown text={mandateName} />
      </Link>
      <span className="hint limit-rule">
        version {version}, <code>{rule}</code>
      </span>
    </>
  );
}

/** Shows the history of the first group and the count of each, with the rest up to the limit. */
export function LimitGroups({ limit }: LimitProps) {
  const { groups, moreGroups } = limit;
  if (groups.length === 0) return <span className="hint">Nothing is counted yet.</span>;
  return (
    <>
      <LimitHistory limit={limit} />
      <ul className="limit-groups">
        {groups.map((group) => (
          <li key={group.group} data-id={group.group}>
            <Group group={group} limit={limit} />
          </li>
        ))}
      </ul>
      {moreGroups > 0 ? <p className="hint">and {moreGroups.toLocaleString("en")} more with lower counts</p> : null}
    </>
  );
}

/** Writes a limit in words: the actions it counts or the amounts it adds, the window and the group. */
export function LimitSentence({ limit }: LimitProps) {
  return (
    <p className="limit-sentence">
      <Sentence limit={limit} />
    </p>
  );
}

function Sentence({ limit }: LimitProps) {
  return limit.sequenceMode === SequenceMode.BUDGET ? (
    <BudgetSentence limit={limit} />
  ) : (
    <CountSentence limit={limit} />
  );
}

function BudgetSentence({ limit }: LimitProps) {
  const { sums, maxTotal = 0, currency = "", windowSeconds, scope, otherCurrency } = limit;
  return (
    <>
      More than <Shown text={moneyText(maxTotal, currency)} /> of{" "}
      {sums.map(({ tool, field }, index) => (
        <span key={`${tool} ${field}`}>
          {index === 0 ? "" : ", "}
          <code>
            <Shown text={`${tool} ${field}`} />
          </code>
        </span>
      ))}{" "}
      within {durationText(Number(windowSeconds) * 1_000)}; added for {SCOPES[scope] ?? "a group"}
      {scope === Scope.AGENT ? ", also what others do on its behalf" : ""}
      {otherCurrency === OtherCurrency.IGNORE ? "; amounts in another currency are left aside" : ""}
      {outcomesText(limit)}.
    </>
  );
}

/** Says with which outcomes an action counts, if the rule names any. */
function outcomesText({ countOutcomes }: Limit): string {
  const words = countOutcomes.map((status) => (OutcomeStatus[status] ?? "").toLowerCase());
  return words.length === 0 ? "" : `; with the outcomes ${words.join(", ")} alone`;
}

function CountSentence({ limit }: LimitProps) {
  const { sequenceMode, actionTypes, steps, maxCount = 0n, windowSeconds, scope, tool, countDecisions } = limit;
  const window = durationText(Number(windowSeconds) * 1_000);
  const decisions = countDecisions.map((each) => COUNTED[each] ?? "").join(" or ");
  const isShared = sequenceMode === SequenceMode.VELOCITY && scope === Scope.AGENT;
  return (
    <>
      {sequenceMode === SequenceMode.ORDERED ? (
        <>
          <Types types={steps} between=", then " /> within {window}
        </>
      ) : (
        <>
          More than {maxCount.toLocaleString("en")} of <Types types={actionTypes} between=", " /> within {window}
        </>
      )}
      {decisions === "" ? "" : `, counting what was ${decisions}`}; counted for {SCOPES[scope] ?? "a group"}
      {outcomesText(limit)}
      {isShared ? ", also what others do on its behalf" : ""}
      {tool === undefined ? null : (
        <>
          ; fires on calls of <Shown text={tool} />
        </>
      )}
      .
    </>
  );
}

function Types({ types, between }: { readonly types: readonly string[]; readonly between: string }) {
  return types.map((type, index) => (
    <span key={type}>
      {index === 0 ? "" : between}
      <code>
        <Shown text={type} />
      </code>
    </span>
  ));
}

/** Says how many actions pass, or how many steps are missing. */
function restText(remaining: bigint, isOrdered: boolean): string {
  if (remaining === 0n) return isOrdered ? "the last one fires" : "the next one fires";
  return `${(isOrdered ? remaining + 1n : remaining).toLocaleString("en")} left`;
}

interface GroupProps {
  readonly group: LimitGroup;
  readonly limit: Limit;
}

function Group({ group, limit }: GroupProps) {
  return (
    <>
      <span className="limit-name">
        <GroupName group={group} />
      </span>
      {group.budget === undefined ? (
        <GroupCount group={group} limit={limit} />
      ) : (
        <GroupMoney budget={group.budget} resetsAt={group.resetsAt} />
      )}
    </>
  );
}

function GroupName({ group: { agentId, name, members } }: Pick<GroupProps, "group">) {
  if (agentId === undefined) {
    return (
      <>
        <Shown text={name} /> <span className="hint">{countText(members, "agent")}</span>
      </>
    );
  }
  return (
    <Link href={`/agents/${agentId}`}>
      <Shown text={name} />
    </Link>
  );
}

function GroupMoney({ budget, resetsAt }: { readonly budget: Budget; readonly resetsAt: LimitGroup["resetsAt"] }) {
  return (
    <>
      <BudgetBar budget={budget} />
      <span className="limit-count">
        <Shown text={`${restOfBudget(budget)}; ${usedOfBudget(budget)}`} />
        {resetsAt === undefined ? null : (
          <>
            ; more fits from <ClockTime atMs={timestampMs(resetsAt)} />
          </>
        )}
      </span>
    </>
  );
}

function GroupCount({ group: { count, remaining, resetsAt }, limit }: GroupProps) {
  const isOrdered = limit.sequenceMode === SequenceMode.ORDERED;
  const most = isOrdered ? BigInt(limit.steps.length) : (limit.maxCount ?? 0n);
  const share = most === 0n ? 1 : Math.min(1, Number(count) / Number(most));
  const isLast = remaining === 0n;
  const label = `${count.toLocaleString("en")} of ${most.toLocaleString("en")}${isOrdered ? " steps" : ""}`;
  return (
    <>
      <span className={barClass(isLast && !isOrdered, isLast ? 1 : share)} aria-hidden>
        <span style={{ width: `${share * 100}%` }} />
      </span>
      <span className="limit-count">
        {label}, {restText(remaining, isOrdered)}
        {resetsAt === undefined ? null : (
          <>
            ; one more fits from <ClockTime atMs={timestampMs(resetsAt)} />
          </>
        )}
      </span>
    </>
  );
}
