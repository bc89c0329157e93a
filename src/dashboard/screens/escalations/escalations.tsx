import { Tabs } from "radix-ui";
import { useCallback, useDeferredValue, useEffect, useMemo, useState } from "react";
import { useSearchParams } from "wouter";
import { useAddressFilter } from "../../kit/address-filter.tsx";
import { AgentName } from "../../kit/agent-name.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Empty } from "../../kit/states.tsx";
import { useEscalations } from "../../live/use-escalations.tsx";
import type { ScreenProps } from "../../screens.tsx";
import "../../styles/escalations.css";
import { useShortcutSetting } from "../../kit/shortcuts.ts";
import { EscalationView } from "./escalation-view.tsx";
import { Queue } from "./queue.tsx";
import { QueueFilters } from "./queue-filters.tsx";
import { passes, passesOthers, viewFrom } from "./queue-view.ts";
import { ResolvedList, ResolvedRow } from "./resolved-list.tsx";
import { useLingering } from "./rows.ts";

/** Resolved escalations shown below the queue. */
const JUST_ANSWERED = 5;
/** Rows that are pointed at, or focused by keyboard. */
const POINTED = ".queue-list:hover, .queue-list :focus-visible";

/** Pending escalations, and those resolved last. */
export function Escalations({ id }: ScreenProps) {
  if (id !== undefined) return <EscalationView key={id} escalationId={id} />;
  return <EscalationList />;
}

function EscalationList() {
  const [parameters] = useSearchParams();
  const { isLive, pending, resolved } = useEscalations();
  const setFilter = useAddressFilter();
  const [hasShortcuts, setHasShortcuts] = useShortcutSetting();
  const isRead = useEver(isLive);
  const tab = parameters.get("show") === "answered" ? "answered" : "pending";
  // The parameters are a new object at each render.
  const address = useDeferredValue(parameters.toString());
  const view = useMemo(() => viewFrom(new URLSearchParams(address)), [address]);
  const shown = useMemo(() => pending.filter((each) => passes(view, each)), [pending, view]);
  const answered = useMemo(() => resolved.filter((each) => passes(view, each)), [resolved, view]);
  const left = useMemo(() => {
    if (view.mine === "") return answered;
    // Those that waited for this person until a moment ago: the person may take an approval back.
    return [...answered, ...pending.filter((each) => !passes(view, each) && passesOthers(view, each))];
  }, [pending, answered, view]);
  const isPointed = useCallback(() => document.querySelector(POINTED) !== null, []);
  const lingering = useLingering(shown, left, { isQuiet: pending.length === 0, filter: view.mine, isPointed });
  const justAnswered = useMemo(() => {
    const still = new Set(lingering.map(({ escalation }) => escalation));
    return answered.filter((each) => !still.has(each)).slice(0, JUST_ANSWERED);
  }, [answered, lingering]);
  return (
    <ScreenFrame
      name="escalations"
      title="Escalations"
      isFull
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
      <Tabs.Root
        value={tab}
        onValueChange={(value) => setFilter("show", value === "answered" ? value : "", true)}
        className="queue-tabs"
      >
        <Tabs.List className="tabs" aria-label="Escalations">
          <Tabs.Trigger value="pending" className="tab">
            Pending ({shown.length})
          </Tabs.Trigger>
          <Tabs.Trigger value="answered" className="tab">
            Answered
          </Tabs.Trigger>
        </Tabs.List>
        <Tabs.Content value="pending" className="tab-panel queue-panel">
          <QueueFilters view={view} pending={pending} />
          {pending.length > 0 ? (
            <Queue
              view={view}
              pending={shown}
              lingering={lingering}
              answered={justAnswered}
              isRead={isRead}
              hasShortcuts={hasShortcuts}
            />
          ) : (
            <div className="queue-empty stack">
              <Empty title="Nothing waits for a person">New escalations appear here by themselves.</Empty>
              {justAnswered.length === 0 ? null : (
                <section className="stack" aria-label="Just answered">
                  <h2>Just answered</h2>
                  <ul className="card just-answered">
                    {justAnswered.map((escalation) => (
                      <li key={escalation.escalationId} data-answered={escalation.escalationId}>
                        <ResolvedRow escalation={escalation} />
                      </li>
                    ))}
                  </ul>
                </section>
              )}
            </div>
          )}
        </Tabs.Content>
        <Tabs.Content value="answered" className="tab-panel queue-panel">
          {view.agent === "" ? null : (
            <p>
              Of <AgentName agentId={view.agent} />.{" "}
              <button type="button" className="link" data-action="all-agents" onClick={() => setFilter("agent", "")}>
                Show all
              </button>
            </p>
          )}
          <ResolvedList agentId={view.agent} />
        </Tabs.Content>
      </Tabs.Root>
    </ScreenFrame>
  );
}

/** Returns true once a value was true. */
function useEver(value: boolean): boolean {
  const [was, setWas] = useState(value);
  useEffect(() => {
    if (value) setWas(true);
  }, [value]);
  return was || value;
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
