/** A promise of the benchmark. */
export interface Check {
  readonly name: string;
  /** One of each round; their median is what counts. */
  readonly figures: readonly number[];
  /** The median MUST be at least, or at most, this. */
  readonly bound: { readonly atLeast: number } | { readonly atMost: number };
  readonly unit: string;
}

/** The middle one; of an even number the lower of the two. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN;
}

/** A figure with at most three digits that count, and a dash for none. */
export function figure(value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return "-";
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
}

/** Lines of cells under headings, the first column to the left and the others to the right. */
export function tableFrom(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = headings.map((_, column) => Math.max(...[headings, ...rows].map((row) => row[column]?.length ?? 0)));
  const rule = widths.map((width) => "-".repeat(width));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  ");
  return [headings, rule, ...rows].map(line).join("\n");
}

/** The lowest and the highest: far apart, they say that the machine was too busy for the median to mean much. */
export function rangeOf(values: readonly number[]): string {
  return `${figure(Math.min(...values))} - ${figure(Math.max(...values))}`;
}

/** Whether a check keeps its bound. One without a figure does not. */
export function holds({ figures, bound }: Check): boolean {
  const middle = median(figures);
  return "atLeast" in bound ? middle >= bound.atLeast : middle <= bound.atMost;
}

/** The checks as a table that ends in PASS or FAIL. */
export function checksTable(checks: readonly Check[]): string {
  const rows = checks.map((check) => {
    const { name, figures, bound, unit } = check;
    const limit = "atLeast" in bound ? `>= ${bound.atLeast}` : `<= ${bound.atMost}`;
    return [name, `${figure(median(figures))} ${unit}`, rangeOf(figures), limit, holds(check) ? "PASS" : "FAIL"];
  });
  return tableFrom(["check", "measured", "of all rounds", "bound", ""], rows);
}
