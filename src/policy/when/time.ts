import { floored } from "./numbers.ts";
import type { Run } from "./run.ts";
import { PLATFORM_STEPS } from "./run.ts";
import { Duration, Fault, Timestamp, type Value, wordOf } from "./values.ts";

const MILLISECOND = 1_000_000n;
const SECOND = 1_000_000_000n;
const MINUTE = 60n * SECOND;
const HOUR = 60n * MINUTE;
const DAY_MS = 86_400_000;
/** Ends of the times: the years 1 to 9999. */
const MIN_TIME = -62_135_596_800n * SECOND;
const MAX_TIME = 253_402_300_800n * SECOND - 1n;
const MIN_DURATION = -(2n ** 63n);
const MAX_DURATION = 2n ** 63n - 1n;

/** Builds a time, or the error that it lies outside the years 1 to 9999. */
export function timeFrom(nanos: bigint, site: string): Timestamp | Fault {
  if (nanos >= MIN_TIME && nanos <= MAX_TIME) return new Timestamp(nanos);
  return new Fault(site, "is outside the years 1 to 9999");
}

/** Builds a duration, or the error that it is too long: some 292 years. */
export function durationFrom(nanos: bigint, site: string): Duration | Fault {
  if (nanos >= MIN_DURATION && nanos <= MAX_DURATION) return new Duration(nanos);
  return new Fault(site, "is longer than 292 years");
}

const DATE = "([0-9]{4})-([0-9]{2})-([0-9]{2})";
const CLOCK = "([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\\.([0-9]{1,9}))?";
const TIMESTAMP = new RegExp(`^${DATE}T${CLOCK}(?:Z|([+-])([0-9]{2}):([0-9]{2}))$`);
const LOCAL = new RegExp(`^${DATE}(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\\.([0-9]{1,9}))?)?)?$`);

/** Converts a value to a time: a text of RFC 3339, or whole seconds since 1970. */
export function timestampFrom(value: Value, site: string): Value {
  if (value instanceof Timestamp) return value;
  if (typeof value === "bigint") return timeFrom(value * SECOND, site);
  if (typeof value !== "string")
    return new Fault(site, `converts ${wordOf(value)}; \`timestamp\` takes a text or whole seconds`);
  const [, year, month, day, hour, minute, second, fraction, sign, offsetHour = "0", offsetMinute = "0"] =
    TIMESTAMP.exec(value) ?? [];
  const local = nanosFrom(year, month, day, hour, minute, second, fraction);
  const offset = BigInt(offsetHour) * HOUR + BigInt(offsetMinute) * MINUTE;
  if (local === undefined || Number(offsetHour) > 23 || Number(offsetMinute) > 59) {
    return new Fault(site, "reads a text that is no time with a zone such as `2026-01-31T08:00:00Z`");
  }
  return timeFrom(sign === "-" ? local + offset : local - offset, site);
}

/** Converts a text that is a date, or a date with a time of day and without a zone, to that time in UTC. */
export function dateFrom(value: Value, site: string): Value {
  if (value instanceof Timestamp) return value;
  if (typeof value !== "string") return new Fault(site, `converts ${wordOf(value)}; \`date\` takes a text`);
  const [, year, month, day, hour = "0", minute = "0", second = "0", fraction] = LOCAL.exec(value.trim()) ?? [];
  const nanos = nanosFrom(year, month, day, hour, minute, second, fraction);
  if (nanos !== undefined) return timeFrom(nanos, site);
  return new Fault(site, "reads a text that is no date such as `2026-01-31`; for a time with a zone, use `timestamp`");
}

/** Computes the nanoseconds since 1970; undefined if the calendar has no such time. */
function nanosFrom(
  year: string | undefined,
  month: string | undefined,
  day: string | undefined,
  hour: string | undefined,
  minute: string | undefined,
  second: string | undefined,
  fraction: string | undefined,
): bigint | undefined {
  const date = new Date(0);
  const monthIndex = Number(month) - 1;
  date.setUTCFullYear(Number(year), monthIndex, Number(day));
  if (Number.isNaN(date.getTime()) || date.getUTCMonth() !== monthIndex || date.getUTCDate() !== Number(day))
    return undefined;
  const isTime = Number(hour) <= 23 && Number(minute) <= 59 && Number(second) <= 59;
  if (!isTime) return undefined;
  const clock = BigInt(hour ?? 0) * HOUR + BigInt(minute ?? 0) * MINUTE + BigInt(second ?? 0) * SECOND;
  return BigInt(date.getTime()) * MILLISECOND + clock + BigInt((fraction ?? "").padEnd(9, "0"));
}

const UNITS: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n,
  ms: MILLISECOND,
  s: SECOND,
  m: MINUTE,
  h: HOUR,
};
const MAX_DURATION_TEXT = 128;
const DURATION = /^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|ms|s|m|h))+$/;
const DURATION_PART = /([0-9]*)\.?([0-9]*)(ns|us|µs|ms|s|m|h)/g;

/** Converts a text such as `1h30m` to a duration. */
export function durationValueFrom(value: Value, site: string): Value {
  if (value instanceof Duration) return value;
  if (typeof value !== "string")
    return new Fault(site, `converts ${wordOf(value)}; \`duration\` takes a text such as \`"24h"\``);
  if (/^[+-]?0$/.test(value)) return new Duration(0n);
  if (value.length > MAX_DURATION_TEXT || !DURATION.test(value)) {
    return new Fault(site, "reads a text that is no duration such as `24h` or `1h30m`");
  }
  let nanos = 0n;
  for (const [, whole = "", fraction = "", unit = ""] of value.matchAll(DURATION_PART)) {
    const factor = UNITS[unit] ?? 0n;
    nanos += BigInt(whole) * factor + (BigInt(fraction) * factor) / 10n ** BigInt(fraction.length);
  }
  return durationFrom(value.startsWith("-") ? -nanos : nanos, site);
}

