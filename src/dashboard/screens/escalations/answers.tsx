import { type MouseEvent, useEffect, useId, useState } from "react";
import { type Escalation, Resolution } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { keepFocusNear } from "../../kit/focus-return.tsx";
import { Message } from "../../kit/message.tsx";
import { useMayChange } from "../../session.ts";
import { type Standing, standingOn } from "./approval-words.ts";
import { EditDialog } from "./edit-dialog.tsx";
import { Extend } from "./extend.tsx";
import { RejectDialog } from "./reject-dialog.tsx";
import { useReadAgain, useResolve, useWithdrawApproval } from "./use-resolve.ts";

/** Properties of the answers. */
export interface AnswersProps {
  readonly escalation: Escalation;
  /** True if the shortcut keys act on it. */
  readonly isFocused?: boolean;
  /** Returns true if a press now may be meant for another card that was here a moment ago. */
  readonly hasJustMoved?: (() => boolean) | undefined;
  /** True if shortcut keys are on. They act on this card while it is focused. */
  readonly hasShortcuts?: boolean;
  /** Identical pending escalations, which this card stands for. */
  readonly identical?: readonly Escalation[];
  /** Starts the approval of several escalations, which shows their totals first. */
  readonly onBatch?: ((escalations: readonly Escalation[]) => void) | undefined;
  /** Called when a person begins to answer it. */
  readonly onAnswer?: ((id: string) => void) | undefined;
}

/** Buttons that answer a pending escalation. */
export function Answers(props: AnswersProps) {
  const {
    escalation,
    identical = [],
    isFocused = false,
    hasJustMoved,
    hasShortcuts = false,
    onBatch,
    onAnswer,
  } = props;
  const mayChange = useMayChange();
  const resolve = useResolve();
  const withdraw = useWithdrawApproval();
  const standing = standingOn(escalation);
  const why = useId();
  const [isBusy, setIsBusy] = useState(false);
  const [fault, setFault] = useState("");
  const [note, setNote] = useState("");
  const [open, setOpen] = useState<"reject" | "edit" | undefined>(undefined);
  const { escalationId } = escalation;
  useMembershipAgain(escalationId, mayChange ? standing : undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a fault is of the state in which the button was pressed
  useEffect(() => setFault(""), [standing?.word]);
  if (!mayChange) return <p className="hint">A key of the role operator or admin can answer.</p>;
  /** Ignores a pointer press right after the cards moved. A press by key has no position, so it cannot miss. */
  const unlessMoved = (run: () => void) => (event: MouseEvent<HTMLElement>) => {
    const hasMissed = event.detail > 0 && hasJustMoved?.() === true;
    setFault(hasMissed ? "The queue moved under the pointer: press again if you mean this one." : "");
    if (hasMissed) return;
    onAnswer?.(escalationId);
    keepFocusNear(event.currentTarget);
    run();
  };
  const answer = async (call: () => Promise<string | null>): Promise<void> => {
    setIsBusy(true);
    const text = await call();
    setIsBusy(false);
    setFault(text ?? "");
  };
  const approve = (): Promise<void> => {
    const said = note.trim() === "" ? {} : { note: note.trim() };
    return answer(() => resolve({ ...said, escalationId, resolution: Resolution.APPROVED }));
  };
  const barred = (isBarred: boolean) => (isBarred ? { disabled: true, "aria-describedby": why } : {});
  const shortcut = (key: string) => (hasShortcuts ? { shortcut: key, isShortcutOn: isFocused } : {});
  return (
    <div className="answers">
      {fault === "" ? null : (
        <p className="fault-text" role="alert">
          <Message text={fault} />
        </p>
      )}
      <div role="status" className="standing">
        {standing === undefined ? null : (
          <p id={why} data-obstacle={standing.word}>
            {standing.text}
          </p>
        )}
      </div>
      {standing?.isGiven === true ? (
        <Button
          action="withdraw-approval"
          isBusy={isBusy}
          onClick={unlessMoved(() => void answer(() => withdraw(escalationId)))}
        >
          Take my approval back
        </Button>
      ) : (
        <Button
          action="approve"
          tone="primary"
          isBusy={isBusy}
          {...barred(standing !== undefined)}
          {...shortcut("a")}
          onClick={unlessMoved(() => void approve())}
        >
          Approve once
        </Button>
      )}
      <Button
        action="edit"
        {...barred(standing?.isShutOut === true)}
        {...shortcut("e")}
        onClick={unlessMoved(() => setOpen("edit"))}
      >
        Edit and approve
      </Button>
      <Button
        action="reject"
        tone="danger"
        {...barred(standing?.isShutOut === true)}
        {...shortcut("r")}
        onClick={unlessMoved(() => setOpen("reject"))}
      >
        Reject
      </Button>
      {identical.length === 0 ? null : (
        <Button action="approve-identical" onClick={unlessMoved(() => onBatch?.([escalation, ...identical]))}>
          Approve all {identical.length + 1} …
        </Button>
      )}
      <Extend escalationId={escalationId} />
      <input
        className="approval-note"
        name="approval-note"
        aria-label="Note"
        placeholder="Note, optional: the agent and the log get it"
        maxLength={2_000}
        autoComplete="off"
        value={note}
        onChange={({ target }) => setNote(target.value)}
      />
      {open === "reject" ? <RejectDialog ids={[escalationId]} note={note} onClose={() => setOpen(undefined)} /> : null}
      {open === "edit" ? <EditDialog escalation={escalation} note={note} onClose={() => setOpen(undefined)} /> : null}
    </div>
  );
}

/** Milliseconds after which it is asked again whether a person's approval counts: who is in a group changes without news of an escalation. */
const ASK_AGAIN_MS = 15_000;
/** Obstacles that a change of a group or of a key takes away. */
const OF_MEMBERSHIP: readonly string[] = ["not_a_member", "no_owner"];

/** Asks now and then whether an approval by the person counts by now, while it does not for want of a membership. */
function useMembershipAgain(escalationId: string, standing: Standing | undefined): void {
  const read = useReadAgain();
  const isOn = OF_MEMBERSHIP.includes(standing?.word ?? "");
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = setInterval(() => void read(escalationId), ASK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [isOn, read, escalationId]);
}
