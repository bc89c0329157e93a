import { nearest } from "../violations.ts";

/** Day and time that clocks show. */
export interface LocalTime {
  /** 0 is Monday, 6 is Sunday. */
  readonly weekday: number;
  /** Whole minutes since midnight, 0 to 1439. */
  readonly minute: number;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** 1 January 1970 was a Thursday. */
const EPOCH_WEEKDAY = 3;

/** A time zone of the IANA database. Remembers the offset of one hour, because `Intl` is slow to ask. */
export class TimeZone {
  readonly name: string;
  readonly #format: Intl.DateTimeFormat;
  #hour = Number.NaN;
  /** Undefined for an hour in which the offset changes. */
  #offsetOfHour: number | undefined;

  private constructor(format: Intl.DateTimeFormat) {
    this.#format = format;
    this.name = format.resolvedOptions().timeZone;
  }

  /**
   * Finds a time zone by its name. Returns undefined for an unknown name, and for an offset such as `+02:00`, which knows
   * no summer time.
   */
  static named(name: string): TimeZone | undefined {
    if (!/^\s*[A-Za-z]/.test(name)) return undefined;
    try {
      const format = new Intl.DateTimeFormat("en-US", {
        ...{ timeZone: name.trim(), calendar: "gregory", numberingSystem: "latn", hourCycle: "h23" },
        ...{ year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" },
      });
      return new TimeZone(format);
    } catch {
      return undefined;
    }
  }

  /** Returns the local time at a time in epoch milliseconds. */
  localTimeAt(atMs: number): LocalTime {
    const local = atMs + this.#offsetAt(atMs);
    const day = Math.floor(local / DAY_MS);
    const weekday = (((day + EPOCH_WEEKDAY) % 7) + 7) % 7;
    return { weekday, minute: Math.floor((local - day * DAY_MS) / MINUTE_MS) };
  }

  #offsetAt(atMs: number): number {
    const hour = Math.floor(atMs / HOUR_MS);
    if (hour !== this.#hour) {
      const [first, last] = [hour * HOUR_MS, (hour + 1) * HOUR_MS].map((edge) => zoneOffset(this.#format, edge));
      this.#offsetOfHour = first === last ? first : undefined;
      this.#hour = hour;
    }
    return this.#offsetOfHour ?? zoneOffset(this.#format, atMs);
  }
}

/** Returns the name of the zone nearest to a text; undefined if none is near. */
export function nearestTimeZone(name: string): string | undefined {
  return nearest(name, ["UTC", ...Intl.supportedValuesOf("timeZone")]);
}

/** Milliseconds by which local time is ahead of UTC. */
function zoneOffset(format: Intl.DateTimeFormat, atMs: number): number {
  const at = Math.floor(atMs / 1000) * 1000;
  const shown: Record<string, string> = {};
  for (const { type, value } of format.formatToParts(at)) shown[type] = value;
  const [month, day, hour, minute, second] = ["month", "day", "hour", "minute", "second"].map((part) =>
    Number(shown[part]),
  ) as [number, number, number, number, number];
  return Date.UTC(Number(shown.year), month - 1, day, hour, minute, second) - at;
}
