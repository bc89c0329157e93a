import type { LedgerEvent } from "../log/events.ts";
import { type EventName, eventNameOf } from "./event.ts";

/** What a stretch of the log holds for webhooks. */
export interface EventBatch {
  /** Index of its first entry. */
  readonly first: number;
  /** Index after its last. */
  readonly end: number;
  readonly names: ReadonlySet<EventName>;
}

// Keyed by the list that the log hands to every listener: a workspace's webhooks share one look at it.
const batches = new WeakMap<readonly LedgerEvent[], EventBatch>();

/** Looks at the entries of a stretch, of which there MUST be one at least. */
export function batchFrom(events: readonly LedgerEvent[]): EventBatch {
  const known = batches.get(events);
  if (known !== undefined) return known;
  const names = new Set<EventName>();
  for (const event of events) {
    const name = eventNameOf(event);
    if (name !== undefined) names.add(name);
  }
  const batch = { first: events[0]?.seq ?? 0, end: (events.at(-1)?.seq ?? -1) + 1, names };
  batches.set(events, batch);
  return batch;
}
