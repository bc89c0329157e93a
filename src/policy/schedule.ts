import type { LocalTime, TimeZone } from "./time-zone.ts";

/** Days and hours of a week in a time zone. */
export interface Schedule {
  readonly zone: TimeZone;
  /** The days on which the hours begin, 0 for Monday. */
  readonly days: ReadonlySet<number>;
  /** Minutes since midnight at which the hours begin. */
  readonly from: number;
  /** Minutes since midnight at which they end, that minute not included; below `from`: on the next day. */
  readonly to: number;
  /** Covers what is outside of the days and hours instead. */
  readonly isOutside: boolean;
}

const MINUTE_MS = 60_000;
/** Every state of a week comes up within it, whatever summer time does. */
const LOOK_AHEAD_MINUTES = 8 * 24 * 60;

/** Whether a schedule covers a time, judged by what clocks in its zone show then. */
export function covers(schedule: Schedule, atMs: number): boolean {
  return isWithin(schedule, schedule.zone.localTimeAt(atMs)) !== schedule.isOutside;
}

function isWithin({ days, from, to }: Schedule, { weekday, minute }: LocalTime): boolean {
  if (from < to) return days.has(weekday) && from <= minute && minute < to;
  if (minute >= from) return days.has(weekday);
  return minute < to && days.has((weekday + 6) % 7);
}

/**
 * Builds the function that says when a schedule that covers a time first does not, in epoch milliseconds; undefined when it
 * always does. Looks from minute to minute, so that it is right when clocks change, and remembers what it found.
 */
export function createPassFinder(schedule: Schedule): (atMs: number) => number | undefined {
  let known: { readonly from: number; readonly until: number } | undefined;
  return (atMs) => {
    if (known !== undefined && known.from <= atMs && atMs < known.until) return known.until;
    const first = (Math.floor(atMs / MINUTE_MS) + 1) * MINUTE_MS;
    for (let minutes = 0; minutes < LOOK_AHEAD_MINUTES; minutes++) {
      const until = first + minutes * MINUTE_MS;
      if (covers(schedule, until)) continue;
      known = { from: atMs, until };
      return until;
    }
    return undefined;
  };
}
