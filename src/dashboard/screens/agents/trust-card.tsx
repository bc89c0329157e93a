import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { useEffect, useMemo } from "react";
import { Link } from "wouter";
import {
  AgentService,
  type GetAgentHistoryResponse,
  type TrustChange,
} from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { Shown } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { type Series, TimeChart } from "../../kit/time-chart.tsx";
import { TrustBar } from "./agent-marks.tsx";

/** Maximum number of decisions in the chart. */
const SHOWN = 500;
const RANGE = [0, 100] as const;
const CAUSES: Readonly<Record<string, string>> = {
  action_allowed: "an allowed action",
  action_blocked: "a blocked action",
  action_escalated: "an escalated action",
};

/** Writes a change of trust with its sign. */
export const changeText = (change: number): string => `${change < 0 ? "−" : "+"}${Math.abs(change).toFixed(1)}`;

/** Names the cause of a change of trust. */
export const causeText = (cause: string): string => CAUSES[cause] ?? cause;

interface TrustCardProps {
  readonly agentId: string;
  readonly trust: number;
  /** Newest decision on the agent: a new one makes the card read the history again. */
  readonly latest: string | undefined;
}

/** Trust of an agent, now and over its last decisions, as a chart and in words. */
export function TrustCard({ agentId, trust, latest }: TrustCardProps) {
  const query = useQuery(AgentService.method.getAgentHistory, { agentId, pageSize: SHOWN });
  const { refetch } = query;
  const known = query.data?.decisions[0]?.decisionId;
  useEffect(() => {
    if (known !== undefined && latest !== undefined && known !== latest) void refetch();
  }, [known, latest, refetch]);
  return (
    <section className="card stack" aria-label="Trust">
      <h2>Trust</h2>
      <TrustBar trust={trust} />
      {query.isError ? <Fault error={query.error} onRetry={() => void refetch()} /> : null}
      {query.isPending ? <Loading what="the trust over time" /> : null}
      {query.isSuccess ? <History history={query.data} trust={trust} /> : null}
    </section>
  );
}

const levelOf = ({ trustLevel }: TrustChange): number => trustLevel;

function History({ history, trust }: { readonly history: GetAgentHistoryResponse; readonly trust: number }) {
  const { trustHistory, decisions, nextPageToken } = history;
  const oldestFirst = useMemo(() => trustHistory.toSorted((a, b) => msOf(a) - msOf(b)), [trustHistory]);
  const times = useMemo(() => oldestFirst.map(msOf), [oldestFirst]);
  const series = useMemo<readonly Series[]>(
    () => [{ label: "trust", color: "accent", values: oldestFirst.map(levelOf) }],
    [oldestFirst],
  );
  const last = oldestFirst.at(-1);
  if (last === undefined)
    return <p className="hint">It has not acted yet: its trust is the workspace's initial trust.</p>;
  const levels = oldestFirst.map(levelOf);
  const [lowest, highest] = [Math.min(...levels), Math.max(...levels)];
  const changed = oldestFirst.findLast(({ change }) => change !== 0);
  const actionType = decisions.find(({ decisionId }) => decisionId === changed?.decisionId)?.actionType;
  const since = nextPageToken === undefined ? "since it was registered" : `over its last ${levels.length} decisions`;
  const text = `Now ${trust.toFixed(1)}; lowest ${lowest.toFixed(1)}, highest ${highest.toFixed(1)} ${since}.`;
  return (
    <>
      {levels.length < 2 ? null : (
        // One point makes no line, and gives the axis no range.
        <TimeChart summary={text} times={times} series={series} range={RANGE} height={170} />
      )}
      <dl className="trust-figures" data-trust>
        <div>
          <dt>now</dt>
          <dd>{trust.toFixed(1)}</dd>
        </div>
        <div>
          <dt>lowest</dt>
          <dd>{lowest.toFixed(1)}</dd>
        </div>
        <div>
          <dt>highest</dt>
          <dd>{highest.toFixed(1)}</dd>
        </div>
      </dl>
      <p className="hint">
        Lowest and highest {since}.{" "}
        {changed === undefined ? null : (
          <>
            Last change {changeText(changed.change)} by{" "}
            <Link href={`/decisions/${changed.decisionId}`}>{causeText(changed.cause)}</Link>
            {actionType === undefined ? null : (
              <>
                {" "}
                (<Shown text={actionType} />)
              </>
            )}
            , <Time at={changed.at} />.
          </>
        )}
      </p>
    </>
  );
}

const msOf = ({ at }: TrustChange): number => (at === undefined ? 0 : timestampMs(at));
