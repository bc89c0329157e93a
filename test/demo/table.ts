/** One attempt of an agent and what came of it. */
export interface Row {
  readonly agent: string;
  readonly call: string;
  readonly expected: string;
  readonly decision: string;
  readonly reason: string;
  /** What the world shows: did the tool run. */
  readonly effect: string;
  readonly isAsExpected: boolean;
}

const HEADINGS = ["", "agent", "tool call", "expected", "decision", "effect", "reason"] as const;

function cellsOf({ isAsExpected, agent, call, expected, decision, effect, reason }: Row): readonly string[] {
  return [isAsExpected ? "ok" : "DIFFERS", agent, call, expected, decision, effect, reason];
}

/** The rows as text, one line each, under a line of headings. */
export function tableFrom(rows: readonly Row[]): string {
  const lines = [HEADINGS, ...rows.map(cellsOf)];
  const widths = HEADINGS.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const text = lines.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  text.splice(1, 0, widths.map((width) => "-".repeat(width)).join("  "));
  return text.join("\n");
}
