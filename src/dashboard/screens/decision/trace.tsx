import { useMemo } from "react";
import { Link } from "wouter";
import {
  ConditionSeen,
  type TracedCondition,
  type TracedRule,
} from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { MandateMode, RuleType } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Badge, DecisionBadge } from "../../kit/badge.tsx";
import { VirtualList } from "../../kit/lists/virtual-list.tsx";
import { Shown } from "../../kit/shown.tsx";
import { valueText } from "./nearest.tsx";

const idOf = ({ mandateId, rule }: TracedRule): string => `${mandateId} ${rule}`;
const ROW_HEIGHT = 96;
/** Conditions shown per rule. */
const MAX_CONDITIONS = 50;

const SEEN: Readonly<Record<number, string>> = {
  [ConditionSeen.PRESENT]: "seen",
  [ConditionSeen.MISSING]: "missing",
  [ConditionSeen.WRONG_TYPE]: "of a type that cannot be compared",
  [ConditionSeen.OTHER_CURRENCY]: "in another currency, or in none",
};

/** Rules in force for the agent, each with its result for the action. */
export function Trace({ trace, leftOut }: { readonly trace: readonly TracedRule[]; readonly leftOut: number }) {
  const covering = useMemo(() => trace.filter(({ covers }) => covers), [trace]);
  const others = trace.length - covering.length + leftOut;
  return (
    <div className="stack is-tight">
      <h3>Rules that cover the action</h3>
      {covering.length === 0 ? (
        <p className="hint">None.</p>
      ) : (
        <VirtualList items={covering} idOf={idOf} rowHeight={ROW_HEIGHT} label="Rules that cover the action">
          {(rule) => <RuleView rule={rule} />}
        </VirtualList>
      )}
      {others === 0 ? null : (
        <p className="hint">
          {others.toLocaleString("en")} more {others === 1 ? "rule does" : "rules do"} not cover it.
        </p>
      )}
    </div>
  );
}

function RuleView({ rule: traced }: { readonly rule: TracedRule }) {
  const { mandateId, mandateName, version, rule, type, decision, mode, fires, conditions } = traced;
  return (
    <div className="traced" data-fires={fires}>
      <p className="row">
        <Badge tone={fires ? "bad" : "plain"}>{fires ? "fires" : "does not fire"}</Badge>
        <DecisionBadge decision={decision} />
        {mode === MandateMode.OBSERVE ? <Badge tone="plain">observes</Badge> : null}
        <Link href={`/mandates/${mandateId}`}>
          <Shown text={mandateName} />
        </Link>
        <span className="hint">
          version {version}, <code>{rule}</code>, {(RuleType[type] ?? "").toLowerCase()}
        </span>
      </p>
      <ul className="conditions">
        {conditions.slice(0, MAX_CONDITIONS).map((condition) => (
          <ConditionView key={`${condition.condition} ${condition.path} ${condition.operator}`} condition={condition} />
        ))}
      </ul>
      {conditions.length > MAX_CONDITIONS ? (
        <p className="hint">and {conditions.length - MAX_CONDITIONS} more conditions</p>
      ) : null}
    </div>
  );
}

function ConditionView({ condition }: { readonly condition: TracedCondition }) {
  const { path, operator, expected, seen, value, holds } = condition;
  const wanted = valueText(expected);
  const found = valueText(value);
  return (
    <li data-holds={holds}>
      <Badge tone={holds ? "wait" : "plain"}>{holds ? "holds" : "does not hold"}</Badge> <Shown text={path} />{" "}
      {operator.replaceAll("_", " ")}{" "}
      {wanted === "" ? null : (
        <code>
          <Shown text={wanted} />
        </code>
      )}
      <span className="hint">
        {found === "" ? ` — ${SEEN[seen] ?? ""}` : " — seen "}
        {found === "" ? null : (
          <code>
            <Shown text={found} />
          </code>
        )}
      </span>
    </li>
  );
}
