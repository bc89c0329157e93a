import { Link } from "wouter";
import type { DecisionRecord } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { DecisionBadge } from "../../kit/badge.tsx";
import { Clock } from "../../kit/clock.tsx";
import { Shown } from "../../kit/shown.tsx";

/** Characters of a text that a row has room for. */
const MAX_TEXT = 160;

const Short = ({ text }: { readonly text: string }) => <Shown text={text.slice(0, MAX_TEXT)} />;

/** One decision of the feed; leads to its receipt. */
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
