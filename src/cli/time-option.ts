import { CommandError, type CommandInput } from "./command.ts";

const HOUR_MS = 3_600_000;
const UNITS: Readonly<Record<string, number>> = { d: 24 * HOUR_MS, h: HOUR_MS, m: HOUR_MS / 60 };

/** Reads `--since` or `--until` as a member of that name; no member if it was not given. Throws `CommandError` for another text. */
export function timeFrom(input: CommandInput, name: "since" | "until", now = Date.now()): Record<string, string> {
  const text = input.option(name);
  if (text === undefined) return {};
  const [, count, unit = ""] = /^(\d{1,6})([dhm])$/.exec(text) ?? [];
  const at = count === undefined ? Date.parse(text) : now - Number(count) * (UNITS[unit] ?? Number.NaN);
  if (!Number.isFinite(at))
    throw new CommandError(`--${name} takes \`30d\`, \`12h\`, \`45m\` or a time such as 2026-01-31T00:00:00Z`);
  return { [name]: new Date(at).toISOString() };
}
