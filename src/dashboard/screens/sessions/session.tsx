import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import {
  AuthorityService,
  AuthorityStatus,
  type Session as SessionMessage,
} from "../../../../gen/agentcontrol/v1/authority_service_pb.js";
import { AgentName } from "../../kit/agent-name.tsx";
import { ScreenFrame, type ScreenPlace } from "../../kit/screen.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import type { ScreenProps } from "../../screens.tsx";
import { AuthorityBadge } from "../agents/authority-badge.tsx";
import "../../styles/sessions.css";
import { ObservedCard } from "./observed-card.tsx";
import { OutsideList } from "./outside-list.tsx";
import { PlanCard, usePlan } from "./plan-card.tsx";

/** Milliseconds between two reads of the session. */
const REFRESH_MS = 5_000;
const AGENTS: ScreenPlace = { title: "Agents", href: "/agents" };

/** One session: the plan that covers it, the actions outside the plan, and what it observed in numbers. */
export function Session({ id = "" }: ScreenProps) {
  const query = useQuery(AuthorityService.method.getSession, { sessionId: id }, { refetchInterval: REFRESH_MS });
  const { session, observations, intentContractId } = query.data ?? {};
  const name = session?.purpose.trim() ?? "";
  return (
    <ScreenFrame
      name="session"
      title={name === "" ? "Session" : shownText(name)}
      pageTitle={name === "" ? "Session" : `Session: ${shownText(name)}`}
      within={session === undefined ? AGENTS : { title: "Agent", href: `/agents/${session.agentId}?tab=authority` }}
      actions={
        session === undefined ? undefined : (
          <Link className="button" data-action="decisions" href={`/decisions?session=${encodeURIComponent(id)}`}>
            All decisions
          </Link>
        )
      }
    >
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      {query.isPending ? <Loading what="the session" /> : null}
      {session === undefined ? null : (
        <>
          <div className="split">
            <AboutCard session={session} />
            <ObservedCard observations={observations} hasEnded={session.status !== AuthorityStatus.ACTIVE} />
          </div>
          <Planned session={session} contractId={intentContractId} />
        </>
      )}
    </ScreenFrame>
  );
}

interface PlannedProps {
  readonly session: SessionMessage;
  /** Contract in force that covers the session; undefined without one. */
  readonly contractId: string | undefined;
}

/** The plan of a session, and below it, once its height is known, what was outside. */
function Planned({ session, contractId }: PlannedProps) {
  const plan = usePlan(session, contractId);
  return (
    <>
      <PlanCard session={session} plan={plan} />
      {plan.isPending ? null : <OutsideList sessionId={session.sessionId} />}
    </>
  );
}

function AboutCard({ session }: { readonly session: SessionMessage }) {
  const { sessionId, agentId, purpose, status, createdAt, expiresAt, endedAt } = session;
  return (
    <section className="card stack" aria-label="About the session">
      <h2>Agent and times</h2>
      <dl className="facts">
        <dt>Session</dt>
        <dd>
          <code>{sessionId}</code>
        </dd>
        <dt>Status</dt>
        <dd data-status>
          <AuthorityBadge status={status} />
        </dd>
        <dt>Agent</dt>
        <dd>
          <AgentName agentId={agentId} />
        </dd>
        <dt>Purpose</dt>
        <dd>{purpose.trim() === "" ? <span className="hint">none was given</span> : <Shown text={purpose} />}</dd>
        <dt>Began</dt>
        <dd>
          <Time at={createdAt} />
        </dd>
        {endedAt === undefined ? (
          <>
            <dt>{status === AuthorityStatus.EXPIRED ? "Expired" : "Expires"}</dt>
            <dd>
              <Time at={expiresAt} />
            </dd>
          </>
        ) : (
          <>
            <dt>Ended</dt>
            <dd>
              <Time at={endedAt} />
            </dd>
          </>
        )}
      </dl>
    </section>
  );
}
