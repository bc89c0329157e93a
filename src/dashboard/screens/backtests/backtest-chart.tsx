import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useMemo } from "react";
import type { BacktestDay } from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { countText } from "../../kit/count-text.ts";
import type { OutcomeBar, OutcomePick } from "../../kit/outcome-bars.ts";
import { OutcomeChart } from "../../kit/outcome-chart.tsx";

const DAY_MS = 86_400_000;
const HEIGHT = 160;

/** Makes a bar of each day, also of those without a decision. */
function barsOf(days: readonly BacktestDay[]): readonly OutcomeBar[] {
  const byStart = new Map(days.map((day) => [day.at === undefined ? 0 : timestampMs(day.at), day]));
  const starts = [...byStart.keys()];
  const first = Math.min(...starts);
  const count = starts.length === 0 ? 0 : (Math.max(...starts) - first) / DAY_MS + 1;
  return Array.from({ length: count }, (_, index) => {
    const fromMs = first + index * DAY_MS;
    const { looserBy, stricterBy } = byStart.get(fromMs) ?? {};
    return {
      fromMs,
      toMs: fromMs + DAY_MS,
      allow: Number(looserBy?.allow ?? 0n),
      escalate: Number((looserBy?.escalate ?? 0n) + (stricterBy?.escalate ?? 0n)),
      block: Number(stricterBy?.block ?? 0n),
    };
  });
}

/** Returns the address of the decisions of a day. */
function decisionsHref({ fromMs, toMs }: OutcomePick): string {
  const [since, until] = [new Date(fromMs).toISOString(), new Date(toMs).toISOString()];
  return `/decisions?${new URLSearchParams({ since, until })}`;
}

/** Changed decisions by day (UTC), by the decision that would be made. */
export function BacktestChart({ days }: { readonly days: readonly BacktestDay[] }) {
  const bars = useMemo(() => barsOf(days), [days]);
  if (bars.length === 0) return null;
  const changed = bars.filter(({ allow, escalate, block }) => allow + escalate + block > 0).length;
  return (
    <section className="stack" aria-label="Changed decisions by day">
      <h3>Changed decisions by day (UTC), as they would be decided</h3>
      <OutcomeChart
        summary={`Decisions change on ${changed} of ${countText(bars.length, "day")}.`}
        bars={bars}
        height={HEIGHT}
        hrefOf={decisionsHref}
      />
    </section>
  );
}
