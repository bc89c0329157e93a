import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Escalation } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { VirtualList } from "../../kit/lists/virtual-list.tsx";
import { Empty } from "../../kit/states.tsx";
import { useAnnounce } from "../../kit/toast.tsx";
import { useMayChange } from "../../session.ts";
import { Batch } from "./batch.tsx";
import { EscalationCard } from "./card.tsx";
import { isPending, type Row, rowsFrom } from "./rows.ts";
import { useShortcuts } from "./use-shortcuts.ts";

const ROW_HEIGHT = 360;
/** Milliseconds after a move of the queue in which a pointer press may be meant for the previous card. */
const MOVED_MS = 400;
/** Milliseconds after a move of the mark in which a key press may be meant for the previous card. */
const MARK_MOVED_MS = 250;
const idOf = ({ escalation }: Row): string => escalation.escalationId;
const attributesOf = ({ escalation }: Row): Readonly<Record<`data-${string}`, string>> => ({
  [isPending(escalation) ? "data-id" : "data-answered"]: escalation.escalationId,
});

/** Properties of the queue. */
export interface QueueProps {
  readonly pending: readonly Escalation[];
  /** Escalations resolved a moment ago, still shown in their places. */
  readonly lingering: readonly Escalation[];
  readonly hasShortcuts: boolean;
}

/** Pending escalations, oldest first, so that new ones move nothing. */
export function Queue({ pending, lingering, hasShortcuts }: QueueProps) {
  const mayChange = useMayChange();
  const rows = useMemo(() => rowsFrom(pending, lingering), [pending, lingering]);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [batch, setBatch] = useState<readonly Escalation[] | undefined>(undefined);
  const hasJustMoved = useHasJustMoved(rows);
  const { focused, focus, press, answer } = useMark(rows, hasShortcuts && mayChange);
  const chosen = useMemo(
    () =>
      rows
        .filter((row) => selected.has(idOf(row)))
        .flatMap(({ escalation, identical }) => [escalation, ...identical])
        .filter(isPending),
    [rows, selected],
  );
  const select = useCallback((id: string, isSelected: boolean): void => {
    setSelected((before) => {
      const next = new Set(before);
      if (isSelected) next.add(id);
      else next.delete(id);
      return next;
    });
  }, []);
  const clear = useCallback(() => setSelected(new Set()), []);
  useShortcuts(hasShortcuts && mayChange && focused !== undefined, press);
  return (
    <>
      {mayChange && (chosen.length > 0 || batch !== undefined) ? (
        <Batch selected={chosen} approved={batch} onApprove={setBatch} onDone={clear} />
      ) : null}
      {pending.length === 0 ? (
        <Empty title="Nothing waits for a person">New escalations appear here by themselves.</Empty>
      ) : (
        <VirtualList
          items={rows}
          idOf={idOf}
          attributesOf={attributesOf}
          rowHeight={ROW_HEIGHT}
          label="Pending escalations"
        >
          {({ escalation, identical }) => {
            const id = escalation.escalationId;
            return (
              <EscalationCard
                escalation={escalation}
                identical={identical}
                isFocused={id === focused}
                onFocus={focus}
                isSelected={selected.has(id)}
                onSelect={mayChange ? select : undefined}
                onBatch={setBatch}
                onAnswer={answer}
                hasJustMoved={hasJustMoved}
                hasShortcuts={hasShortcuts && id === focused}
              />
            );
          }}
        </VirtualList>
      )}
    </>
  );
}

interface Mark {
  /** Id of the card that the shortcut keys act on. */
  readonly focused: string | undefined;
  readonly focus: (id: string) => void;
  /** Notes that a person answers a card, after which the mark moves to the next one. */
  readonly answer: (id: string) => void;
  /** Handlers by shortcut key. */
  readonly press: Readonly<Record<string, () => void>>;
}

/**
 * Marks the card that the shortcut keys act on. The mark stays on a card that another person answered, so that a key press
 * never reaches the card that takes its place.
 */
