import { type RuleBodyCompiler, type RuleDraft, ruleFinding } from "./rule-draft.ts";

const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const DAY_MINUTES = 24 * 60;
/** 1 January 1970 was a Thursday. */
const EPOCH_WEEKDAY = 3;
/** Time of day. */
export const TIME = /^([01]\d|2[0-3]):([0-5]\d)$/;
const SHORT_TIME = /^(\d|1\d|2[0-3])(?::([0-5]\d))?$/;

/** Days and hours of a week in a time zone. */
interface Schedule {
  readonly zone: TimeZone;
  /** The days on which the hours begin, 0 for Monday. */
  readonly days: ReadonlySet<number>;
  /** Minutes since midnight at which the hours begin. */
  readonly from: number;
  /** Minutes since midnight at which they end, exclusive; if below `from`, on the next day. */
  readonly to: number;
  /** True if the rule covers the time outside those days and hours instead. */
  readonly isOutside: boolean;
}

/** Compiles a `schedule` rule: it fires inside, or outside, of days and hours in a time zone. */
export const compileSchedule: RuleBodyCompiler = (draft) => {
  const { conditions, path, violations } = draft;
  const before = violations.count;
  const zone = zoneFrom(draft);
  const from = minutesFrom(draft, "from") ?? 0;
  const to = minutesFrom(draft, "to") ?? DAY_MINUTES;
  if (conditions.days.length === 0 && conditions.from === undefined && conditions.to === undefined) {
    const message = "a schedule needs days such as `mon`, or hours in `from` and `to`";
    violations.add(`${path}.conditions.days`, "HOURS_MISSING", message);
  } else if (from === to && violations.count === before) {
    violations.add(`${path}.conditions.to`, "HOURS_EMPTY", "the hours end when they begin");
  }
  if (zone === undefined || violations.count > before) return undefined;
  const days = new Set(conditions.days.length === 0 ? DAYS.keys() : conditions.days.map((day) => day - 1));
  const schedule = { zone, days, from, to, isOutside: conditions.outside };
  const text = scheduleText(draft, schedule);
  return {
    check({ nowMs }) {
      if (!covers(schedule, nowMs)) return undefined;
      return ruleFinding(draft, "IN_SCHEDULE", `it is ${localText(zone, nowMs)}, which is ${text}`);
    },
  };
};

/** Returns the schedule in words: `inside mon, tue 08:00 to 18:00 in Europe/Berlin`. */
function scheduleText({ conditions: { from, to } }: RuleDraft, { days, isOutside, zone }: Schedule): string {
  const named = DAYS.filter((_, day) => days.has(day)).join(", ");
  const hours = `${from?.trim() ?? "00:00"} to ${to?.trim() ?? "24:00"}`;
  return `${isOutside ? "outside" : "inside"} ${named} ${hours} in ${zone.name}`;
}

function covers(schedule: Schedule, atMs: number): boolean {
  return isWithin(schedule, schedule.zone.localTimeAt(atMs)) !== schedule.isOutside;
}

function isWithin({ days, from, to }: Schedule, { weekday, minute }: LocalTime): boolean {
  if (from < to) return days.has(weekday) && from <= minute && minute < to;
  if (minute >= from) return days.has(weekday);
  return minute < to && days.has((weekday + 6) % 7);
}

function localText(zone: TimeZone, atMs: number): string {
  const { weekday, minute } = zone.localTimeAt(atMs);
  return `${DAYS[weekday]} ${clockText(Math.floor(minute / 60), minute % 60)}`;
}

function clockText(hours: number, minutes: number): string {
  return `${String(hours).padStart(2, "0")}:${String(minutes).padStart(2, "0")}`;
}

function zoneFrom({ conditions: { timeZone }, path, violations }: RuleDraft): TimeZone | undefined {
  const at = `${path}.conditions.time_zone`;
  if (timeZone === undefined || timeZone.trim() === "") {
    violations.add(at, "TIME_ZONE_MISSING", "a schedule needs a time zone such as `Europe/Berlin` or `UTC`");
    return undefined;
  }
  const zone = TimeZone.named(timeZone);
  if (zone === undefined) {
    const suggestion = violations.budget.nearest(timeZone, ["UTC", ...Intl.supportedValuesOf("timeZone")]);
    violations.add(at, "TIME_ZONE_UNKNOWN", `there is no time zone \`${timeZone}\``, suggestion);
  }
  return zone;
}

/** Reads minutes since midnight; undefined if the time is absent or invalid. */
function minutesFrom({ conditions, path, violations }: RuleDraft, field: "from" | "to"): number | undefined {
  const text = conditions[field]?.trim();
  if (text === undefined) return undefined;
  if (field === "to" && text === "24:00") return DAY_MINUTES;
  const [, hours, minutes] = TIME.exec(text) ?? [];
  if (hours !== undefined) return Number(hours) * 60 + Number(minutes);
  const [, shortHours, shortMinutes = "0"] = SHORT_TIME.exec(text) ?? [];
  const suggestion = shortHours === undefined ? undefined : clockText(Number(shortHours), Number(shortMinutes));
  const message = `\`${text}\` is not a time of day such as \`08:30\``;
  violations.add(`${path}.conditions.${field}`, "TIME_INVALID", message, suggestion);
  return undefined;
}

/** Day and time that clocks show. */
interface LocalTime {
  /** 0 is Monday, 6 is Sunday. */
  readonly weekday: number;
  /** Whole minutes since midnight, 0 to 1439. */
  readonly minute: number;
}

/** A time zone of the IANA database. Caches the offset of one hour, because `Intl` is slow. */
class TimeZone {
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
   * Finds a time zone by its name. Returns undefined for an unknown name, and for an offset such as `+02:00`, which has no
   * daylight saving time.
   */
  static named(name: string): TimeZone | undefined {
    if (!/^\s*[A-Za-z]/.test(name)) return undefined;
    try {
      const format = new Intl.DateTimeFormat("en-US", {
        timeZone: name.trim(),
        calendar: "gregory",
        numberingSystem: "latn",
        hourCycle: "h23",
        year: "numeric",
        month: "numeric",
        day: "numeric",
        hour: "numeric",
        minute: "numeric",
        second: "numeric",
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

/** Returns the milliseconds by which local time is ahead of UTC. */
function zoneOffset(format: Intl.DateTimeFormat, atMs: number): number {
  const at = Math.floor(atMs / 1000) * 1000;
  const shown: Record<string, string> = {};
  for (const { type, value } of format.formatToParts(at)) shown[type] = value;
  const [month, day, hour, minute, second] = ["month", "day", "hour", "minute", "second"].map((part) =>
    Number(shown[part]),
  ) as [number, number, number, number, number];
  return Date.UTC(Number(shown.year), month - 1, day, hour, minute, second) - at;
}
