import type { Limit } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { countText } from "../../kit/count-text.ts";
import { shownText } from "../../kit/shown.tsx";
import { durationText } from "../../kit/time.tsx";

/** Shows the counts of the first group by equal parts of the window, the newest at the right. */
export function LimitHistory({ limit: { history, groups, windowSeconds } }: { readonly limit: Limit }) {
  const [group] = groups;
  if (history.length === 0 || group === undefined || group.count === 0n) return null;
  const counts = history.map(Number);
  const most = Math.max(...counts);
  const windowMs = Number(windowSeconds) * 1_000;
  const partMs = windowMs / counts.length;
  const latest = counts.findLastIndex((count) => count > 0);
  const agoMs = (counts.length - 1 - latest) * partMs;
  const label = `${shownText(group.name)}: ${countText(group.count, "action")} within ${durationText(windowMs)}, at most ${most.toLocaleString("en")} in ${durationText(partMs)}, the latest ${agoMs === 0 ? "just now" : `about ${durationText(agoMs)} ago`}`;
  return (
    <div className="limit-history">
      <div className="limit-bars" role="img" aria-label={label} title={label}>
        {counts.map((count, part) => (
          <span key={part} style={{ height: `${(count / most) * 100}%` }} />
        ))}
      </div>
      <p className="limit-axis" aria-hidden>
        <span>{durationText(windowMs)} ago</span>
        <span>now</span>
      </p>
    </div>
  );
}
