import type { NaiveRule } from "./naive-log.ts";

/** Tests an action type (normalised) against patterns. */
export function matches(patterns: readonly string[], type: string): boolean {
  return patterns.some((given) => {
    const pattern = given.trim().toLowerCase();
    return pattern.endsWith("*") ? type.startsWith(pattern.slice(0, -1)) : type === pattern;
  });
}

/** Tests that actions, in order, were all steps of a sequence but the last: each step by the first action that matches. */
export function hasHappenedInOrder({ conditions }: NaiveRule, past: readonly { readonly type: string }[]): boolean {
  const waiting = (conditions.steps ?? []).slice(0, -1);
  for (const { type } of past) {
    const [next] = waiting;
    if (next !== undefined && matches([next], type)) waiting.shift();
  }
  return waiting.length === 0;
}

const DAYS = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];

/** Day of the week and time of day in a time zone: `THU` and `09:05`. */
function shown(timeZone: string, atMs: number): { day: string; time: string } {
  const at = new Date(atMs);
  const day = at.toLocaleDateString("en-US", { timeZone, weekday: "short" }).toUpperCase();
  return { day, time: at.toLocaleTimeString("en-GB", { timeZone, hour: "2-digit", minute: "2-digit" }) };
}

/** Tests that a schedule rule fires at a time. Times of day compare as texts. */
export function isScheduled({ conditions }: NaiveRule, atMs: number): boolean {
  const { time_zone = "", days = [], from = "00:00", to = "24:00", outside = false } = conditions;
  const { day, time } = shown(time_zone, atMs);
  const begins = (name: string | undefined): boolean => days.length === 0 || days.includes(`WEEKDAY_${name}`);
  const dayBefore = DAYS[(DAYS.indexOf(day) + 6) % 7];
  const isInside =
    from < to
      ? begins(day) && from <= time && time < to
      : (begins(day) && from <= time) || (begins(dayBefore) && time < to);
  return isInside !== outside;
}
