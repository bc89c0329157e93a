import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData, type UseQueryResult } from "@tanstack/react-query";
import { useMemo } from "react";
import { useSearchParams } from "wouter";
import {
  EnforcementService,
  type SummarizeDecisionsResponse,
} from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { OutcomeBar, OutcomePick } from "../../kit/outcome-bars.ts";
import { OutcomeChart } from "../../kit/outcome-chart.tsx";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { useNow } from "../../kit/time.tsx";
import { startOfDay, useZone } from "../../kit/zone.ts";
import "../../styles/overview.css";
import { LowTrust } from "./low-trust.tsx";
import { NeedsCard } from "./needs-card.tsx";
import { ObservedTable } from "./observed-table.tsx";
import { PendingCard } from "./pending-card.tsx";
import { ReasonTable } from "./reason-table.tsx";

const WINDOWS = [
  { name: "1h", title: "Last hour", seconds: 3_600, bucket: 60 },
  { name: "24h", title: "Last day", seconds: 86_400, bucket: 1_800 },
  { name: "7d", title: "Last week", seconds: 604_800, bucket: 14_400 },
  { name: "30d", title: "Last 30 days", seconds: 2_592_000, bucket: 86_400 },
] as const;
const DEFAULT_WINDOW = WINDOWS[1];
const CHART_HEIGHT = 340;
/** Milliseconds between two reads. */
const REFRESH_MS = 10_000;

/** Overview of the workspace over a recent window. */
export function Overview() {
  const [parameters, setParameters] = useSearchParams();
  const shown = WINDOWS.find(({ name }) => name === parameters.get("window")) ?? DEFAULT_WINDOW;
  const query = useSummary(shown.seconds, shown.bucket);
  return (
    <ScreenFrame
      name="overview"
      title="Overview"
      actions={
        <label className="row">
          <span className="visually-hidden">Window</span>
          <select
            value={shown.name}
            onChange={({ target }) => setParameters({ window: target.value }, { replace: true })}
            data-action="window"
          >
            {WINDOWS.map(({ name, title }) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
      }
    >
      <div className="overview-now">
        <NeedsCard />
        <Outcomes query={query} />
      </div>
      <div className="overview-more">
        <div className="is-wide">
          <ReasonTable summary={query.data} />
          {query.data === undefined ? null : <ObservedTable observed={query.data.observed} />}
        </div>
        <div>
          <LowTrust />
          <PendingCard />
        </div>
      </div>
    </ScreenFrame>
  );
}

/** Counts the decisions of a window that ends with the current bucket. Buckets begin at full minutes, hours or days of the page's zone. */
function useSummary(seconds: number, bucket: number): UseQueryResult<SummarizeDecisionsResponse> {
  const now = useNow(REFRESH_MS);
  const [zone] = useZone();
  const midnight = startOfDay(now, zone);
  const untilMs = midnight + Math.ceil((now - midnight + 1) / (bucket * 1_000)) * bucket * 1_000;
  const request = {
    since: timestampFromMs(untilMs - seconds * 1_000),
    until: timestampFromMs(untilMs),
    bucketSeconds: bucket,
  };
  return useQuery(EnforcementService.method.summarizeDecisions, request, {
    placeholderData: keepPreviousData,
    refetchInterval: REFRESH_MS,
  });
}

const numberText = (count: bigint): string => count.toLocaleString("en");

const COUNTS = [
  { word: "allowed", outcome: "allow", tone: "good" },
  { word: "escalated", outcome: "escalate", tone: "wait" },
  { word: "blocked", outcome: "block", tone: "bad" },
] as const;

interface OutcomesProps {
  readonly query: UseQueryResult<SummarizeDecisionsResponse>;
}

function Outcomes({ query: { data, isError, error, refetch } }: OutcomesProps) {
  return (
    <section className="card stack outcomes" aria-label="Decisions by outcome">
      <h2>Decisions by outcome</h2>
      {isError ? <Fault error={error} onRetry={() => void refetch()} /> : null}
      {data === undefined && !isError ? <Loading what="the summary" /> : null}
      {data === undefined ? null : <Summary summary={data} />}
    </section>
  );
}

/** Returns the address of the decisions that a bar, or a part of it, counts. */
function decisionsHref({ fromMs, toMs, outcome }: OutcomePick): string {
  const [since, until] = [new Date(fromMs).toISOString(), new Date(toMs).toISOString()];
  return `/decisions?${new URLSearchParams({ since, until, ...(outcome !== undefined && { decision: outcome }) })}`;
}

function Summary({ summary }: { readonly summary: SummarizeDecisionsResponse }) {
  const { buckets, bucketSeconds, totals } = summary;
  const bars = useMemo<readonly OutcomeBar[]>(
    () =>
      buckets.map(({ at, allow, escalate, block }) => {
        const fromMs = at === undefined ? 0 : timestampMs(at);
        const counts = { allow: Number(allow), escalate: Number(escalate), block: Number(block) };
        return { fromMs, toMs: fromMs + bucketSeconds * 1_000, ...counts };
      }),
    [buckets, bucketSeconds],
  );
  const countOf = (outcome: (typeof COUNTS)[number]["outcome"]): string => numberText(totals?.[outcome] ?? 0n);
  const text = COUNTS.map(({ word, outcome }) => `${countOf(outcome)} ${word}`).join(", ");
  return (
    <>
      <dl className="counts">
        {COUNTS.map(({ word, outcome, tone }) => (
          <div key={word} data-id={word}>
            <dt>
              <span className={`swatch is-${outcome}`} aria-hidden />
              {word}
            </dt>
            <dd className={`is-${tone}`}>{countOf(outcome)}</dd>
          </div>
        ))}
      </dl>
      <OutcomeChart summary={`In this window ${text}.`} bars={bars} height={CHART_HEIGHT} hrefOf={decisionsHref} />
    </>
  );
}
