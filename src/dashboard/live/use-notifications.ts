import { useEffect } from "react";
import { useLocation } from "wouter";
import { shownText } from "../kit/shown.tsx";
import { currentSubscription } from "./push.ts";
import { useEscalationFeed } from "./use-escalations.tsx";

const MAX_NAME = 60;

/** Notifies of each new escalation while the page is hidden, on every screen, if the person has allowed notifications. */
export function useNotifications(): void {
  const feed = useEscalationFeed();
  const [, navigate] = useLocation();
  useEffect(
    () =>
      feed.onCreated(({ escalationId, agentName, actionType }) => {
        if (!("Notification" in window) || Notification.permission !== "granted") return;
        if (!document.hidden && document.hasFocus()) return;
        const text = `${shownText(agentName, MAX_NAME)} wants ${shownText(actionType, MAX_NAME)}`;
        void tell(text, escalationId, () => navigate(`/escalations/${escalationId}`));
      }),
    [feed, navigate],
  );
}

/** Shows a notification, unless the service tells this browser by Web Push. */
async function tell(body: string, escalationId: string, open: () => void): Promise<void> {
  if ((await currentSubscription().catch(() => undefined)) !== undefined) return;
  const shown = notify("An action waits for a person", { body, tag: escalationId });
  if (shown === undefined) return;
  shown.onclick = () => {
    window.focus();
    open();
  };
}

/** Shows a notification. Browsers on Android have the constructor and throw: they take notifications from service workers only. */
function notify(title: string, options: NotificationOptions): Notification | undefined {
  try {
    return new Notification(title, options);
  } catch {
    return undefined;
  }
}
