import { useSyncExternalStore } from "react";

/** Returns true on a page of at most this width in pixels. Default: that of phones. */
export function useNarrow(maxWidth = 760): boolean {
  const text = `(max-width: ${maxWidth}px)`;
  return useSyncExternalStore(
    (listener) => {
      const query = matchMedia(text);
      query.addEventListener("change", listener);
      return () => query.removeEventListener("change", listener);
    },
    () => matchMedia(text).matches,
  );
}
