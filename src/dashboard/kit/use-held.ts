import { type FocusEvent, type PointerEvent, useEffect, useRef, useState } from "react";

/** Milliseconds after the last movement of the pointer, or the last key, in which a list is held. */
const HOLD_MS = 30_000;

/** A value that is held, and the handlers for the element that holds it. */
export interface Held<T> {
  readonly value: T;
  readonly handlers: {
    readonly onPointerMove: (event: PointerEvent) => void;
    readonly onPointerLeave: () => void;
    readonly onFocus: (event: FocusEvent) => void;
    readonly onKeyDown: () => void;
    readonly onBlur: (event: FocusEvent) => void;
  };
}

/**
 * Holds a value as it is while the mouse or the keyboard is on an element that shows it, so that nothing moves under a press. Lets go
 * once both have left, or did nothing for 30 seconds.
 */
export function useHeld<T>(value: T): Held<T> {
  const [held, setHeld] = useState<{ readonly value: T } | undefined>(undefined);
  const timer = useRef(0);
  const release = (): void => {
    window.clearTimeout(timer.current);
    setHeld(undefined);
  };
  const hold = (): void => {
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(release, HOLD_MS);
    setHeld((before) => before ?? { value });
  };
  useEffect(() => () => window.clearTimeout(timer.current), []);
  return {
    value: held === undefined ? value : held.value,
    handlers: {
      onPointerMove: ({ pointerType }) => {
        if (pointerType !== "touch") hold();
      },
      onPointerLeave: release,
      onFocus: ({ target }) => {
        if (target.matches(":focus-visible")) hold();
      },
      onKeyDown: hold,
      onBlur: ({ currentTarget, relatedTarget }) => {
        if (!currentTarget.contains(relatedTarget)) release();
      },
    },
  };
}
