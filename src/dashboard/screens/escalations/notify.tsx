import { useEffect, useState } from "react";
import { Button } from "../../kit/button.tsx";
import { shownText } from "../../kit/shown.tsx";
import { useEscalationFeed } from "../../live/use-escalations.tsx";

/** Offers notifications of the browser, which are asked for by pressing the button alone. */
export function Notify() {
  const isKnown = "Notification" in window;
  const [permission, setPermission] = useState(() => (isKnown ? Notification.permission : "denied"));
  const feed = useEscalationFeed();
  useEffect(() => {
    if (permission !== "granted") return;
    return feed.onCreated(({ escalationId, agentName, actionType }) => {
      if (!document.hidden) return;
      const text = `${shownText(agentName, 60)} wants ${shownText(actionType, 60)}`;
      const shown = new Notification("An action waits for a person", { body: text, tag: escalationId });
      shown.onclick = () => window.focus();
    });
  }, [feed, permission]);
  if (!isKnown || permission !== "default") return null;
  return (
    <Button action="notify" onClick={() => void Notification.requestPermission().then(setPermission)}>
      Notify me
    </Button>
  );
}
