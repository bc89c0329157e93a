import { useEffect, useMemo } from "react";
import { Link } from "wouter";
import {
  AgentService,
  type GetAgentHistoryResponse,
  type TrustChange,
} from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { DecisionPath, type DecisionRecord } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { DecisionBadge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { causeText, changeText } from "./trust-card.tsx";

const PAGE_SIZE = 100;
const ROW_HEIGHT = 62;

interface Event {
  readonly decision: DecisionRecord;
  readonly change: TrustChange | undefined;
}

function eventsOf({ decisions, trustHistory }: GetAgentHistoryResponse): readonly Event[] {
  const changes = new Map(trustHistory.map((change) => [change.decisionId, change]));
  return decisions.map((decision) => ({ decision, change: changes.get(decision.decisionId) }));
}
const idOf = ({ decision }: Event): string => decision.decisionId;

/** Writes a step of deciding for people: `intent contract`. */
const pathText = (path: DecisionPath): string => (DecisionPath[path] ?? "unknown").toLowerCase().replaceAll("_", " ");

interface TimelineProps {
  readonly agentId: string;
  /** Newest decision on the agent. */
  readonly latest: string | undefined;
}

/** Decisions on an agent's actions, newest first, each with its effect on trust. */
export function Timeline({ agentId, latest }: TimelineProps) {
  const request = useMemo(() => ({ agentId, pageSize: PAGE_SIZE }), [agentId]);
  const pages = usePages(AgentService.method.getAgentHistory, request, eventsOf);
  const { items, isPending, readAgain } = pages;
  const known = items[0]?.decision.decisionId;
  const hasNewer = !isPending && latest !== undefined && latest !== known;
  const isShort = items.length <= PAGE_SIZE;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a long list is read again only when its reader asks for it
  useEffect(() => {
    if (hasNewer && isShort) readAgain();
  }, [hasNewer, latest]);
  return (
    <PagedList
      pages={pages}
      loading="the timeline"
      empty={<Empty title="It has not acted yet">Every action that it attempts is shown here.</Empty>}
      idOf={idOf}
      rowHeight={ROW_HEIGHT}
      label="Timeline"
      row={(event) => <EventRow event={event} />}
    >
      {(list) => (
        <div className="stack">
          {hasNewer && !isShort ? (
            <p>
              <Button action="show-newer" onClick={readAgain}>
                Show newer decisions
              </Button>
            </p>
          ) : null}
          {list}
        </div>
      )}
    </PagedList>
  );
}

function EventRow({ event: { decision, change } }: { readonly event: Event }) {
  const { decisionId, actionType, decidedAt, decisionPath, policyName } = decision;
  return (
    <div className="event-row">
      <span>
        <DecisionBadge decision={decision.decision} />
      </span>
      <span className="event-what">
        <Link href={`/decisions/${decisionId}`} className="one-line">
          <Shown text={actionType} />
        </Link>
        <span className="hint one-line">
          {policyName === undefined ? pathText(decisionPath) : <Shown text={policyName} />}
        </span>
      </span>
      <TrustStep trust={decision.trustScore} change={change} />
      <span className="hint">
        <Time at={decidedAt} />
      </span>
    </div>
  );
}

function TrustStep({ trust, change }: { readonly trust: number; readonly change: TrustChange | undefined }) {
  if (change === undefined || change.change === 0) return <span className="hint">trust stays {trust.toFixed(1)}</span>;
  const { change: step, trustLevel, cause } = change;
  return (
    <span className="event-trust">
      <span className={step < 0 ? "fall" : "rise"}>{changeText(step)}</span> to {trustLevel.toFixed(1)}
      <span className="hint">, {causeText(cause)}</span>
    </span>
  );
}
