import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Link } from "wouter";
import { listAt, numberAt, textAt } from "../../../verify/json.ts";
import { BudgetBar } from "../../kit/budget-bar.tsx";
import { type Budget, moneyText, restOfBudget, usedOfBudget } from "../../kit/money.ts";
import { Shown } from "../../kit/shown.tsx";
import { ClockTime, durationText } from "../../kit/time.tsx";

const WHOSE: Readonly<Record<string, string>> = {
  department: "the department together",
  workspace: "the workspace together",
};

/** Shared counters that rules read, with their values at the decision; nothing if no rule counted the action. */
export function LimitBars({ body }: { readonly body: JsonObject }) {
  const limits = listAt(body, "authorisation.collective_limits");
  if (limits.length === 0) return null;
  return (
    <section className="card stack" aria-labelledby="limits-title">
      <h2 id="limits-title">Shared limits</h2>
      <ul className="stack">
        {limits.map((limit) => (
          <li key={`${textAt(limit, "mandate_id")} ${textAt(limit, "rule")} ${textAt(limit, "group")}`}>
            <LimitBar limit={limit} actorId={textAt(body, "action.agent_id")} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Reads the budget of a sealed limit; undefined for a limit that counts. */
function budgetOf(limit: JsonValue): Budget | undefined {
  const currency = textAt(limit, "budget.currency");
  if (currency === "") return undefined;
  const amount = (name: string): number => numberAt(limit, `budget.${name}`) ?? 0;
  return {
    currency,
    limit: amount("limit"),
    total: amount("total"),
    reserved: amount("reserved"),
    captured: amount("captured"),
    remaining: amount("remaining"),
  };
}

function LimitBar({ limit, actorId }: { readonly limit: JsonValue; readonly actorId: string }) {
  const window = durationText((numberAt(limit, "window") ?? 0) * 1_000);
  const budget = budgetOf(limit);
  const members = numberAt(limit, "members") ?? 0;
  const scope = textAt(limit, "scope");
  const resetsAtMs = Date.parse(textAt(limit, "resets_at"));
  return (
    <div className="stack is-tight" data-limit={textAt(limit, "rule")}>
      {budget === undefined ? <CountBar limit={limit} window={window} /> : <MoneyBar budget={budget} window={window} />}
      <p className="hint">
        {budget === undefined ? "Counts" : "Adds for"}{" "}
        <Whose scope={scope} group={textAt(limit, "group")} actorId={actorId} />
        {scope === "agent" ? "" : ` (${members.toLocaleString("en")} ${members === 1 ? "agent" : "agents"})`}, by{" "}
        <Link href={`/mandates/${textAt(limit, "mandate_id")}`}>
          <code>{textAt(limit, "rule")}</code> of the mandate
        </Link>
        {textAt(limit, "source") === "mirror" ? "; its history was read from the mirror" : ""}
        {Number.isNaN(resetsAtMs) ? null : (
          <>
            ; {budget === undefined ? "one more" : "more"} fits from <ClockTime atMs={resetsAtMs} />
          </>
        )}
      </p>
    </div>
  );
}

function CountBar({ limit, window }: { readonly limit: JsonValue; readonly window: string }) {
  const [count = 0, max = 0] = [numberAt(limit, "count"), numberAt(limit, "limit")];
  const isOver = count > max;
  return (
    <>
      <div className="row is-apart">
        <span>{`${count.toLocaleString("en")} of ${max.toLocaleString("en")} within ${window}`}</span>
        <span className="hint">{isOver ? "exceeded" : `${(max - count).toLocaleString("en")} left`}</span>
      </div>
      <div className={isOver ? "bar is-full" : "bar"} aria-hidden>
        <span style={{ width: `${Math.min(100, (100 * count) / Math.max(1, max))}%` }} />
      </div>
    </>
  );
}

/** Shows a budget as it stood with this action: reserved is what this action would add, too. */
function MoneyBar({ budget, window }: { readonly budget: Budget; readonly window: string }) {
  return (
    <>
      <div className="row is-apart">
        <span>
          <Shown text={`${moneyText(budget.total, budget.currency)} with this action within ${window}`} />
        </span>
        <span className="hint">
          <Shown text={restOfBudget(budget)} />
        </span>
      </div>
      <BudgetBar budget={budget} />
      <p className="hint">
        <Shown text={usedOfBudget(budget)} />
      </p>
    </>
  );
}

/** Names the group of a counter. A counter of one agent that did not act counts for the principal. */
function Whose({
  scope,
  group,
  actorId,
}: {
  readonly scope: string;
  readonly group: string;
  readonly actorId: string;
}) {
  if (scope !== "agent") return WHOSE[scope] ?? <Shown text={scope} />;
  if (group === actorId) return "this agent";
  return (
    <>
      the principal{" "}
      <Link href={`/agents/${group}`}>
        <code>{group}</code>
      </Link>
    </>
  );
}
