import type { JsonRecord } from "../verify/json.ts";
import { valueAt } from "../verify/json.ts";
import { columnsOf, fitted, printable } from "./columns.ts";

/** A column of a listing. */
export interface Column {
  readonly head: string;
  /** Dotted path of the member that it shows, or the text that follows from the whole row. */
  readonly of: string | ((row: JsonRecord) => string);
  /** Columns of the terminal that a cell takes at most; longer texts are cut. Default 36; ids and times are never cut. */
  readonly max?: number;
}

const DEFAULT_MAX = 36;
/** Smallest width of a column that is narrowed for the terminal. */
const NARROWEST = 8;
const GAP = "  ";
const TIME = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$/;
/** Cells that are of no use when they are cut: ids and times. */
const WHOLE = /^([a-z]{2,6}_[0-9a-zA-Z-]+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ)$/;

/** Tells a value of an answer in one line: times without fractions in UTC, lists with commas, nothing as the empty text. */
export function cellText(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value.replace(TIME, "$1 $2Z");
  if (Array.isArray(value)) return value.map(cellText).join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Returns a table with a head, its columns aligned. It fits into `width` columns as far as texts can be cut. */
export function tableLines(
  columns: readonly Column[],
  rows: readonly JsonRecord[],
  width: number | undefined,
): string[] {
  const cells = rows.map((row) => columns.map((column) => printable(textOf(column, row))));
  const widths = columns.map(({ head, max = DEFAULT_MAX }, at) => {
    const widest = Math.max(...cells.map((row) => columnsOf(row[at] ?? "")), 0);
    const fixed = isWhole(cells, at) ? widest : Math.min(widest, max);
    return Math.max(fixed, columnsOf(head));
  });
  narrow(widths, columns, cells, width);
  const heads = columns.map(({ head }) => head);
  return [heads, ...cells].map((row) =>
    row
      .map((cell, at) => fitted(cell, widths[at] ?? 0))
      .join(GAP)
      .trimEnd(),
  );
}

function textOf({ of }: Column, row: JsonRecord): string {
  return typeof of === "string" ? cellText(valueAt(row, of)) : of(row);
}

const isWhole = (cells: readonly (readonly string[])[], at: number): boolean =>
  cells.some((row) => WHOLE.test(row[at] ?? ""));

/** Takes columns from the widest texts until the table fits. */
function narrow(
  widths: number[],
  columns: readonly Column[],
  cells: readonly (readonly string[])[],
  width: number | undefined,
): void {
  if (width === undefined) return;
  const heads = columns.map(({ head }) => Math.max(columnsOf(head), NARROWEST));
  for (;;) {
    const total = widths.reduce((sum, each) => sum + each, 0) + GAP.length * (widths.length - 1);
    const able = widths.map((each, at) => (isWhole(cells, at) || each <= (heads[at] ?? 0) ? 0 : each));
    const widest = Math.max(...able);
    if (total <= width || widest <= 0) return;
    widths[able.indexOf(widest)] = widest - 1;
  }
}

/** Returns the members of one object, a line each: those that hold objects or lists of them follow as indented lines. */
export function detailLines(record: JsonRecord, indent = ""): string[] {
  const shown = Object.entries(record).filter(([, value]) => !isNothing(value));
  const width = Math.max(...shown.map(([name]) => columnsOf(printable(name))), 0);
  return shown.flatMap(([name, value]) => {
    const nested = nestedLines(value, `${indent}  `);
    if (nested !== undefined) return [`${indent}${name}`, ...nested];
    return [`${indent}${fitted(name, width)}${GAP}${cellText(value)}`];
  });
}

const isNothing = (value: unknown): boolean =>
  value === undefined || value === null || value === "" || (Array.isArray(value) && value.length === 0);

const isRecord = (value: unknown): value is JsonRecord =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function nestedLines(value: unknown, indent: string): string[] | undefined {
  if (isRecord(value)) return detailLines(value, indent);
  if (!Array.isArray(value) || !value.some((each) => typeof each === "object")) return undefined;
  return value.flatMap((each) => {
    if (!isRecord(each)) return [`${indent}- ${cellText(each)}`];
    const [first = "", ...rest] = detailLines(each, `${indent}  `);
    return [`${indent}- ${first.slice(indent.length + 2)}`, ...rest];
  });
}
