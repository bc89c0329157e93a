import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** Maximum lines of a difference, and maximum characters of a value in a line. */
const MAX_LINES = 100;
const MAX_VALUE = 300;
/** Characters that are shown on both sides of a difference. */
const CONTEXT = 40;
/** Characters that do not print, or change how others are shown (Unicode: Cc, Cf, Zl, Zp, Co, Cn and variation selectors). */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]|\p{Variation_Selector}/gu;
const PLAIN_STEP = /^[A-Za-z_$][\w$-]*$/;

/** Returns a text as it may be shown: unprintable characters are escaped, and it is cut at a number of characters. */
export function printable(text: string, most: number): string {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text;
  return cut.toWellFormed().replace(UNSEEN, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
}

/** Tests whether a text holds characters that do not print, or that change how others are shown. */
export const holdsUnseen = (text: string): boolean => text.search(UNSEEN) !== -1 || !text.isWellFormed();

/** Lists the differences between two definitions, a line for each place, at most 100. */
export function definitionChanges(before: JsonObject, after: JsonObject): readonly string[] {
  const lines: string[] = [];
  compare("", before, after, lines);
  if (lines.length <= MAX_LINES) return lines;
  return [...lines.slice(0, MAX_LINES - 1), `and ${lines.length - MAX_LINES + 1} more`];
}

function compare(path: string, before: JsonValue | undefined, after: JsonValue | undefined, lines: string[]): void {
  if (isContainer(before) && isContainer(after) && Array.isArray(before) === Array.isArray(after)) {
    const members = new Set([...Object.keys(before), ...Object.keys(after)]);
    for (const member of members) {
      const step = Array.isArray(after) ? `[${member}]` : stepText(path, member);
      compare(`${path}${step}`, valueAt(before, member), valueAt(after, member), lines);
    }
    return;
  }
  if (before === after) return;
  if (before === undefined) lines.push(`${path}: added ${valueText(after)}`);
  else if (after === undefined) lines.push(`${path}: removed ${valueText(before)}`);
  else if (typeof before === "string" && typeof after === "string") lines.push(`${path}: ${changeText(before, after)}`);
  else lines.push(`${path}: ${valueText(before)} → ${valueText(after)}`);
}

/** Shows where two texts differ. Long common parts are cut, so that no change hides behind them. */
function changeText(before: string, after: string): string {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start++;
  let end = 0;
  while (end < most - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  const isLong = Math.max(before.length, after.length) > MAX_VALUE - 2;
  const from = isLong ? Math.max(0, start - CONTEXT) : 0;
  const cut = (text: string): string => {
    const to = isLong ? Math.min(text.length, text.length - end + CONTEXT) : text.length;
    return valueText(`${from === 0 ? "" : "…"}${text.slice(from, to)}${to === text.length ? "" : "…"}`);
  };
  return `${cut(before)} → ${cut(after)}`;
}

type Container = JsonObject | JsonValue[];

const isContainer = (value: JsonValue | undefined): value is Container => typeof value === "object" && value !== null;

const valueAt = (container: Container, member: string): JsonValue | undefined =>
  Object.hasOwn(container, member) ? (container as JsonObject)[member] : undefined;

function stepText(path: string, member: string): string {
  if (!PLAIN_STEP.test(member)) return `["${printable(member, MAX_VALUE)}"]`;
  return path === "" ? member : `.${member}`;
}

const valueText = (value: JsonValue | undefined): string => printable(JSON.stringify(value), MAX_VALUE);
