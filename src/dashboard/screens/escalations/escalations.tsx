import { Tabs } from "radix-ui";
import { useCallback, useMemo, useState } from "react";
import { useSearchParams } from "wouter";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { ScreenFrame } from "../../kit/screen.tsx";
import { useEscalations } from "../../live/use-escalations.tsx";
import type { ScreenProps } from "../../screens.tsx";
import "../../styles/escalations.css";
import { EscalationView } from "./escalation-view.tsx";
import { Queue } from "./queue.tsx";
import { ResolvedList, ResolvedRow } from "./resolved-list.tsx";
import { useLingering } from "./rows.ts";
import { useShortcutSetting } from "./use-shortcuts.ts";

/** Resolved escalations shown below the queue. */
const JUST_ANSWERED = 5;

/** Pending escalations, and those resolved last. */
export function Escalations({ id }: ScreenProps) {
  if (id !== undefined) return <EscalationView escalationId={id} />;
  return <EscalationList />;
}

function EscalationList() {
  const [parameters, setParameters] = useSearchParams();
  const { isLive, pending, resolved } = useEscalations();
  const [hasShortcuts, setHasShortcuts] = useShortcutSetting();
  const agentId = parameters.get("agent") ?? "";
  const tab = parameters.get("show") === "answered" ? "answered" : "pending";
  const shown = useMemo(
    () => (agentId === "" ? pending : pending.filter((each) => each.agentId === agentId)),
    [pending, agentId],
  );
  const answered = useMemo(
    () => (agentId === "" ? resolved : resolved.filter((each) => each.agentId === agentId)),
    [resolved, agentId],
  );
  const isPointed = useCallback(() => document.querySelector(".virtual:hover, .virtual :focus") !== null, []);
  const lingering = useLingering(shown, answered, isPointed);
  const justAnswered = answered.filter((each) => !lingering.includes(each));
  const show = (value: string): void => {
    setParameters(
      { ...(value === "answered" && { show: value }), ...(agentId !== "" && { agent: agentId }) },
      { replace: true },
    );
  };
  return (
    <ScreenFrame
      name="escalations"
      title="Escalations"
      actions={
        <>
          {isLive ? <Badge tone="good">live</Badge> : <Badge tone="bad">not live: connecting</Badge>}
          <label className="row hint shortcuts">
            <input
              type="checkbox"
              data-action="shortcuts"
              checked={hasShortcuts}
              onChange={({ target }) => setHasShortcuts(target.checked)}
            />
            single keys: a approve, e edit, r reject, x select, j k move
          </label>
          <Notify />
        </>
      }
    >
      {agentId === "" ? null : (
        <p>
          Of agent <code>{agentId}</code>.{" "}
          <button
            type="button"
            className="link"
            data-action="all-agents"
            onClick={() => setParameters({}, { replace: true })}
          >
            Show all
          </button>
        </p>
      )}
      <Tabs.Root value={tab} onValueChange={show}>
        <Tabs.List className="tabs" aria-label="Escalations">
          <Tabs.Trigger value="pending" className="tab">
            Pending ({shown.length})
          </Tabs.Trigger>
          <Tabs.Trigger value="answered" className="tab">
            Answered
          </Tabs.Trigger>
        </Tabs.List>
        <Tabs.Content value="pending" className="stack tab-panel">
          <Queue pending={shown} lingering={lingering} hasShortcuts={hasShortcuts} />
          {justAnswered.length === 0 ? null : (
            <section className="stack" aria-label="Just answered">
              <h2>Just answered</h2>
              <ul className="card just-answered">
                {justAnswered.slice(0, JUST_ANSWERED).map((escalation) => (
                  <li key={escalation.escalationId} data-answered={escalation.escalationId}>
                    <ResolvedRow escalation={escalation} />
                  </li>
                ))}
              </ul>
            </section>
          )}
        </Tabs.Content>
        <Tabs.Content value="answered" className="tab-panel">
          <ResolvedList agentId={agentId} />
        </Tabs.Content>
      </Tabs.Root>
    </ScreenFrame>
  );
}

/** Offers browser notifications. Permission is requested only when the button is pressed. */
function Notify() {
  const isKnown = "Notification" in window;
  const [permission, setPermission] = useState(() => (isKnown ? Notification.permission : "denied"));
  if (permission !== "default") return null;
  return (
    <Button action="notify" onClick={() => void Notification.requestPermission().then(setPermission)}>
      Notify me
    </Button>
  );
}
