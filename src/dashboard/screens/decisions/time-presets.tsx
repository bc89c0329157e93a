import { Button } from "../../kit/button.tsx";
import { useNow } from "../../kit/time.tsx";
import { startOfDay, useZone } from "../../kit/zone.ts";
import type { FeedFiltersProps } from "./feed-filters.tsx";

/** Milliseconds after which a new day is noticed. */
const DAY_CHECK_MS = 30_000;

/** Usual times of the feed, in the zone of the page. */
const PRESETS = [
  { name: "today", title: "Today", first: 0, end: undefined },
  { name: "yesterday", title: "Yesterday", first: 1, end: 0 },
  { name: "week", title: "7 days", first: 6, end: undefined },
] as const;

/** Buttons for the usual times. The pressed one takes its time away. */
export function TimePresets({ filter: { since, until }, onChange }: FeedFiltersProps) {
  const now = useNow(DAY_CHECK_MS);
  const [zone] = useZone();
  const startText = (daysBefore: number): string => new Date(startOfDay(now, zone, daysBefore)).toISOString();
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset would need a legend that is seen
    <div className="row" role="group" aria-label="Time">
      {PRESETS.map(({ name, title, first, end }) => {
        const time = { since: startText(first), until: end === undefined ? "" : startText(end) };
        const isPressed = since === time.since && until === time.until;
        return (
          <Button
            key={name}
            action={`preset-${name}`}
            aria-pressed={isPressed}
            onClick={() => onChange(isPressed ? { since: "", until: "" } : time)}
          >
            {title}
          </Button>
        );
      })}
    </div>
  );
}
