import { type MouseEvent, memo, useState } from "react";
import { Link } from "wouter";
import {
  type Escalation,
  EscalationStatus,
  Resolution,
} from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { AgentName } from "../../kit/agent-name.tsx";
import { Button } from "../../kit/button.tsx";
import { JsonView } from "../../kit/json-view.tsx";
import { Message } from "../../kit/message.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Countdown, Time } from "../../kit/time.tsx";
import { useMayChange } from "../../session.ts";
import { ArgumentsTable, useToolArguments } from "./arguments-table.tsx";
import { Around } from "./around.tsx";
import { EditDialog } from "./edit-dialog.tsx";
import { Extend } from "./extend.tsx";
import { Outcome } from "./outcome.tsx";
import { Reasons } from "./reasons.tsx";
import { RejectDialog } from "./reject-dialog.tsx";
import { TrustSpark } from "./trust-spark.tsx";
import { useResolve } from "./use-resolve.ts";

/** Properties of a card. */
export interface CardProps {
  readonly escalation: Escalation;
  /** True if the shortcut keys act on it. */
  readonly isFocused?: boolean;
  readonly isSelected?: boolean;
  readonly onSelect?: ((id: string, isSelected: boolean) => void) | undefined;
  readonly onFocus?: ((id: string) => void) | undefined;
  /** Returns true if a press now may be meant for another card that was here a moment ago. */
  readonly hasJustMoved?: (() => boolean) | undefined;
  readonly hasShortcuts?: boolean;
  /** Identical pending escalations, which this card stands for. */
  readonly identical?: readonly Escalation[];
  /** Starts the approval of several escalations, which shows their totals first. */
  readonly onBatch?: ((escalations: readonly Escalation[]) => void) | undefined;
  /** Called when a person begins to answer it. */
  readonly onAnswer?: ((id: string) => void) | undefined;
  /** True on a screen of its own: its context stands below the answers, since it may be long and loads later. */
  readonly isWhole?: boolean;
}

/** One escalation: the action, the reasons, and the answers. It renders again only when its properties change. */
export const EscalationCard = memo(function EscalationCard(props: CardProps) {
  const {
    escalation,
    identical = [],
    isFocused = false,
    isSelected = false,
    onSelect,
    onFocus,
    isWhole = false,
  } = props;
  const { escalationId, actionType, actionContent, tool, status, asked } = escalation;
  const isPending = status === EscalationStatus.PENDING;
  const answers = isPending ? <Answers {...props} /> : <Outcome escalation={escalation} />;
  return (
    <article
      id={`card-${escalationId}`}
      className={isFocused ? "escalation is-focused" : "escalation"}
      aria-labelledby={`${escalationId}-title`}
      onPointerDown={() => onFocus?.(escalationId)}
      onFocusCapture={() => onFocus?.(escalationId)}
    >
      <header className="row">
        {onSelect === undefined || !isPending ? null : (
          <input
            type="checkbox"
            aria-label={`Select ${actionType} by ${escalation.agentName}`}
            data-action="select"
            checked={isSelected}
            onChange={({ target }) => onSelect(escalationId, target.checked)}
          />
        )}
        <h2 id={`${escalationId}-title`}>
          <Link href={`/escalations/${escalationId}`}>
            <Shown text={actionType} />
          </Link>
        </h2>
        {tool === undefined ? null : <Called tool={tool} />}
        {asked > 1 ? <span className="badge is-wait">asked {asked} times</span> : null}
        {identical.length > 0 ? <span className="badge is-wait">{identical.length + 1} identical</span> : null}
        {isPending ? <TimeLeft escalation={escalation} /> : null}
      </header>
      <Asker escalation={escalation} />
      <ArgumentsTable args={escalation.arguments} tool={tool} />
      {actionContent === "" ? null : (
        <div className="content">
          <span className="hint">content</span>
          <Shown text={actionContent} />
        </div>
      )}
      <OtherMetadata escalation={escalation} />
      <Reasons reasons={escalation.reasons} />
      {isWhole ? answers : null}
      <Around escalation={escalation} isWhole={isWhole} />
      {isWhole ? null : answers}
    </article>
  );
});

function Called({ tool }: { readonly tool: string }) {
  const { isUnknown } = useToolArguments(tool);
  return (
    <span className="hint">
      calls <Shown text={tool} />
      {isUnknown ? <span className="fault-text">, not registered: no schema tells what its arguments mean</span> : null}
    </span>
  );
}

function TimeLeft({ escalation: { escalationId, expiresAt } }: { readonly escalation: Escalation }) {
  const mayChange = useMayChange();
  if (expiresAt === undefined) return null;
  return (
    <span className="time-left row">
      <span className="hint">expires in</span> <Countdown to={expiresAt} />
      {mayChange ? <Extend escalationId={escalationId} /> : null}
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
        {sessionId === undefined ? "" : ` in session ${sessionId}`}
      </span>
    </p>
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
      <JsonView value={others} />
    </div>
  );
}

function Answers({ escalation, identical = [], hasJustMoved, hasShortcuts = false, onBatch, onAnswer }: CardProps) {
  const mayChange = useMayChange();
  const resolve = useResolve();
  const [isBusy, setIsBusy] = useState(false);
  const [fault, setFault] = useState("");
  const [open, setOpen] = useState<"reject" | "edit" | undefined>(undefined);
  const { escalationId } = escalation;
  if (!mayChange) return <p className="hint">A key of the role operator or admin can answer.</p>;
  /** Ignores a pointer press right after the cards moved. A press by key has no position, so it cannot miss. */
  const unlessMoved = (run: () => void) => (event: MouseEvent) => {
    const hasMissed = event.detail > 0 && hasJustMoved?.() === true;
    setFault(hasMissed ? "The queue moved under the pointer: press again if you mean this one." : "");
    if (hasMissed) return;
    onAnswer?.(escalationId);
    run();
  };
  const approve = async (): Promise<void> => {
    setIsBusy(true);
    const text = await resolve({ escalationId, resolution: Resolution.APPROVED });
    setIsBusy(false);
    setFault(text ?? "");
  };
  return (
    <div className="answers">
      <Button
        action="approve"
        tone="primary"
        isBusy={isBusy}
        shortcut={hasShortcuts ? "a" : undefined}
        onClick={unlessMoved(() => void approve())}
      >
        Approve once
      </Button>
      <Button action="edit" shortcut={hasShortcuts ? "e" : undefined} onClick={unlessMoved(() => setOpen("edit"))}>
        Edit and approve
      </Button>
      <Button
        action="reject"
        tone="danger"
        shortcut={hasShortcuts ? "r" : undefined}
        onClick={unlessMoved(() => setOpen("reject"))}
      >
        Reject
      </Button>
      {identical.length === 0 ? null : (
        <Button action="approve-identical" onClick={unlessMoved(() => onBatch?.([escalation, ...identical]))}>
          Approve all {identical.length + 1} …
        </Button>
      )}
      {fault === "" ? null : (
        <p className="fault-text" role="alert">
          <Message text={fault} />
        </p>
      )}
      {open === "reject" ? <RejectDialog ids={[escalationId]} onClose={() => setOpen(undefined)} /> : null}
      {open === "edit" ? <EditDialog escalation={escalation} onClose={() => setOpen(undefined)} /> : null}
    </div>
  );
}
