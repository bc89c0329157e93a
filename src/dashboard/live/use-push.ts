import { useEffect } from "react";
import { closeAnswered, showBadge } from "./push.ts";
import { useEscalations } from "./use-escalations.tsx";

/** Keeps the icon's number and the messages of Web Push in step with the escalations that wait. */
export function usePush(): void {
  const { pending, isLive } = useEscalations();
  useEffect(() => {
    // Before the list is whole, what it lacks may wait all the same.
    if (!isLive) return;
    showBadge(pending.length);
    void closeAnswered(new Set(pending.map(({ escalationId }) => escalationId))).catch(() => undefined);
  }, [pending, isLive]);
}
