import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { keepPlace, placeIn } from "../../kit/history-places.ts";
import { useAnnounce } from "../../kit/toast.tsx";
import { idOfRow, isPending, type Row } from "./rows.ts";

/** Milliseconds after a move of the mark in which a pointer press may be meant for the previous card. */
const MOVED_MS = 400;
/** Milliseconds after a move of the mark in which a key press may be meant for the previous card. */
const MARK_MOVED_MS = 250;
/** Name of the mark in the browser's history. */
const PLACE = "escalation";

/** The row whose card is shown. */
export interface Mark {
  readonly marked: Row | undefined;
  /** Marks a row that the person chose. */
  readonly mark: (id: string) => void;
  /** Notes that a person answers a card, after which the mark moves to the next one. */
  readonly answer: (id: string) => void;
  /** Returns true if the mark moved by itself a moment ago, so that a press may be meant for the card before. */
  readonly hasJustMoved: () => boolean;
  /** Handlers by shortcut key. */
  readonly press: Readonly<Record<string, () => void>>;
}

/** Returns the line of an escalation in the list, if it is rendered. */
const lineOf = (id: string): HTMLElement | null => document.getElementById(`line-${id}`);

/**
 * Marks the row whose card is shown and which the shortcut keys act on. It stays marked when others come above it or the order
 * changes, and when another person answers it, so that neither a press nor a key reaches the card that takes its place.
 * `isRead`: every escalation that waited when the page was opened is there.
 */
export function useMark(rows: readonly Row[], isRead: boolean): Mark {
  const announce = useAnnounce();
  const [id, setId] = useState<string | undefined>(undefined);
  const wanted = useRef(placeIn<string>(PLACE));
  const isChosen = useRef(false);
  const place = useRef(0);
  const movedAt = useRef(Number.NEGATIVE_INFINITY);
  const answering = useRef<string | undefined>(undefined);
  const index = rows.findIndex((row) => idOfRow(row) === id);
  useEffect(() => {
    const move = (to: string | undefined): void => {
      if (id !== undefined && to !== undefined && to !== id) movedAt.current = performance.now();
      setId(to);
    };
    // Until everything is read, the first row is marked anew, unless the person chose one, now or before Back.
    if (!isChosen.current) {
      const waiting = rows.filter(({ escalation }) => isPending(escalation));
      const before = waiting.find((row) => idOfRow(row) === wanted.current);
      const [first] = waiting;
      isChosen.current = before !== undefined || (isRead && first !== undefined);
      move((before ?? first)?.escalation.escalationId);
      return;
    }
    const current = rows[index];
    if (current !== undefined && (isPending(current.escalation) || answering.current !== id)) {
      place.current = index;
      return;
    }
    const after = current === undefined ? rows.slice(place.current) : rows.slice(index + 1);
    const waiting = [...after, ...rows.toReversed()].find(({ escalation }) => isPending(escalation));
    if (waiting === undefined) place.current = 0;
    move(waiting === undefined ? undefined : idOfRow(waiting));
  }, [rows, index, id, isRead]);
  const mark = useCallback((chosen: string): void => {
    isChosen.current = true;
    setId(chosen);
  }, []);
  // At each render, since another order or filter makes a new entry of the history.
  useEffect(() => {
    if (id !== undefined && isChosen.current) keepPlace(PLACE, id);
  });
  const answer = useCallback((answered: string): void => {
    isChosen.current = true;
    answering.current = answered;
  }, []);
  const press = useMemo(() => {
    const click = (action: string, find: (marked: string) => HTMLElement | null | undefined) => (): void => {
      if (id === undefined) return;
      if (performance.now() - movedAt.current < MARK_MOVED_MS) {
        announce({ tone: "plain", text: "The mark has just moved: press again if you mean this card." });
        return;
      }
      const place = find(id);
      const button = place?.querySelector<HTMLElement>(`[data-action=${action}]:not(:disabled)`);
      if (button !== null && button !== undefined) {
        button.click();
        return;
      }
      const why = place?.querySelector("[data-obstacle]")?.textContent;
      announce({ tone: "plain", text: why ?? "This one is answered. Press j for the next." });
    };
    const inCard = (action: string) => click(action, (marked) => document.getElementById(`card-${marked}`));
    const move = (by: number) => (): void => {
      const next = rows[Math.min(rows.length - 1, Math.max(0, index + by))];
      if (next === undefined) return;
      mark(idOfRow(next));
      const line = lineOf(idOfRow(next));
      line?.scrollIntoView({ block: "nearest" });
      // The focus follows if it is in the list, so that a screen reader reads the row.
      if (document.activeElement?.closest(".queue-list .virtual")) {
        line?.querySelector("a")?.focus({ preventScroll: true });
      }
    };
    return {
      j: move(1),
      ArrowDown: move(1),
      k: move(-1),
      ArrowUp: move(-1),
      a: inCard("approve"),
      r: inCard("reject"),
      e: inCard("edit"),
      x: click("select", lineOf),
    };
  }, [rows, index, id, mark, announce]);
  const hasJustMoved = useCallback(() => performance.now() - movedAt.current < MOVED_MS, []);
  return { marked: rows[index], mark, answer, hasJustMoved, press };
}
