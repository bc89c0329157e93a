import { useState } from "react";
import { Button } from "../../kit/button.tsx";

/** Offers notifications of the browser, which are asked for by pressing the button alone. */
export function Notify() {
  const isKnown = "Notification" in window;
  const [permission, setPermission] = useState(() => (isKnown ? Notification.permission : "denied"));
  if (permission !== "default") return null;
  return (
    <Button action="notify" onClick={() => void Notification.requestPermission().then(setPermission)}>
      Notify me
    </Button>
  );
}
