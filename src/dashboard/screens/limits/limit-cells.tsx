import { Link } from "wouter";
import {
  type Limit,
  type LimitGroup,
  MandateMode,
  SequenceMode,
} from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Badge, DecisionBadge } from "../../kit/badge.tsx";
import { Shown } from "../../kit/shown.tsx";
import { durationText } from "../../kit/time.tsx";

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

/** Shows the count of each group, with the rest up to the limit. */
export function LimitGroups({ limit }: LimitProps) {
  const { groups, moreGroups } = limit;
  if (groups.length === 0) return <span className="hint">Nothing is counted yet.</span>;
  return (
    <>
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

/** Writes a limit in words: the actions it counts, the window and the group. */
export function LimitSentence({ limit }: LimitProps) {
  return (
    <p className="limit-sentence">
      <Sentence limit={limit} />
    </p>
  );
}

function Sentence({ limit }: LimitProps) {
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

function Group({
  group: { name, group, count, remaining, members },
  limit,
}: {
  readonly group: LimitGroup;
  readonly limit: Limit;
}) {
  const most = limit.sequenceMode === SequenceMode.ORDERED ? count + remaining : (limit.maxCount ?? 0n);
  const share = most === 0n ? 1 : Math.min(1, Number(count) / Number(most));
  const label = `${count.toLocaleString("en")} of ${most.toLocaleString("en")}`;
  return (
    <>
      <span className="limit-name">
        {limit.scope === Scope.AGENT ? (
          <Link href={`/agents/${group}`}>
            <Shown text={name} />
          </Link>
        ) : (
          <Shown text={name} />
        )}
        {limit.scope === Scope.AGENT ? null : <span className="hint"> {members.toLocaleString("en")} agents</span>}
      </span>
      <span className={remaining === 0n ? "bar is-full" : "bar"} aria-hidden>
        <span style={{ width: `${share * 100}%` }} />
      </span>
      <span className="limit-count">
        {label}, {remaining === 0n ? "the next one fires" : `${remaining.toLocaleString("en")} left`}
      </span>
    </>
  );
}
