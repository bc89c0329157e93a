import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { useMemo } from "react";
import {
  EnforcementService,
  type SummarizeDecisionsResponse,
} from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { OUTCOME_WORDS, OUTCOMES, type OutcomeBar, type OutcomePick } from "../../kit/outcome-bars.ts";
import { OutcomeChart } from "../../kit/outcome-chart.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { useNow } from "../../kit/time.tsx";
import { useZone } from "../../kit/zone.ts";
import { countedWindow } from "./counted-window.ts";
import { addressOf, DECISION_WORDS, type FeedFilter } from "./feed-filter.ts";

const HEIGHT = 120;
/** Milliseconds between two reads of a window that is not over. */
const REFRESH_MS = 10_000;

/** Counts of the filtered decisions over time. A bar leads to its part of the time, under the same filters. */
export function Histogram({ filter }: { readonly filter: FeedFilter }) {
  const now = useNow(REFRESH_MS);
  const [zone] = useZone();
  const window = countedWindow(filter, now, zone);
  const { sinceMs, untilMs, bucketSeconds } = window;
  const query = useQuery(
    EnforcementService.method.summarizeDecisions,
    {
      since: timestampFromMs(sinceMs),
      until: timestampFromMs(untilMs),
      agentId: filter.agent,
      bucketSeconds,
      countsOnly: true,
    },
    { placeholderData: keepPreviousData, ...(untilMs > now && { refetchInterval: REFRESH_MS }) },
  );
  return (
    <section className="card stack is-tight histogram" aria-label="Decisions over time">
      <h2>{`${titleOf(filter)}, ${window.title}`}</h2>
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      {query.isPending ? <Loading what="the counts" /> : null}
      {query.data === undefined ? null : <Chart summary={query.data} filter={filter} />}
    </section>
  );
}

const UNCOUNTED = [
  { name: "outcome", title: "outcome" },
  { name: "action_type", title: "action type" },
  { name: "tool", title: "tool" },
  { name: "session", title: "session" },
] as const;
const ALL: Readonly<Record<string, string>> = { allow: "Allowed", block: "Blocked", escalate: "Escalated" };

/** Names what is counted: filters that cannot be counted by are left aside, and named. */
function titleOf(filter: FeedFilter): string {
  const what = `${ALL[filter.decision] ?? "All"} decisions${filter.agent === "" ? "" : " of this agent"}`;
  const aside = UNCOUNTED.filter(({ name }) => filter[name] !== "").map(({ title }) => title);
  return aside.length === 0 ? what : `${what}, whatever their ${aside.join(" and ")}`;
}

function Chart({ summary, filter }: { readonly summary: SummarizeDecisionsResponse; readonly filter: FeedFilter }) {
  const { buckets, until, bucketSeconds } = summary;
  const only = DECISION_WORDS.has(filter.decision) ? filter.decision : undefined;
  const bars = useMemo<readonly OutcomeBar[]>(() => {
    const endMs = until === undefined ? Number.POSITIVE_INFINITY : timestampMs(until);
    return buckets.map(({ at, allow, block, escalate }) => {
      const fromMs = at === undefined ? 0 : timestampMs(at);
      const shown = (word: string, count: bigint): number => (only === undefined || only === word ? Number(count) : 0);
      return {
        fromMs,
        toMs: Math.min(endMs, fromMs + bucketSeconds * 1_000),
        allow: shown("allow", allow),
        block: shown("block", block),
        escalate: shown("escalate", escalate),
      };
    });
  }, [buckets, until, bucketSeconds, only]);
  const counts = OUTCOMES.map((outcome) => {
    const total = bars.reduce((sum, bar) => sum + bar[outcome], 0);
    return `${total.toLocaleString("en")} ${OUTCOME_WORDS[outcome]}`;
  });
  const hrefOf = ({ fromMs, toMs, outcome }: OutcomePick): string =>
    addressOf({
      ...filter,
      since: new Date(fromMs).toISOString(),
      until: new Date(toMs).toISOString(),
      ...(outcome !== undefined && { decision: outcome }),
    });
  return <OutcomeChart summary={`In this time ${counts.join(", ")}.`} bars={bars} height={HEIGHT} hrefOf={hrefOf} />;
}
