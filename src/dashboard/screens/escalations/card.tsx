import { useQuery } from "@connectrpc/connect-query";
import { memo, useMemo } from "react";
import { Link } from "wouter";
import { AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import {
  type Escalation,
  EscalationStatus,
  type GetEscalationContextResponse,
} from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { AgentName } from "../../kit/agent-name.tsx";
import { Folded } from "../../kit/folded.tsx";
import { JsonView } from "../../kit/json-view.tsx";
import { Scrolled } from "../../kit/scrolled.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Countdown, Time } from "../../kit/time.tsx";
import { useDepartmentNames } from "../agents/use-departments.ts";
import { sessionHref } from "../sessions/session-href.ts";
import { Answers, type AnswersProps } from "./answers.tsx";
import { ApprovalNeeds } from "./approval-needs.tsx";
import { ArgumentsTable, useToolArguments } from "./arguments-table.tsx";
import { Around } from "./around.tsx";
import { firedArguments } from "./fired-argument.ts";
import { Outcome } from "./outcome.tsx";
import { Reasons } from "./reasons.tsx";
import { Remembered } from "./remembered.tsx";
import { TrustSpark } from "./trust-spark.tsx";
import { type ArgumentPast, PastProvider, useApprovalContext, useSettled } from "./use-approval-context.ts";
import "../../styles/escalation-card.css";

/** Properties of a card. */
export interface CardProps extends AnswersProps {
  /** True on a screen of its own, which has room for a longer context. */
  readonly isWhole?: boolean;
}

/** One escalation: the action, the reasons and the context, which scroll, and the answers in its foot, always in view. */
export const EscalationCard = memo(function EscalationCard(props: CardProps) {
  const { escalation, identical = [], isFocused = false, isWhole = false } = props;
  const { escalationId, actionType, actionContent, tool, status, asked, expiresAt } = escalation;
  const isPending = status === EscalationStatus.PENDING;
  const isSettled = useSettled(escalationId, isWhole ? 0 : SETTLE_MS);
  const context = useApprovalContext(escalationId, isSettled);
  const past = useMemo(() => pastFrom(context.data), [context.data]);
  const fired = useMemo(() => firedArguments(escalation).map(({ path }) => path), [escalation]);
  return (
    <article
      id={`card-${escalationId}`}
      className={isFocused ? "escalation is-focused" : "escalation"}
      aria-labelledby={`${escalationId}-title`}
    >
      <header className="row">
        <h2 id={`${escalationId}-title`} className={isWhole ? "visually-hidden" : undefined}>
          {isWhole ? (
            <Shown text={actionType} />
          ) : (
            <Link href={`/escalations/${escalationId}`}>
              <Shown text={actionType} />
            </Link>
          )}
        </h2>
        {tool === undefined ? null : <Called tool={tool} isNamed={tool === actionType} />}
        {asked > 1 ? <span className="badge is-wait">asked {asked} times</span> : null}
        {identical.length > 0 ? <span className="badge is-wait">{identical.length + 1} identical</span> : null}
        {isPending && expiresAt !== undefined ? (
          <span className="time-left">
            <span className="hint">expires in</span> <Countdown to={expiresAt} />
          </span>
        ) : null}
      </header>
      <Scrolled key={escalationId} label="The action and its context" className="escalation-body">
        <Asker escalation={escalation} />
        <Reasons escalation={escalation} />
        <Remembered escalation={escalation} />
        {isPending ? <ApprovalNeeds escalation={escalation} /> : null}
        <PastProvider value={past}>
          <ArgumentsTable args={escalation.arguments} tool={tool} fired={fired} />
        </PastProvider>
        {actionContent === "" ? null : (
          <div className="content">
            <span className="hint">content</span>
            <Folded>
              <Shown text={actionContent} />
            </Folded>
          </div>
        )}
        <OtherMetadata escalation={escalation} />
        <Around escalation={escalation} context={context} isWhole={isWhole} isOn={isSettled} />
      </Scrolled>
      <footer>{isPending ? <Answers key={escalationId} {...props} /> : <Outcome escalation={escalation} />}</footer>
    </article>
  );
});

/** Milliseconds that a card is shown before its context is read: people go through the list by key. */
const SETTLE_MS = 150;

function pastFrom(context: GetEscalationContextResponse | undefined): ArgumentPast | undefined {
  if (context === undefined) return undefined;
  const { usual, usualFrom, earlier } = context;
  return {
    usual: new Map(usual.map((each) => [each.argument, each])),
    usualFrom,
    earlier: Map.groupBy(earlier, ({ argument }) => argument),
  };
}

interface CalledProps {
  readonly tool: string;
  /** True if the title names the tool already. */
  readonly isNamed: boolean;
}

function Called({ tool, isNamed }: CalledProps) {
  const { isUnknown } = useToolArguments(tool);
  if (isNamed && !isUnknown) return null;
  return (
    <span className="hint">
      calls <Shown text={tool} />
      {isUnknown ? <span className="fault-text">, not registered: no schema tells what its arguments mean</span> : null}
    </span>
  );
}

function Asker({ escalation }: { readonly escalation: Escalation }) {
  const { agentId, agentName, onBehalfOf, createdAt, sessionId } = escalation;
  return (
    <p className="row asker">
      <Link href={`/agents/${agentId}`}>
        <Shown text={agentName} />
      </Link>
      {onBehalfOf === undefined ? null : (
        <span>
          for <AgentName agentId={onBehalfOf} />
        </span>
      )}
      <TrustSpark escalation={escalation} />
      <span className="hint">
        asked <Time at={createdAt} />
        {sessionId === undefined ? null : (
          <>
            {" in session "}
            <Link href={sessionHref(sessionId)}>{sessionId}</Link>
          </>
        )}
      </span>
      <Purpose agentId={agentId} />
    </p>
  );
}

/** The same as of `AgentName`, whose cache it shares. */
const AGENT_STALE_MS = 300_000;
/** Departments that are named. */
const MAX_DEPARTMENTS = 3;

/** An agent's purpose and departments, in a line whose room is there before they were read. */
function Purpose({ agentId }: { readonly agentId: string }) {
  const { data } = useQuery(AgentService.method.getAgent, { agentId }, { staleTime: AGENT_STALE_MS });
  const nameOf = useDepartmentNames();
  const { description = "", departmentIds = [] } = data?.agent ?? {};
  const named = departmentIds.slice(0, MAX_DEPARTMENTS).map(nameOf);
  const left = departmentIds.length - named.length;
  const departments = `${named.join(", ")}${left > 0 ? ` and ${left} more` : ""}`;
  // The departments first: a long purpose is cut at its end.
  const text = [departments, description.trim() === "" ? "no purpose is registered" : description];
  const shown = data === undefined ? "" : text.filter((each) => each !== "").join(" · ");
  return (
    <span className="purpose" title={shownText(shown, 1_000)}>
      <Shown text={shown.slice(0, 400)} />
    </span>
  );
}

/** Metadata beside the arguments. Rules may read it, and the approval covers it too. */
function OtherMetadata({ escalation: { metadata, ignoredMetadata } }: { readonly escalation: Escalation }) {
  if (metadata === undefined || !("arguments" in metadata)) return null;
  const { arguments: _, ...others } = metadata;
  if (Object.keys(others).length === 0) return null;
  return (
    <div className="beside">
      <span className="hint">
        beside the arguments
        {ignoredMetadata.length === 0 ? "" : ` (not covered by the approval: ${ignoredMetadata.join(", ")})`}
      </span>
      <Folded>
        <JsonView value={others} />
      </Folded>
    </div>
  );
}
