import { createContext, type ReactNode, type RefObject, useContext, useRef } from "react";

/** Control that the focus left, and where it goes once the control is gone. */
interface Place {
  readonly control: HTMLElement;
  /** The row around the control, or the one whose details it is in (`data-line`: the id of an element of it), then the rows after it, then those before it, nearest first. */
  readonly rows: readonly Element[];
  readonly list: HTMLElement | null;
}

function placeOf(control: HTMLElement): Place {
  const line = control.closest<HTMLElement>("[data-line]")?.dataset.line;
  const row = (line === undefined ? control : document.getElementById(line))?.closest("li, tr") ?? null;
  const rows = [...(row?.parentElement?.children ?? [])];
  const at = row === null ? 0 : rows.indexOf(row);
  return {
    control,
    rows: [...rows.slice(at), ...rows.slice(0, at).reverse()],
    list: (row ?? control).closest<HTMLElement>(".virtual"),
  };
}

const canTakeFocus = (control: HTMLElement): boolean => control.isConnected && !control.matches(":disabled");

/** Focuses an element that the keyboard otherwise skips. It does not scroll, so that nothing moves under a pointer. */
function focusOn(element: HTMLElement): void {
  if (element.tabIndex < 0 && !element.hasAttribute("tabindex")) {
    element.tabIndex = -1;
    element.addEventListener("blur", () => element.removeAttribute("tabindex"), { once: true });
  }
  element.focus({ preventScroll: true });
}

/** Focuses the row that follows, else the list, else the title of the screen. A row without its id waits for nobody. */
function focusNext({ rows, list }: Place): void {
  const row = rows.find((each): each is HTMLElement => each.isConnected && each.matches("[data-id]"));
  const next = row ?? (list?.isConnected ? list : document.getElementById("screen-title"));
  if (next !== null) focusOn(next);
}

/** Moves the focus on once the control at a place leaves the page, unless the person has moved it meanwhile. */
function keepFocusAt(place: Place): void {
  const { control } = place;
  const changes = new MutationObserver(() => {
    if (document.activeElement !== document.body) return;
    if (!control.isConnected) {
      stop();
      focusNext(place);
    } else if (canTakeFocus(control)) focusOn(control);
  });
  const stop = (): void => {
    changes.disconnect();
    document.removeEventListener("focusin", leave);
  };
  const leave = ({ target }: FocusEvent): void => {
    if (target !== control) stop();
  };
  document.addEventListener("focusin", leave);
  changes.observe(document.body, { childList: true, subtree: true, attributeFilter: ["disabled"] });
}

/** Keeps the focus near a control that is about to leave the page, such as a button that answers its own row. */
export const keepFocusNear = (control: HTMLElement): void => keepFocusAt(placeOf(control));

function giveBack(place: Place): void {
  if (canTakeFocus(place.control)) {
    focusOn(place.control);
    keepFocusAt(place);
  } else focusNext(place);
}

/** Place that the focus left for the first of the dialogs that followed each other. */
const FirstPlaceContext = createContext<RefObject<Place | undefined> | undefined>(undefined);

/** Remembers for all dialogs where the focus was. */
export function FocusReturn({ children }: { readonly children: ReactNode }) {
  const first = useRef<Place | undefined>(undefined);
  return <FirstPlaceContext value={first}>{children}</FirstPlaceContext>;
}

/**
 * Returns handlers for the opening and the closing of a dialog, which give the focus back: to the control that opened it, or the
 * dialog that it took the place of; if that control is gone, to the next row, the list, or the title of the screen.
 */
export function useFocusReturn(): { readonly onOpen: () => void; readonly onClose: () => void } {
  const first = useContext(FirstPlaceContext);
  const place = useRef<Place | undefined>(undefined);
  if (first === undefined) throw new Error("the dialog is shown outside of `FocusReturn`");
  return {
    onOpen() {
      const { activeElement } = document;
      const isControl = activeElement instanceof HTMLElement && activeElement !== document.body;
      place.current = isControl ? placeOf(activeElement) : first.current;
      if (isControl && activeElement.closest("[role=dialog]") === null) first.current = place.current;
    },
    onClose() {
      const open = document.querySelector("[role=dialog]");
      const back = place.current;
      // A dialog in its place gives the focus back, unless this one was opened from there.
      if (open !== null && !open.contains(back?.control ?? null)) return;
      if (open === null) first.current = undefined;
      if (back !== undefined) giveBack(back);
    },
  };
}
