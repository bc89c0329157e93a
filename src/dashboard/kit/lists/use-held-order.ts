import { useMemo } from "react";
import { type Held, useHeld } from "../use-held.ts";

/**
 * Keeps the order of a list that is read again while the mouse or the keyboard is on it. Its values follow, and new items come at the
 * end. An item that two pages hold is shown once. `idOf` MUST be the same function at every call.
 */
export function useHeldOrder<T>(
  given: readonly T[],
  idOf: (item: T) => string,
): { readonly items: readonly T[]; readonly handlers: Held<unknown>["handlers"] } {
  const byId = useMemo(() => new Map(given.map((item) => [idOf(item), item])), [given, idOf]);
  const ids = useMemo(() => [...byId.keys()], [byId]);
  const { value: order, handlers } = useHeld(ids);
  const items = useMemo(
    () => [...new Set([...order, ...ids])].filter((id) => byId.has(id)).map((id) => byId.get(id) as T),
    [order, ids, byId],
  );
  return { items, handlers };
}
