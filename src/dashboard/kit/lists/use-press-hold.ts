import { useCallback, useEffect, useRef, useState } from "react";

/** Milliseconds after a press in which its click still comes: on a touch screen it follows later. */
const CLICK_MS = 300;

/** A value that a press holds. */
export interface PressHeld<T> {
  readonly value: T;
  /** Begins to hold, when a pointer goes down. */
  readonly hold: () => void;
}

/** Holds a value as it is from a pointer's press until its click, so that what is pressed is still there when it is let go. */
export function usePressHold<T>(value: T): PressHeld<T> {
  const [held, setHeld] = useState<{ readonly value: T } | undefined>(undefined);
  const latest = useRef(value);
  latest.current = value;
  const hold = useCallback(() => setHeld((before) => before ?? { value: latest.current }), []);
  useEffect(() => {
    if (held === undefined) return undefined;
    let timer = 0;
    const release = (): void => {
      timer = window.setTimeout(() => setHeld(undefined), CLICK_MS);
    };
    const cancel = (): void => setHeld(undefined);
    window.addEventListener("pointerup", release);
    window.addEventListener("pointercancel", cancel);
    return () => {
      window.clearTimeout(timer);
      window.removeEventListener("pointerup", release);
      window.removeEventListener("pointercancel", cancel);
    };
  }, [held]);
  return { value: held === undefined ? value : held.value, hold };
}
