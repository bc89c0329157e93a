import { useQuery } from "@connectrpc/connect-query";
import { type RefObject, useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { EnforcementService } from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { Escalation } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import type { CollectiveLimit } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { DecisionBadge } from "../../kit/badge.tsx";
import { CopyButton } from "../../kit/copy.tsx";
import { JsonView } from "../../kit/json-view.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { durationText, Time } from "../../kit/time.tsx";

const BEFORE = 10;
const BEFORE_ON_CARD = 3;
const MAX_LIMITS = 50;
/** Limits that fit before they are read: see the style of `.around section`. */
const LIMITS_ON_CARD = 2;
const SETTLE_MS = 400;
const STALE_MS = 60_000;
const DIGEST_SHOWN = 12;

/** Context of an escalation. A card in the queue shows the first items, once it has been in view for a moment. */
export function Around({ escalation, isWhole }: { readonly escalation: Escalation; readonly isWhole: boolean }) {
  const shown = useRef<HTMLDivElement>(null);
  const isSettled = useSettled(shown, isWhole ? 0 : SETTLE_MS);
  const limit = isWhole ? BEFORE : BEFORE_ON_CARD;
  return (
    <div ref={shown} className={isWhole ? "around is-whole" : "around"}>
      <Before escalation={escalation} limit={limit} isOn={isSettled} />
      <Limits decisionId={escalation.decisionId} limit={isWhole ? MAX_LIMITS : LIMITS_ON_CARD} isOn={isSettled} />
      <Covered escalation={escalation} isWhole={isWhole} />
    </div>
  );
}

/** Returns true once an element has been in view for some time, so that cards merely scrolled past read nothing. */
function useSettled(element: RefObject<HTMLElement | null>, ms: number): boolean {
  const [isSettled, setIsSettled] = useState(ms === 0);
  useEffect(() => {
    if (isSettled || element.current === null) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const observer = new IntersectionObserver((entries) => {
      clearTimeout(timer);
      if (entries.at(-1)?.isIntersecting) timer = setTimeout(() => setIsSettled(true), ms);
    });
    observer.observe(element.current);
    return () => {
      clearTimeout(timer);
      observer.disconnect();
    };
  }, [element, isSettled, ms]);
  return isSettled;
}

interface PartProps {
  /** Maximum number of items shown. */
  readonly limit: number;
  readonly isOn: boolean;
}

function Before({ escalation, limit, isOn }: PartProps & { readonly escalation: Escalation }) {
  const { agentId, sessionId, decisionId, createdAt } = escalation;
  const query = useQuery(
    EnforcementService.method.listDecisions,
    {
      agentId,
      pageSize: limit + 1,
      ...(sessionId !== undefined && { sessionId }),
      ...(createdAt !== undefined && { until: createdAt }),
    },
    { enabled: isOn, staleTime: STALE_MS },
  );
  const before = (query.data?.decisions ?? []).filter((each) => each.decisionId !== decisionId).slice(0, limit);
  return (
    <section aria-label="Before">
      <h3>{sessionId === undefined ? "Just before" : "Just before, in this session"}</h3>
      {query.isPending ? <Loading what="the actions" /> : null}
      {query.isError ? <Fault error={query.error} /> : null}
      {query.isSuccess && before.length === 0 ? <p className="hint">Nothing else.</p> : null}
      <ul className="before">
        {before.map(({ decisionId: id, actionType, decision, decidedAt }) => (
          <li key={id} data-id={id}>
            <DecisionBadge decision={decision} />
            <Link href={`/decisions/${id}`}>
              <Shown text={actionType} />
            </Link>
            <Time at={decidedAt} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Limits({ decisionId, limit: shown, isOn }: PartProps & { readonly decisionId: string }) {
  const query = useQuery(EnforcementService.method.getDecision, { decisionId }, { enabled: isOn, staleTime: STALE_MS });
  const limits = (query.data?.receipt?.authorisation?.collectiveLimits ?? []).toSorted(
    (a, b) => shareOf(b.count, b.limit) - shareOf(a.count, a.limit),
  );
  return (
    <section aria-label="Shared limits">
      <h3>Shared limits</h3>
      {query.isPending ? <Loading what="the limits" /> : null}
      {query.isError ? <Fault error={query.error} /> : null}
      {query.isSuccess && limits.length === 0 ? <p className="hint">No limit counts this action.</p> : null}
      <ul className="stack">
        {limits.slice(0, shown).map((limit) => (
          <li key={`${limit.mandateId} ${limit.rule} ${limit.group}`}>
            <LimitBar limit={limit} />
          </li>
        ))}
      </ul>
      {limits.length > shown ? <p className="hint">and {limits.length - shown} more, on the decision</p> : null}
    </section>
  );
}

/** Share of a limit that is used; above 1 beyond the limit. */
const shareOf = (part: bigint, limit: bigint): number => (limit === 0n ? Infinity : Number(part) / Number(limit));

function LimitBar({ limit: { count, limit, group, window } }: { readonly limit: CollectiveLimit }) {
  const filled = Math.min(1, shareOf(count, limit));
  const before = Math.min(1, shareOf(count - 1n, limit));
  return (
    <>
      <span>
        {(count - 1n).toString()} before, {count.toString()} with this action, of {limit.toString()} in{" "}
        {durationText(Number(window) * 1_000)} for <Shown text={group} />
      </span>
      <span className={count > limit ? "bar is-full" : "bar"} aria-hidden>
        <span style={{ width: `${before * 100}%` }} />
        <span className="is-new" style={{ width: `${(filled - before) * 100}%` }} />
      </span>
    </>
  );
}

function Covered({ escalation, isWhole }: { readonly escalation: Escalation; readonly isWhole: boolean }) {
  const { actionDigest, ignoredMetadata, metadata } = escalation;
  return (
    <section aria-label="What the approval covers">
      <h3>An approval covers</h3>
      <p>
        This exact action, once: <code title={actionDigest}>{actionDigest.slice(0, DIGEST_SHOWN)}…</code>{" "}
        <CopyButton text={actionDigest} what="the digest" isSmall />
      </p>
      {ignoredMetadata.length === 0 ? null : (
        <p>
          It leaves out the metadata <Shown text={ignoredMetadata.join(", ")} />.
        </p>
      )}
      {metadata === undefined || !isWhole ? null : (
        <details>
          <summary>All metadata, as sent</summary>
          <JsonView value={metadata} />
        </details>
      )}
    </section>
  );
}
