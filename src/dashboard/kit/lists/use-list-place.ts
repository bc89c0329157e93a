import { type RefObject, useEffect, useRef } from "react";
import { followPlace, placeIn, untilRestored } from "../history-places.ts";

/** Place in a list: a row, which may move when others come before it. */
interface ListPlace {
  readonly id: string;
  readonly index: number;
  /** Distance of the row from the top of the list, pixels. */
  readonly top: number;
  /** The row with the focus, and the number of its control that has it. */
  readonly focused?: { readonly id: string; readonly control: number };
}

/** Properties of a list whose place is kept. */
export interface ListPlaceOptions<T> {
  readonly name: string;
  readonly items: readonly T[];
  readonly idOf: (item: T) => string;
  readonly scroller: RefObject<HTMLElement | null>;
  /** Scrolls a row that is not rendered to the top. */
  readonly scrollTo: (index: number) => void;
  /** Reads the next page; undefined after the last. */
  readonly readMore: (() => void) | undefined;
}

const CONTROLS = "a, button, input, select, textarea, summary";
/** Frames in a row at which a row has to be in its place: rows above it may still be measured. */
const STEADY_FRAMES = 3;

const topIn = (row: Element, scroller: Element): number =>
  row.getBoundingClientRect().top - scroller.getBoundingClientRect().top;

/** Keeps the place of a list and its focus in the browser's history, and finds both again after Back. */
export function useListPlace<T>(options: ListPlaceOptions<T>): void {
  const { name, items, scroller, readMore } = options;
  const latest = useRef(options);
  latest.current = options;
  const wanted = useRef(placeIn<ListPlace>(name));
  useEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    return followPlace(name, element, () => wanted.current ?? placeNow(element, latest.current));
  }, [name, scroller]);
  useEffect(() => {
    const place = wanted.current;
    const element = scroller.current;
    if (place === undefined || element === null) return;
    const isRead = items.length > place.index || items.some((item) => latest.current.idOf(item) === place.id);
    // The row may be on a page that is still to be read.
    if (!isRead) readMore?.();
    let steady = 0;
    return untilRestored(
      () => {
        if (!isRead && readMore !== undefined) return false;
        steady = isRestored(element, latest.current, place) ? steady + 1 : 0;
        return steady >= STEADY_FRAMES;
      },
      () => {
        wanted.current = undefined;
      },
    );
  }, [items, scroller, readMore]);
}

function placeNow<T>(scroller: HTMLElement, { items, idOf }: ListPlaceOptions<T>): ListPlace | undefined {
  const rows = [...scroller.querySelectorAll<HTMLElement>(".virtual-row")];
  const first = rows.find((row) => topIn(row, scroller) + row.offsetHeight > 0);
  const idAt = (row: HTMLElement): string | undefined => {
    const item = items[Number(row.dataset.index)];
    return item === undefined ? undefined : idOf(item);
  };
  const id = first === undefined ? undefined : idAt(first);
  if (first === undefined || id === undefined) return undefined;
  const row = document.activeElement?.closest<HTMLElement>(".virtual-row");
  const focusedId = row === null || row === undefined || !scroller.contains(row) ? undefined : idAt(row);
  const controls = [...(row?.querySelectorAll(CONTROLS) ?? [])];
  const control = document.activeElement === null ? -1 : controls.indexOf(document.activeElement);
  return {
    id,
    index: Number(first.dataset.index),
    top: topIn(first, scroller),
    ...(focusedId !== undefined && { focused: { id: focusedId, control } }),
  };
}

/** Moves a list towards a place by one step. Returns true once it is there, with the focus. */
function isRestored<T>(scroller: HTMLElement, options: ListPlaceOptions<T>, place: ListPlace): boolean {
  const { items, idOf, scrollTo } = options;
  const rowOf = (id: string): HTMLElement | null => {
    const index = items.findIndex((item) => idOf(item) === id);
    return index < 0 ? null : scroller.querySelector<HTMLElement>(`.virtual-row[data-index="${index}"]`);
  };
  const found = items.findIndex((item) => idOf(item) === place.id);
  const index = found < 0 ? Math.min(place.index, items.length - 1) : found;
  const row = scroller.querySelector<HTMLElement>(`.virtual-row[data-index="${index}"]`);
  if (row === null) {
    scrollTo(index);
    return false;
  }
  const by = topIn(row, scroller) - place.top;
  const before = scroller.scrollTop;
  if (Math.abs(by) >= 1) scroller.scrollTop += by;
  if (place.focused !== undefined && document.activeElement === document.body) {
    const focused = rowOf(place.focused.id);
    const control = [...(focused?.querySelectorAll<HTMLElement>(CONTROLS) ?? [])][place.focused.control];
    control?.focus({ preventScroll: true });
  }
  // A list that became shorter cannot scroll as far.
  return Math.abs(by) < 1 || scroller.scrollTop === before;
}
