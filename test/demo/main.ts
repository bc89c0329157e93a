import { type Row, runScenarios } from "./scenarios.ts";
import { setUp } from "./setup.ts";

const HEADINGS = ["", "agent", "tool call", "expected", "decision", "effect", "reason"] as const;

function cellsOf({ isAsExpected, agent, call, expected, decision, effect, reason }: Row): readonly string[] {
  return [isAsExpected ? "ok" : "DIFFERS", agent, call, expected, decision, effect, reason];
}

/** Formats the rows as a table with a line of headings. */
function tableFrom(rows: readonly Row[]): string {
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

const cleanup = new AsyncDisposableStack();

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void cleanup.disposeAsync().finally(() => process.exit(1)));
}

try {
  const rows = await runScenarios(await setUp(cleanup));
  console.log(tableFrom(rows));
  const differing = rows.filter(({ isAsExpected }) => !isAsExpected).length;
  console.log(differing === 0 ? "\nall as expected" : `\n${differing} of ${rows.length} differ`);
  if (differing > 0) process.exitCode = 1;
} catch (error) {
  // After an interruption, running steps fail for that reason alone.
  if (!cleanup.disposed) console.error(error);
  process.exitCode = 1;
} finally {
  await cleanup.disposeAsync();
}
