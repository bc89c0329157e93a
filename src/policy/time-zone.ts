import { nearest } from "./edit-distance.ts";

/** The day and the time of day that clocks show. */
export interface LocalTime {
  /** 0 is Monday, 6 is Sunday. */
  readonly weekday: number;
  /** Whole minutes since midnight, 0 to 1439. */
  readonly minute: number;
}

/** A time zone of the IANA database. */
export interface TimeZone {
  readonly name: string;
  /** What clocks in the zone show at a time in epoch milliseconds. */
  localTimeAt(atMs: number): LocalTime;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** 1 January 1970 was a Thursday. */
const EPOCH_WEEKDAY = 3;

/**
 * Makes a time zone; undefined when there is none of this name. An offset such as `+02:00` is none: it knows no summer time.
 * Asking Intl takes microseconds, so the offset of the hour asked about last is remembered.
 */
export function createTimeZone(name: string): TimeZone | undefined {
  const format = formatOf(name.trim());
  if (format === undefined) return undefined;
  let hour = Number.NaN;
  let offsetOfHour: number | undefined;

  const offsetAt = (atMs: number): number => {
    const asked = Math.floor(atMs / HOUR_MS);
    if (asked !== hour) {
      const [first, last] = [asked * HOUR_MS, (asked + 1) * HOUR_MS].map((edge) => zoneOffset(format, edge));
      offsetOfHour = first === last ? first : undefined;
      hour = asked;
    }
    return offsetOfHour ?? zoneOffset(format, atMs);
  };

  return {
    name: format.resolvedOptions().timeZone,
    localTimeAt(atMs) {
      const local = atMs + offsetAt(atMs);
      const day = Math.floor(local / DAY_MS);
      const weekday = (((day + EPOCH_WEEKDAY) % 7) + 7) % 7;
      return { weekday, minute: Math.floor((local - day * DAY_MS) / MINUTE_MS) };
    },
  };
}

/** The name of a zone that is nearest to a text; undefined when none is near. */
export function nearestTimeZone(name: string): string | undefined {
  return nearest(name, ["UTC", ...Intl.supportedValuesOf("timeZone")]);
}

function formatOf(name: string): Intl.DateTimeFormat | undefined {
  if (!/^[A-Za-z]/.test(name)) return undefined;
  try {
    return new Intl.DateTimeFormat("en-US", {
      ...{ timeZone: name, calendar: "gregory", numberingSystem: "latn", hourCycle: "h23" },
      ...{ year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" },
    });
  } catch {
    return undefined;
  }
}

/** Milliseconds that clocks in the zone are ahead of UTC at a time. */
function zoneOffset(format: Intl.DateTimeFormat, atMs: number): number {
  const at = Math.floor(atMs / 1000) * 1000;
  const shown: Record<string, string> = {};
  for (const { type, value } of format.formatToParts(at)) shown[type] = value;
  const [month, day, hour, minute, second] = ["month", "day", "hour", "minute", "second"].map((part) =>
    Number(shown[part]),
  ) as [number, number, number, number, number];
  return Date.UTC(Number(shown.year), month - 1, day, hour, minute, second) - at;
}
