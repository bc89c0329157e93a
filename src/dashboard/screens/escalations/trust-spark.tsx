import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { useEffect } from "react";
import { AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import type { Escalation } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";

const WIDTH = 96;
const HEIGHT = 24;
const POINTS = 30;
const STALE_MS = 30_000;
/** Smallest range of trust on the vertical axis, so that small steps look small. */
const MIN_SPAN = 10;

function rangeOf(values: readonly number[]): readonly [number, number] {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const pad = Math.max(0, MIN_SPAN - (high - low)) / 2;
  return [low - pad, high + pad];
}

/** Trust of the agent at the time of its request, with its last changes as a sparkline, whose room is there before they were read. */
export function TrustSpark({ escalation: { agentId, trustScore, createdAt } }: { readonly escalation: Escalation }) {
  const query = useQuery(AgentService.method.getAgentHistory, { agentId, pageSize: POINTS }, { staleTime: STALE_MS });
  const { data, refetch } = query;
  const newest = data?.trustHistory[0]?.at;
  const isBehind =
    data !== undefined &&
    createdAt !== undefined &&
    (newest === undefined || timestampMs(newest) < timestampMs(createdAt));
  // Cards of one agent share the history; a newer card reads it again.
  useEffect(() => {
    if (isBehind) void refetch();
  }, [isBehind, refetch]);
  const values = (data?.trustHistory ?? []).map(({ trustLevel }) => trustLevel).reverse();
  return (
    <span className="trust">
      trust {trustScore.toFixed(1)}
      {values.length < 2 ? (
        <svg className="spark" width={WIDTH} height={HEIGHT} aria-hidden />
      ) : (
        <SparkLine
          values={values}
          range={rangeOf(values)}
          label={`trust over the last ${values.length} changes, from ${values[0]?.toFixed(1)} to ${values.at(-1)?.toFixed(1)}`}
        />
      )}
    </span>
  );
}

interface SparkLineProps {
  readonly values: readonly number[];
  /** Description of the line, for screen readers. */
  readonly label: string;
  readonly range: readonly [number, number];
}

/** A sparkline as high as a line of text, without axes. */
function SparkLine({ values, label, range: [low, high] }: SparkLineProps) {
  const step = WIDTH / Math.max(1, values.length - 1);
  const points = values.map((value, index) => {
    const share = (value - low) / (high - low);
    return `${(index * step).toFixed(1)},${(HEIGHT - 2 - share * (HEIGHT - 4)).toFixed(1)}`;
  });
  return (
    <svg
      className="spark"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={label}
    >
      <polyline points={points.join(" ")} fill="none" stroke="currentcolor" strokeWidth="1.6" />
    </svg>
  );
}
