import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { Link } from "wouter";
import type { DecisionRecord } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { DecisionBadge } from "../../kit/badge.tsx";
import { Shown } from "../../kit/shown.tsx";

/** Characters of a text that fit into a row. */
const MAX_TEXT = 160;

const Short = ({ text }: { readonly text: string }) => <Shown text={text.slice(0, MAX_TEXT)} />;

/** One decision of the feed. It leads to its receipt. */
export function DecisionRow({ record }: { readonly record: DecisionRecord }) {
  const { decisionId, decision, decidedAt, agentId, agentName, actionType, tool, reason } = record;
  return (
    <Link href={`/decisions/${decisionId}`} className="feed-row">
      <span className="feed-time">
        <Clock at={decidedAt} />
      </span>
      <span className="feed-decision">
        <DecisionBadge decision={decision} />
      </span>
      <span className="feed-agent cut" title={agentId}>
        <Short text={agentName || agentId} />
      </span>
      <span className="feed-action cut">
        <Short text={actionType} />
        {tool === undefined || tool === actionType ? null : (
          <span className="hint">
            {" with "}
            <Short text={tool} />
          </span>
        )}
      </span>
      <span className="feed-reason cut hint">
        <Short text={reason} />
      </span>
    </Link>
  );
}

const two = (n: number): string => String(n).padStart(2, "0");
const DAY = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", year: "numeric" });

/** Shows the time to the millisecond, with the date unless it is today. */
function Clock({ at }: { readonly at: Timestamp | undefined }) {
  if (at === undefined) return null;
  const time = new Date(timestampMs(at));
  const clock = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
  const isToday = time.toDateString() === new Date().toDateString();
  return (
    <time className="clock" dateTime={time.toISOString()} title={time.toISOString()}>
      {isToday ? null : <span className="clock-day">{DAY.format(time)} </span>}
      {clock}
      <span className="clock-ms">.{String(time.getMilliseconds()).padStart(3, "0")}</span>
    </time>
  );
}
