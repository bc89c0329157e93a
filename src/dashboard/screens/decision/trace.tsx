import { useMemo } from "react";
import { Link } from "wouter";
import {
  ConditionSeen,
  type TracedCondition,
  type TracedRule,
  type TracedValue,
} from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import type { UsedList } from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
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
  const { path, operator, expected, seen, value, holds, lists, values } = condition;
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
      {values.slice(0, MAX_VALUES).map((each, index) => (
        <ValueLine key={index} place={index + 1} value={each} />
      ))}
      {lists.map((list) => (
        <ListLine key={list.name} list={list} />
      ))}
    </li>
  );
}

/** Values of an argument whose origins are shown. */
const MAX_VALUES = 10;

/** Origins of one value of an argument. */
function ValueLine({ place, value }: { readonly place: number; readonly value: TracedValue }) {
  const { sources, tools, fires } = value;
  return (
    <p className="hint" data-part="value">
      value {place}: {sources.length === 0 ? "seen nowhere" : <Shown text={`in ${sources.join(", ")}`} />}
      {tools.length === 0 ? null : <Shown text={`, of ${tools.join(", ")}`} />}
      {fires ? ": the rule fires" : ""}
    </p>
  );
}

/** Characters of a digest that are shown; the whole one is its title. */
const SHOWN_DIGEST = 12;

/** A list that a comparison looked into, with the values that matched. */
function ListLine({ list: { name, digest, matched } }: { readonly list: UsedList }) {
  return (
    <p className="hint" data-part="list">
      list{" "}
      <Link href={`/lists/${encodeURIComponent(name)}`}>
        <Shown text={name} />
      </Link>{" "}
      {digest === undefined ? (
        "does not exist"
      ) : (
        <>
          with digest <code title={digest}>{digest.slice(0, SHOWN_DIGEST)}…</code>
          {matched.length === 0 ? ": nothing matched" : ", matched "}
          {matched.map((value, index) => (
            <span key={value}>
              {index === 0 ? "" : ", "}
              <code>
                <Shown text={value} />
              </code>
            </span>
          ))}
        </>
      )}
    </p>
  );
}
