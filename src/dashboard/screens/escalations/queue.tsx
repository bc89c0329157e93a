import { useCallback, useMemo, useState } from "react";
import { useLocation } from "wouter";
import type { Escalation } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { useNarrow } from "../../kit/lists/use-narrow.ts";
import { VirtualList } from "../../kit/lists/virtual-list.tsx";
import { useShortcuts } from "../../kit/shortcuts.ts";
import { Empty } from "../../kit/states.tsx";
import { useMayChange } from "../../session.ts";
import { Batch } from "./batch.tsx";
import { EscalationCard } from "./card.tsx";
import { QueueHead, QueueRow } from "./queue-row.tsx";
import type { QueueView } from "./queue-view.ts";
import { type Item, idOfRow, isPending, itemsFrom, type Lingering, type Row, rowsFrom, useHeldRows } from "./rows.ts";
import { useMark } from "./use-mark.ts";

/** Height of a line and of a heading, pixels; the style sheet sets it. */
const ROW_HEIGHT = 44;
/** Pixels of the widest page on which the list takes the whole width and a row opens a page of its own. */
const NARROW = 1_040;

const idOf = ({ id }: Item): string => id;
const attributesOf = (item: Item): Readonly<Record<`data-${string}`, string>> => {
  if (item.kind === "head") return { "data-group": item.id };
  return { [isPending(item.row.escalation) ? "data-id" : "data-answered"]: item.id };
};

/** Properties of the queue. */
export interface QueueProps {
  readonly view: QueueView;
  readonly pending: readonly Escalation[];
  /** Escalations resolved a moment ago, still shown in their places. */
  readonly lingering: readonly Lingering[];
  /** Escalations that were answered before, shown below those that wait. */
  readonly answered: readonly Escalation[];
  /** True once every escalation that waited when the page was opened is there. */
  readonly isRead: boolean;
  readonly hasShortcuts: boolean;
}

/** Pending escalations: a line each, and on a wide page the card of the marked one beside them. */
export function Queue({ view, pending, lingering, answered, isRead, hasShortcuts }: QueueProps) {
  const mayChange = useMayChange();
  const isNarrow = useNarrow(NARROW);
  const [, navigate] = useLocation();
  const [isPointed, setIsPointed] = useState(false);
  const sorted = useMemo(() => rowsFrom(pending, lingering, view), [pending, lingering, view]);
  const viewKey = Object.values(view).join(" ");
  const { rows, held, show } = useHeldRows(sorted, viewKey, isPointed && isRead, answered.length > 0);
  const items = useMemo(() => itemsFrom(rows, view.group, answered), [rows, view.group, answered]);
  const lines = useMemo(() => items.flatMap((item) => (item.kind === "row" ? [item.row] : [])), [items]);
  const { selected, select, clear } = useSelection();
  const [batch, setBatch] = useState<readonly Escalation[] | undefined>(undefined);
  const { marked, mark, answer, hasJustMoved, press } = useMark(lines, isRead);
  const isOn = hasShortcuts && mayChange;
  const open = useCallback(() => {
    if (marked !== undefined) navigate(`/escalations/${idOfRow(marked)}`);
  }, [marked, navigate]);
  // Without a card beside the list, an answer begins on the page of the escalation.
  const keys = useMemo(() => (isNarrow ? { ...press, a: open, r: open, e: open } : press), [isNarrow, press, open]);
  useShortcuts(isOn && marked !== undefined, keys);
  const chosen = useMemo(() => chosenOf(rows, selected), [rows, selected]);
  return (
    <div className={isNarrow ? "queue is-narrow" : "queue"}>
      <div
        className="queue-list"
        onPointerEnter={({ pointerType }) => setIsPointed(pointerType !== "touch")}
        onPointerLeave={() => setIsPointed(false)}
      >
        <Batch
          rows={rows}
          held={held.length}
          heldText={view.order === "time" ? "more urgent" : "new"}
          onShow={show}
          selected={selected}
          chosen={chosen}
          approved={batch}
          onSelect={mayChange ? select : undefined}
          onApprove={setBatch}
          onDone={clear}
        />
        {rows.length === 0 ? (
          <Empty title="Nothing waits that passes these filters">Clear them to see the others.</Empty>
        ) : (
          <VirtualList
            items={items}
            idOf={idOf}
            attributesOf={attributesOf}
            rowHeight={ROW_HEIGHT}
            isEven
            label="Pending escalations"
          >
            {(item) =>
              item.kind === "head" ? (
                <QueueHead head={item} selected={selected} onSelect={mayChange ? select : undefined} />
              ) : (
                <QueueRow
                  escalation={item.row.escalation}
                  identical={item.row.identical}
                  isMarked={!isNarrow && item.row === marked}
                  isSelected={selected.has(item.id)}
                  onMark={isNarrow ? undefined : mark}
                  onSelect={mayChange ? select : undefined}
                />
              )
            }
          </VirtualList>
        )}
      </div>
      {isNarrow || marked === undefined ? null : (
        <section className="queue-card" aria-label="Selected escalation" data-line={`line-${idOfRow(marked)}`}>
          <EscalationCard
            key={idOfRow(marked)}
            escalation={marked.escalation}
            identical={marked.identical}
            isFocused={isOn}
            onBatch={setBatch}
            onAnswer={answer}
            hasJustMoved={hasJustMoved}
            hasShortcuts={isOn}
          />
        </section>
      )}
    </div>
  );
}

/** Returns the pending escalations of the selected rows, with those that are identical to them. */
function chosenOf(rows: readonly Row[], selected: ReadonlySet<string>): readonly Escalation[] {
  const chosen = rows.filter((row) => selected.has(idOfRow(row)));
  return chosen.flatMap(({ escalation, identical }) => [escalation, ...identical]).filter(isPending);
}

/** Keeps the ids of the selected rows. */
function useSelection() {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const select = useCallback((ids: readonly string[], isSelected: boolean): void => {
    setSelected((before) => {
      const next = new Set(before);
      for (const id of ids) {
        if (isSelected) next.add(id);
        else next.delete(id);
      }
      return next;
    });
  }, []);
  const clear = useCallback(() => setSelected(new Set()), []);
  return { selected, select, clear };
}
