import { type MouseEvent, memo } from "react";
import { Link } from "wouter";
import type { Escalation } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { shownText } from "../../kit/shown.tsx";
import { Countdown } from "../../kit/time.tsx";
import { givenText, missingText } from "./approval-words.ts";
import { leadingArgument, valueText } from "./fired-argument.ts";
import { OutcomeLine } from "./outcome.tsx";
import { type Item, isPending } from "./rows.ts";

const MAX_NAME = 60;
const MAX_VALUE = 80;

/** Properties of a row. */
export interface QueueRowProps {
  readonly escalation: Escalation;
  /** Identical pending escalations, which the row stands for. */
  readonly identical: readonly Escalation[];
  /** True if its card is shown. */
  readonly isMarked: boolean;
  readonly isSelected: boolean;
  /** Shows its card beside the list; undefined where a row opens a page of its own. */
  readonly onMark: ((id: string) => void) | undefined;
  readonly onSelect: ((ids: readonly string[], isSelected: boolean) => void) | undefined;
}

/** One escalation in one line. It renders again only when its properties change. */
export const QueueRow = memo(function QueueRow(props: QueueRowProps) {
  const { escalation, identical, isMarked, isSelected, onMark, onSelect } = props;
  const { escalationId: id, agentName, actionType, asked, expiresAt } = escalation;
  const waits = isPending(escalation);
  const approvals = waits ? givenText(escalation) : undefined;
  const show = (event: MouseEvent): void => {
    const opensElsewhere = event.metaKey || event.ctrlKey || event.shiftKey;
    if (onMark === undefined || opensElsewhere) return;
    event.preventDefault();
    onMark(id);
    // Enter leads from the line to its card; a press by pointer has a count.
    if (event.detail === 0) document.querySelector<HTMLElement>(`#card-${id} .escalation-body`)?.focus();
  };
  return (
    <div id={`line-${id}`} className={`queue-row${isMarked ? " is-marked" : ""}${waits ? "" : " is-answered"}`}>
      {onSelect === undefined ? null : (
        <SelectBox
          ids={waits ? [id] : []}
          isAll={isSelected}
          label={`Select ${shownText(actionType, MAX_NAME)} by ${shownText(agentName, MAX_NAME)}`}
          action="select"
          onSelect={onSelect}
        />
      )}
      <Link
        href={`/escalations/${id}`}
        className="queue-line"
        aria-current={isMarked ? "true" : undefined}
        onClick={show}
        onFocus={() => onMark?.(id)}
      >
        <bdi className="queue-action">{shownText(actionType, MAX_NAME)}</bdi>
        <Leading escalation={escalation} />
        <span className="queue-agent">
          <bdi>{shownText(agentName, MAX_NAME)}</bdi>
          {approvals === undefined ? null : (
            <span className="badge is-wait" data-approvals title={`${approvals} approvals; ${missingText(escalation)}`}>
              {approvals}
            </span>
          )}
          {asked > 1 ? <span className="badge is-wait">asked {asked}×</span> : null}
          {identical.length > 0 ? <span className="badge is-wait">{identical.length + 1} identical</span> : null}
        </span>
        {waits ? (
          <span className="queue-time">{expiresAt === undefined ? null : <Countdown to={expiresAt} />}</span>
        ) : (
          <span className="queue-outcome">
            <OutcomeLine escalation={escalation} />
          </span>
        )}
      </Link>
    </div>
  );
});

/** The argument that fired with its value, or the content of an action without arguments. */
function Leading({ escalation }: { readonly escalation: Escalation }) {
  const leading = leadingArgument(escalation);
  if (leading === undefined) {
    return (
      <span className="queue-argument">
        <bdi>{shownText(escalation.actionContent, MAX_VALUE)}</bdi>
      </span>
    );
  }
  return (
    <span className="queue-argument">
      <bdi className="hint">{shownText(leading.path, MAX_NAME)}</bdi>{" "}
      <bdi className="queue-value">{shownText(valueText(leading), MAX_VALUE)}</bdi>
    </span>
  );
}

/** Properties of a heading. */
export interface QueueHeadProps {
  readonly head: Extract<Item, { readonly kind: "head" }>;
  readonly selected: ReadonlySet<string>;
  readonly onSelect: ((ids: readonly string[], isSelected: boolean) => void) | undefined;
}

/** Heading of a group: its name, its count, and a box that selects all of it. */
export function QueueHead({ head: { title, members }, selected, onSelect }: QueueHeadProps) {
  const waiting = members.filter(({ escalation }) => isPending(escalation));
  const ids = waiting.map(({ escalation }) => escalation.escalationId);
  const count = waiting.reduce((sum, { identical }) => sum + 1 + identical.length, 0);
  const name = shownText(title, MAX_NAME);
  return (
    <div className="queue-row is-head">
      {onSelect === undefined ? null : (
        <SelectAll ids={ids} selected={selected} label={`Select all of ${name}`} onSelect={onSelect} />
      )}
      <h3 className="queue-line">
        <bdi>{name}</bdi>
        {members.length === 0 ? null : <span className="hint">{count.toLocaleString("en")}</span>}
      </h3>
    </div>
  );
}

/** Properties of a box that selects several rows. */
export interface SelectAllProps {
  readonly ids: readonly string[];
  readonly selected: ReadonlySet<string>;
  readonly label: string;
  readonly onSelect: (ids: readonly string[], isSelected: boolean) => void;
}

/** A box that selects several rows; it is half checked if some of them are selected. */
export function SelectAll({ ids, selected, label, onSelect }: SelectAllProps) {
  const count = ids.filter((id) => selected.has(id)).length;
  const isAll = count === ids.length;
  return (
    <SelectBox
      ids={ids}
      isAll={isAll}
      isPart={count > 0 && !isAll}
      label={label}
      action="select-all"
      onSelect={onSelect}
    />
  );
}

interface SelectBoxProps extends Omit<SelectAllProps, "selected"> {
  readonly action: string;
  readonly isAll: boolean;
  readonly isPart?: boolean;
}

/** A box in a place as high as a row, all of which can be pressed. Its place stays empty while there is nothing to select. */
function SelectBox({ ids, isAll, isPart = false, label, action, onSelect }: SelectBoxProps) {
  if (ids.length === 0) return <span className="queue-select" />;
  return (
    <label className="queue-select">
      <input
        type="checkbox"
        aria-label={label}
        data-action={action}
        checked={isAll}
        ref={(box) => {
          if (box !== null) box.indeterminate = isPart;
        }}
        onChange={() => onSelect(ids, !isAll)}
      />
    </label>
  );
}