/** Writes a time as RFC 3339, with 0, 3, 6 or 9 places. */
export function textOfTime({ nanos }: Timestamp): string {
  const date = new Date(Number(floored(nanos, MILLISECOND))).toISOString();
  return `${date.slice(0, 19)}${placesOf(nanos - floored(nanos, SECOND) * SECOND)}Z`;
}

/** Writes a duration in seconds, with 0, 3, 6 or 9 places: `1.500s`. */
export function textOfDuration({ nanos }: Duration): string {
  const size = nanos < 0n ? -nanos : nanos;
  return `${nanos < 0n ? "-" : ""}${size / SECOND}${placesOf(size % SECOND)}s`;
}

function placesOf(nanos: bigint): string {
  if (nanos === 0n) return "";
  const digits = nanos.toString().padStart(9, "0");
  return `.${digits.replace(/(?:000){1,2}$/, "")}`;
}

/** Adds or subtracts times and durations; undefined if the values are others. */
export function computeTimes(operator: "+" | "-", left: Value, right: Value, site: string): Value | undefined {
  if (left instanceof Timestamp) {
    if (right instanceof Duration) {
      return timeFrom(operator === "+" ? left.nanos + right.nanos : left.nanos - right.nanos, site);
    }
    if (right instanceof Timestamp && operator === "-") return durationFrom(left.nanos - right.nanos, site);
    return undefined;
  }
  if (!(left instanceof Duration)) return undefined;
  if (right instanceof Timestamp && operator === "+") return timeFrom(left.nanos + right.nanos, site);
  if (!(right instanceof Duration)) return undefined;
  return durationFrom(operator === "+" ? left.nanos + right.nanos : left.nanos - right.nanos, site);
}

/** Shifts a time so that the UTC fields of the result are those of the zone. */
export type Zone = (run: Run, ms: number) => Date;

export const UTC: Zone = (_run, ms) => new Date(ms);

/** Finds a zone by its name, such as `Europe/Berlin`, or its offset, such as `+02:00`; undefined if there is none. */
export function zoneFrom(name: string): Zone | undefined {
  const [, sign, hours, minutes] = /^([+-]?)([0-9]{2}):([0-9]{2})$/.exec(name) ?? [];
  if (hours !== undefined) {
    if (Number(hours) > 23 || Number(minutes) > 59) return undefined;
    const offset = (Number(hours) * 60 + Number(minutes)) * 60_000 * (sign === "-" ? -1 : 1);
    return (_run, ms) => new Date(ms + offset);
  }
  const format = formatOf(name);
  return format && ((run, ms) => shifted(run, ms, format));
}

function formatOf(timeZone: string): Intl.DateTimeFormat | undefined {
  const numeric = "numeric";
  try {
    return new Intl.DateTimeFormat("en-US", {
      timeZone,
      hourCycle: "h23",
      year: numeric,
      month: numeric,
      day: numeric,
      hour: numeric,
      minute: numeric,
      second: numeric,
    });
  } catch {
    return undefined;
  }
}

function shifted(run: Run, ms: number, format: Intl.DateTimeFormat): Date {
  run.take(PLATFORM_STEPS);
  const parts = new Map(format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]));
  const part = (type: Intl.DateTimeFormatPartTypes): number => parts.get(type) ?? 0;
  const date = new Date(0);
  date.setUTCFullYear(part("year"), part("month") - 1, part("day"));
  date.setUTCHours(part("hour"), part("minute"), part("second"), ((ms % 1000) + 1000) % 1000);
  return date;
}

/** Parts of a time, by the name of their function. */
const TIME_PARTS: Readonly<Record<string, (date: Date) => number>> = {
  getFullYear: (date) => date.getUTCFullYear(),
  getMonth: (date) => date.getUTCMonth(),
  getDate: (date) => date.getUTCDate(),
  getDayOfMonth: (date) => date.getUTCDate() - 1,
  getDayOfWeek: (date) => date.getUTCDay(),
  getDayOfYear: (date) => {
    const start = new Date(0);
    start.setUTCFullYear(date.getUTCFullYear(), 0, 1);
    return Math.floor((date.getTime() - start.getTime()) / DAY_MS);
  },
  getHours: (date) => date.getUTCHours(),
  getMinutes: (date) => date.getUTCMinutes(),
  getSeconds: (date) => date.getUTCSeconds(),
  getMilliseconds: (date) => date.getUTCMilliseconds(),
};

/** Parts of a duration, by the name of their function. */
const DURATION_PARTS: Readonly<Record<string, (nanos: bigint) => bigint>> = {
  getHours: (nanos) => nanos / HOUR,
  getMinutes: (nanos) => nanos / MINUTE,
  getSeconds: (nanos) => nanos / SECOND,
  getMilliseconds: (nanos) => (nanos % SECOND) / MILLISECOND,
};

/** Returns a part of a time in a zone, or of a duration; default zone: UTC. */
export function partOf(run: Run, name: string, value: Value, zone: Zone | undefined, site: string): Value {
  const durationPart = DURATION_PARTS[name];
  if (value instanceof Duration && durationPart !== undefined && zone === undefined) return durationPart(value.nanos);
  const timePart = TIME_PARTS[name];
  if (!(value instanceof Timestamp) || timePart === undefined) {
    return new Fault(site, `reads ${wordOf(value)}; \`${name}\` takes a time`);
  }
  const date = (zone ?? UTC)(run, Number(floored(value.nanos, MILLISECOND)));
  return BigInt(timePart(date));
}
