import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { useMemo } from "react";
import { useSearchParams } from "wouter";
import {
  EnforcementService,
  type SummarizeDecisionsResponse,
} from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { useNow } from "../../kit/time.tsx";
import { type Series, TimeChart } from "../../kit/time-chart.tsx";
import "../../styles/overview.css";
import { Health } from "./health.tsx";
import { LowTrust } from "./low-trust.tsx";
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
/** Milliseconds between two reads. */
const REFRESH_MS = 10_000;

/** Overview of the workspace over a recent window. */
export function Overview() {
  const [parameters, setParameters] = useSearchParams();
  const shown = WINDOWS.find(({ name }) => name === parameters.get("window")) ?? DEFAULT_WINDOW;
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
        <PendingCard />
        <Health />
        <LowTrust />
      </div>
      <Summary seconds={shown.seconds} bucket={shown.bucket} />
    </ScreenFrame>
  );
}

function Summary({ seconds, bucket }: { readonly seconds: number; readonly bucket: number }) {
  const now = useNow(REFRESH_MS);
  // Rounded, so that reads within one interval share their request and its cached answer.
  const untilMs = Math.ceil(now / REFRESH_MS) * REFRESH_MS;
  const request = {
    since: timestampFromMs(untilMs - seconds * 1_000),
    until: timestampFromMs(untilMs),
    bucketSeconds: bucket,
  };
  const query = useQuery(EnforcementService.method.summarizeDecisions, request, { placeholderData: keepPreviousData });
  if (query.isError) return <Fault error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return <Loading what="the summary" />;
  return (
    <>
      <Outcomes summary={query.data} />
      <div className="split">
        <ReasonTable summary={query.data} />
        <ObservedTable observed={query.data.observed} />
      </div>
    </>
  );
}

const numberText = (count: bigint): string => count.toLocaleString("en");

function Outcomes({ summary }: { readonly summary: SummarizeDecisionsResponse }) {
  const { buckets, totals } = summary;
  const times = useMemo(() => buckets.map(({ at }) => (at === undefined ? 0 : timestampMs(at))), [buckets]);
  const series = useMemo<readonly Series[]>(
    () => [
      { label: "allow", color: "good", values: buckets.map(({ allow }) => Number(allow)) },
      { label: "escalate", color: "wait", values: buckets.map(({ escalate }) => Number(escalate)) },
      { label: "block", color: "bad", values: buckets.map(({ block }) => Number(block)) },
    ],
    [buckets],
  );
  const { allow = 0n, block = 0n, escalate = 0n } = totals ?? {};
  const counts = [
    { word: "allowed", count: allow, tone: "good" },
    { word: "escalated", count: escalate, tone: "wait" },
    { word: "blocked", count: block, tone: "bad" },
  ];
  const text = counts.map(({ word, count }) => `${numberText(count)} ${word}`).join(", ");
  return (
    <section className="card stack" aria-label="Decisions by outcome">
      <h2>Decisions by outcome</h2>
      <dl className="counts">
        {counts.map(({ word, count, tone }) => (
          <div key={word} data-id={word}>
            <dt>{word}</dt>
            <dd className={`is-${tone}`}>{numberText(count)}</dd>
          </div>
        ))}
      </dl>
      <TimeChart summary={`In this window ${text}.`} times={times} series={series} height={220} />
    </section>
  );
}
