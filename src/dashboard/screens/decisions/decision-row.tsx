import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { Link } from "wouter";
import type { Decision, DecisionRecord } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { OutcomeBadge } from "../../kit/action-outcome.tsx";
import { DecisionBadge } from "../../kit/badge.tsx";
import { Message } from "../../kit/message.tsx";
import { Shown } from "../../kit/shown.tsx";
import { isoText, startOfDay, useZone, zonedText } from "../../kit/zone.ts";
import { DECISION_WORDS } from "./feed-filter.ts";

/** Characters of a text that fit into a row. */
const MAX_TEXT = 160;

const Short = ({ text }: { readonly text: string }) => <Shown text={text.slice(0, MAX_TEXT)} />;

const WORDS: ReadonlyMap<Decision, string> = new Map([...DECISION_WORDS].map(([word, decision]) => [decision, word]));

/** One decision of the feed. It leads to its receipt. */
export function DecisionRow({ record }: { readonly record: DecisionRecord }) {
  const { decisionId, decision, decidedAt, agentId, agentName, actionType, tool, reason, outcome } = record;
  return (
    <Link href={`/decisions/${decisionId}`} className="line-row feed-row" data-decision={WORDS.get(decision)}>
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
        <Message text={reason.slice(0, MAX_TEXT)} />
      </span>
      <span className="feed-outcome">{outcome === undefined ? null : <OutcomeBadge status={outcome.status} />}</span>
    </Link>
  );
}

const DAY = { day: "numeric", month: "short", year: "numeric" } as const;

/** Shows the time to the millisecond, with the date unless it is today. */
function Clock({ at }: { readonly at: Timestamp | undefined }) {
  const [zone] = useZone();
  if (at === undefined) return null;
  const ms = timestampMs(at);
  const iso = isoText(ms, zone);
  const isToday = startOfDay(ms, zone) === startOfDay(Date.now(), zone);
  return (
    <time className="clock" dateTime={isoText(ms, "utc")} title={iso}>
      {isToday ? null : <span className="clock-day">{zonedText(ms, zone, DAY)} </span>}
      {iso.slice(11, 19)}
      <span className="clock-ms">{iso.slice(19, 23)}</span>
    </time>
  );
}
