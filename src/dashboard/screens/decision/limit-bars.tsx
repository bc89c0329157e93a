import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Link } from "wouter";
import { listAt, numberAt, textAt } from "../../../verify/json.ts";
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

function LimitBar({ limit, actorId }: { readonly limit: JsonValue; readonly actorId: string }) {
  const [count = 0, max = 0] = [numberAt(limit, "count"), numberAt(limit, "limit")];
  const window = durationText((numberAt(limit, "window") ?? 0) * 1_000);
  const members = numberAt(limit, "members") ?? 0;
  const scope = textAt(limit, "scope");
  const isOver = count > max;
  const resetsAtMs = Date.parse(textAt(limit, "resets_at"));
  const text = `${count.toLocaleString("en")} of ${max.toLocaleString("en")} within ${window}`;
  return (
    <div className="stack is-tight" data-limit={textAt(limit, "rule")}>
      <div className="row is-apart">
        <span>{text}</span>
        <span className="hint">{isOver ? "exceeded" : `${(max - count).toLocaleString("en")} left`}</span>
      </div>
      <div className={isOver ? "bar is-full" : "bar"} aria-hidden>
        <span style={{ width: `${Math.min(100, (100 * count) / Math.max(1, max))}%` }} />
      </div>
      <p className="hint">
        Counts <Whose scope={scope} group={textAt(limit, "group")} actorId={actorId} />
        {scope === "agent" ? "" : ` (${members.toLocaleString("en")} ${members === 1 ? "agent" : "agents"})`}, by{" "}
        <Link href={`/mandates/${textAt(limit, "mandate_id")}`}>
          <code>{textAt(limit, "rule")}</code> of the mandate
        </Link>
        {textAt(limit, "source") === "mirror" ? "; its history was read from the mirror" : ""}
        {Number.isNaN(resetsAtMs) ? null : (
          <>
            ; one more fits from <ClockTime atMs={resetsAtMs} />
          </>
        )}
      </p>
    </div>
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
