/** A part of each day in which a person is not told. */
export interface QuietHours {
  /** First minute of the day, 0 to 1,439. */
  readonly from: number;
  /** Minute at which it ends; at or before `from`: on the next day. */
  readonly to: number;
  /** IANA name of the time zone. */
  readonly timeZone: string;
}

const MINUTE_MS = 60_000;
const DAY_MINUTES = 1_440;

/** True for a time zone that the service knows. */
export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** Reads `HH:MM` as the minute of the day. */
export function minuteFrom(text: string): number {
  const [hours = 0, minutes = 0] = text.split(":").map(Number);
  return hours * 60 + minutes;
}

/** Writes the minute of the day as `HH:MM`. */
export function textFromMinute(minute: number): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${two(Math.floor(minute / 60))}:${two(minute % 60)}`;
}

function minuteOfDay(atMs: number, timeZone: string): number {
  const format = new Intl.DateTimeFormat("en-GB", { timeZone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  return minuteFrom(format.format(atMs));
}

const isWithin = ({ from, to }: QuietHours, minute: number): boolean =>
  from < to ? minute >= from && minute < to : minute >= from || minute < to;

/**
 * Returns the time at which the quiet hours around a time end, epoch milliseconds; undefined if the time is not within them. Equal ends
 * are quiet hours of no length. A change of the clocks within them is met at its own wall time.
 */
export function quietUntil(quiet: QuietHours, nowMs: number): number | undefined {
  const { from, to, timeZone } = quiet;
  const minute = minuteOfDay(nowMs, timeZone);
  if (from === to || !isWithin(quiet, minute)) return undefined;
  const startMs = nowMs - (nowMs % MINUTE_MS);
  const untilMs = startMs + ((to - minute + DAY_MINUTES) % DAY_MINUTES) * MINUTE_MS;
  // After a change of the clocks, the wall shows another minute then.
  const shift = minuteOfDay(untilMs, timeZone) - to;
  const corrected = untilMs - (((shift + DAY_MINUTES * 1.5) % DAY_MINUTES) - DAY_MINUTES / 2) * MINUTE_MS;
  return Math.max(corrected, startMs + MINUTE_MS);
}
