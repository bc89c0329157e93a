import { Link } from "wouter";
import type { EarlierAnswers, UsualNumber } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Actor } from "../../kit/actor.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Time } from "../../kit/time.tsx";
import { answersOfListText, answersText, usualText } from "./past-text.ts";
import { useArgumentPast } from "./use-approval-context.ts";

/** Longest value of which it is told that nobody has answered it before. */
const MAX_NEW = 64;

/**
 * Line below an argument's value about its past. Its room is there before the past was read, so that nothing moves. `isChoice`: the
 * schema lists its values, so that earlier answers say nothing about one.
 */
export function PastLine({ path, isChoice }: { readonly path: string; readonly isChoice: boolean }) {
  const past = useArgumentPast();
  const usual = past?.usual.get(path);
  const earlier = isChoice ? [] : (past?.earlier.get(path) ?? []);
  return (
    <span className="past">
      {usual === undefined ? null : <Usual usual={usual} from={past?.usualFrom ?? 0} />}
      {earlier.length > 1 ? <EarlierOfList earlier={earlier} /> : null}
      {earlier.length === 1 && earlier[0] !== undefined ? <Earlier earlier={earlier[0]} /> : null}
    </span>
  );
}

function Usual({ usual, from }: { readonly usual: UsualNumber; readonly from: number }) {
  const { text, isUnusual } = usualText(usual, from);
  return (
    <span className={isUnusual ? "is-unusual" : undefined}>
      <Shown text={text} />
    </span>
  );
}

function Earlier({ earlier }: { readonly earlier: EarlierAnswers }) {
  const counts = answersText(earlier);
  const { last, value } = earlier;
  if (counts.length === 0) return value.length > MAX_NEW ? null : <span>no earlier answer for it</span>;
  return (
    <span className={earlier.rejected > 0 ? "is-unusual" : undefined}>
      {counts[0]}
      {last === undefined ? null : (
        <>
          , last by <Actor id={last.resolvedBy} name={last.resolvedByName} />,{" "}
          <Link href={`/escalations/${last.escalationId}`} title={shownText(last.note ?? "", 600) || undefined}>
            <Time at={last.resolvedAt} />
          </Link>
        </>
      )}
      {counts.slice(1).map((text) => `; ${text}`)}
    </span>
  );
}

/** Earlier answers for the texts of a list. */
function EarlierOfList({ earlier }: { readonly earlier: readonly EarlierAnswers[] }) {
  return (
    <span className={earlier.some(({ rejected }) => rejected > 0) ? "is-unusual" : undefined}>
      {answersOfListText(earlier)}
    </span>
  );
}