function useMark(rows: readonly Row[], isOn: boolean): Mark {
  const announce = useAnnounce();
  const [focused, setFocused] = useState<string | undefined>(undefined);
  const place = useRef(0);
  const movedAt = useRef(Number.NEGATIVE_INFINITY);
  const answering = useRef<string | undefined>(undefined);
  const index = rows.findIndex((row) => idOf(row) === focused);
  useEffect(() => {
    const current = rows[index];
    if (current !== undefined && (isPending(current.escalation) || answering.current !== focused)) {
      place.current = index;
      return;
    }
    const after = current === undefined ? rows.slice(place.current) : rows.slice(index + 1);
    const waiting = [...after, ...rows.toReversed()].find(({ escalation }) => isPending(escalation));
    if (focused !== undefined && waiting !== undefined) movedAt.current = performance.now();
    if (waiting === undefined) place.current = 0;
    setFocused(waiting === undefined ? undefined : idOf(waiting));
  }, [rows, index, focused]);
  const answer = useCallback((id: string): void => {
    answering.current = id;
  }, []);
  const press = useMemo(() => {
    /** Runs an action for the marked card if it is in view; otherwise marks the first card in view. */
    const ifSeen = (run: (id: string) => void) => (): void => {
      if (performance.now() - movedAt.current < MARK_MOVED_MS) {
        announce({ tone: "plain", text: "The mark has just moved: press again if you mean this card." });
        return;
      }
      const seen = idsInView();
      if (focused !== undefined && seen.includes(focused)) {
        run(focused);
        return;
      }
      if (seen[0] !== undefined) setFocused(seen[0]);
      announce({ tone: "plain", text: "The marked card was out of view: press again for the one that is marked now." });
    };
    const click = (action: string) =>
      ifSeen((id) => {
        const button = cardOf(id)?.querySelector<HTMLElement>(`[data-action=${action}]`);
        if (button === null || button === undefined) {
          announce({ tone: "plain", text: "This one is answered. Press j for the next." });
        } else button.click();
      });
    const move = (by: number) => (): void => {
      const next = rows[Math.min(rows.length - 1, Math.max(0, index + by))];
      if (next === undefined) return;
      setFocused(idOf(next));
      cardOf(idOf(next))?.scrollIntoView({ block: "nearest" });
    };
    return {
      j: move(1),
      ArrowDown: move(1),
      k: move(-1),
      ArrowUp: move(-1),
      a: click("approve"),
      r: click("reject"),
      e: click("edit"),
      x: click("select"),
    };
  }, [rows, index, focused, announce]);
  return { focused: isOn || index >= 0 ? focused : undefined, focus: setFocused, answer, press };
}

const cardOf = (id: string): HTMLElement | null => document.getElementById(`card-${id}`);

/** Returns the ids of the cards in view, partly or fully, in order. */
function idsInView(): readonly string[] {
  const list = document.querySelector(".virtual")?.getBoundingClientRect();
  if (list === undefined) return [];
  const [top, bottom] = [Math.max(0, list.top), Math.min(window.innerHeight, list.bottom)];
  const cards = [...document.querySelectorAll<HTMLElement>(".virtual .escalation")];
  const seen = cards
    .map((card) => ({ id: card.id.slice("card-".length), rect: card.getBoundingClientRect() }))
    .filter(({ rect }) => rect.bottom > top && rect.top < bottom);
  return seen.sort((a, b) => a.rect.top - b.rect.top).map(({ id }) => id);
}

/** Returns a function that tells whether cards moved a moment ago because a card above them left. */
function useHasJustMoved(rows: readonly Row[]): () => boolean {
  const before = useRef<readonly Row[]>(rows);
  const movedAt = useRef(Number.NEGATIVE_INFINITY);
  useEffect(() => {
    const last = before.current;
    before.current = rows;
    const hasMoved = last.some((each, at) => {
      const now = rows[at];
      return now !== undefined && idOf(each) !== idOf(now);
    });
    if (hasMoved) movedAt.current = performance.now();
  }, [rows]);
  return useCallback(() => performance.now() - movedAt.current < MOVED_MS, []);
}
