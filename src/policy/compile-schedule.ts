import type { Conditions } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { plainFinding, sentence } from "./finding.ts";
import type { RuleBody, RuleBodyCompiler, RuleDraft } from "./rule-draft.ts";
import { covers, createPassFinder, type Schedule } from "./schedule.ts";
import { createTimeZone, nearestTimeZone, type TimeZone } from "./time-zone.ts";

const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY_MINUTES = 24 * 60;
const TIME = /^([01]\d|2[0-3]):([0-5]\d)$/;
const SHORT_TIME = /^(\d|1\d|2[0-3])(?::([0-5]\d))?$/;

/** Compiles a `schedule` rule: it fires inside, or outside, of days and hours in a time zone. */
export const compileSchedule: RuleBodyCompiler = (draft) => {
  const { conditions, path, violations } = draft;
  const before = violations.count();
  const zone = zoneOf(draft);
  const from = minutesOf(draft, "from") ?? 0;
  const to = minutesOf(draft, "to") ?? DAY_MINUTES;
  if (conditions.days.length === 0 && conditions.from === undefined && conditions.to === undefined) {
    const message = "a schedule needs days such as `mon`, or hours in `from` and `to`";
    violations.add(`${path}.conditions.days`, "HOURS_MISSING", message);
  } else if (from === to && violations.count() === before) {
    violations.add(`${path}.conditions.to`, "HOURS_EMPTY", "the hours end when they begin");
  }
  if (zone === undefined || violations.count() > before) return undefined;
  const days = new Set(conditions.days.length === 0 ? DAYS.keys() : conditions.days.map((day) => day - 1));
  return scheduleBody(draft, { zone, days, from, to, isOutside: conditions.outside });
};

function scheduleBody({ rule, path, conditions }: RuleDraft, schedule: Schedule): RuleBody {
  const { zone, days, isOutside } = schedule;
  const named = DAYS.filter((_, day) => days.has(day)).join(", ");
  const hours = `${conditions.from?.trim() ?? "00:00"} to ${conditions.to?.trim() ?? "24:00"}`;
  const covered = `${isOutside ? "outside" : "inside"} ${named} ${hours} in ${zone.name}`;
  const passesAt = createPassFinder(schedule);
  let told: { readonly at: number; readonly text: string } | undefined;
  // The same for as long as the hours last, so it is put in words once.
  const wouldPassAt = (at: number): string => {
    if (told?.at === at) return told.text;
    const text = `would allow from ${shown(zone, at)} in ${zone.name} (${new Date(at).toISOString()})`;
    told = { at, text };
    return text;
  };
  return {
    check: ({ nowMs }) => {
      if (!covers(schedule, nowMs)) return undefined;
      const message = sentence(rule.description, `it is ${shown(zone, nowMs)}, which is ${covered}`);
      const finding = plainFinding("IN_SCHEDULE", message, path);
      const at = passesAt(nowMs);
      return at === undefined ? finding : { ...finding, wouldPass: wouldPassAt(at) };
    },
  };
}

function shown(zone: TimeZone, atMs: number): string {
  const { weekday, minute } = zone.localTimeAt(atMs);
  return `${DAYS[weekday]} ${clockText(Math.floor(minute / 60), minute % 60)}`;
}

function clockText(hours: number, minutes: number): string {
  return `${String(hours).padStart(2, "0")}:${String(minutes).padStart(2, "0")}`;
}

function zoneOf({ conditions: { timeZone }, path, violations }: RuleDraft): TimeZone | undefined {
  const at = `${path}.conditions.time_zone`;
  if (timeZone === undefined || timeZone.trim() === "") {
    violations.add(at, "TIME_ZONE_MISSING", "a schedule needs a time zone such as `Europe/Berlin` or `UTC`");
    return undefined;
  }
  const zone = createTimeZone(timeZone);
  if (zone === undefined) {
    violations.add(at, "TIME_ZONE_UNKNOWN", `there is no time zone \`${timeZone}\``, nearestTimeZone(timeZone));
  }
  return zone;
}

/** Minutes since midnight; undefined when the time is absent or none. */
function minutesOf(draft: RuleDraft, field: keyof Conditions & ("from" | "to")): number | undefined {
  const text = draft.conditions[field]?.trim();
  if (text === undefined) return undefined;
  if (field === "to" && text === "24:00") return DAY_MINUTES;
  const [, hours, minutes] = TIME.exec(text) ?? [];
  if (hours !== undefined) return Number(hours) * 60 + Number(minutes);
  const [, shortHours, shortMinutes = "0"] = SHORT_TIME.exec(text) ?? [];
  const suggestion = shortHours === undefined ? undefined : clockText(Number(shortHours), Number(shortMinutes));
  const message = `\`${text}\` is no time of day such as \`08:30\``;
  draft.violations.add(`${draft.path}.conditions.${field}`, "TIME_INVALID", message, suggestion);
  return undefined;
}
