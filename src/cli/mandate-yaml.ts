import { stringify } from "yaml";
import { isJsonRecord, type JsonRecord } from "../verify/json.ts";

/** Members in the order of the canonical form; others come last, by name. */
const ORDER = [
  "name",
  "description",
  "type",
  "tool",
  "decision",
  "escalation_ttl_seconds",
  "when",
  "mode",
  "scope",
  "department_id",
  "agent_id",
  "priority",
  "field",
  "operator",
  "value",
  "currency",
  "on_missing",
  "match_action_types",
  "exclude_action_types",
  "steps",
  "max_count",
  "window_seconds",
  "count_decisions",
  "count_outcomes",
  "patterns",
  "below",
  "time_zone",
  "days",
  "from",
  "to",
  "outside",
  "prompt",
  "min_confidence",
  "on_unavailable",
  "timeout_ms",
  "conditions",
  "rules",
];
/** Members that the service adds to a mandate. */
const GIVEN = [
  "mandate_id",
  "version",
  "digest",
  "status",
  "violations",
  "created_at",
  "updated_at",
  "pack",
  "created_by",
  "created_by_name",
  "note",
  "restored_from",
];
/** Default values, which mean the same as omitting the member, of a mandate and of its parts. */
const MANDATE_DEFAULTS: JsonRecord = { scope: "workspace", mode: "enforce", priority: 0, description: "" };
const DEFAULTS: JsonRecord = { outside: false };

/** Returns a mandate as canonical YAML: with its members in a fixed order, and without defaults. */
export function canonicalYaml(mandate: JsonRecord): string {
  const named = typeof mandate.name === "string" ? { ...mandate, name: mandate.name.trim() } : mandate;
  const written = Object.entries(named).filter(
    ([name, value]) => !GIVEN.includes(name) && value !== MANDATE_DEFAULTS[name],
  );
  return stringify(canonical(Object.fromEntries(written)), { lineWidth: 0, aliasDuplicateObjects: false });
}

function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical);
  if (!isJsonRecord(value)) return value;
  const members = Object.entries(value)
    .filter(([name, member]) => name === "value" || !saysNothing(name, member))
    .sort(([a], [b]) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1))
    // The value of a condition is the author's own JSON and stays unchanged.
    .map(([name, member]) => [name, name === "value" ? member : canonical(member)] as const)
    .filter(([name, member]) => name !== "value" || member !== null);
  return Object.fromEntries(members);
}

/** True for null, an empty list, a member's default, and a blank `operator`, which means `AND`. */
function saysNothing(name: string, value: unknown): boolean {
  if (value === null || value === undefined || value === DEFAULTS[name]) return true;
  return Array.isArray(value) ? value.length === 0 : name === "operator" && value === "";
}

function rankOf(name: string): number {
  const rank = ORDER.indexOf(name);
  return rank < 0 ? ORDER.length : rank;
}

/** Lines of a difference around each change. */
const CONTEXT = 2;
/** Maximum product of line counts for the shortest difference; larger texts are shown whole. */
const MAX_PRODUCT = 4_000_000;

/** Returns the lines that differ, with `-` and `+` before them, and some equal lines around them. */
export function lineDiff(before: string, after: string): readonly string[] {
  const [old, now] = [before.trimEnd().split("\n"), after.trimEnd().split("\n")];
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  let tail = 0;
  const rest = Math.min(old.length, now.length) - head;
  while (tail < rest && old.at(-1 - tail) === now.at(-1 - tail)) tail++;
  const middle = changedLines(old.slice(head, old.length - tail), now.slice(head, now.length - tail));
  const equal = (lines: readonly string[]): string[] => lines.map((line) => `  ${line}`);
  return shortened([...equal(old.slice(0, head)), ...middle, ...equal(tail === 0 ? [] : old.slice(-tail))]);
}

/** Compares lines by their longest common subsequence. */
function changedLines(old: readonly string[], now: readonly string[]): string[] {
  if (old.length * now.length > MAX_PRODUCT)
    return [...old.map((line) => `- ${line}`), ...now.map((line) => `+ ${line}`)];
  const width = now.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  const at = (row: number, column: number): number => common[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row--) {
    for (let column = now.length - 1; column >= 0; column--) {
      common[row * width + column] =
        old[row] === now[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const lines: string[] = [];
  let [row, column] = [0, 0];
  while (row < old.length || column < now.length) {
    if (row < old.length && column < now.length && old[row] === now[column]) {
      lines.push(`  ${old[row++]}`);
      column++;
    } else if (column >= now.length || (row < old.length && at(row + 1, column) >= at(row, column + 1))) {
      lines.push(`- ${old[row++]}`);
    } else lines.push(`+ ${now[column++]}`);
  }
  return lines;
}

/** Removes equal lines that are far from every change. */
function shortened(lines: readonly string[]): string[] {
  const isChange = (line: string | undefined): boolean => line !== undefined && !line.startsWith("  ");
  const near = lines.map((_, index) => lines.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some(isChange));
  return lines.flatMap((line, index) => (near[index] ? [line] : near[index - 1] ? ["  …"] : []));
}
