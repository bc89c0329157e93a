/** A block of code, with the output that the page shows of it. */
export interface CodeBlock {
  /** `sh`, `ts`, `sql` or `python`. */
  readonly language: string;
  readonly code: string;
  /** The `json` or `text` block that follows at once. */
  readonly shown: { readonly language: string; readonly text: string } | undefined;
  /** Reason of the line `<!-- not run: reason -->` above it. */
  readonly notRun: string | undefined;
}

const BLOCK =
  /^(?:<!-- not run: (.+) -->\n)?```(sh|ts|sql|python)\n([\s\S]*?)^```\n(?:\n```(json|text)\n([\s\S]*?)^```\n)?/gm;

/** Returns the blocks of code of a page, in order. */
export function codeBlocks(page: string): readonly CodeBlock[] {
  return [...page.matchAll(BLOCK)].map(([, notRun, language = "", code = "", shownAs, text = ""]) => ({
    language,
    code,
    shown: shownAs === undefined ? undefined : { language: shownAs, text },
    notRun,
  }));
}

/** Returns the blocks that a reader, and a test, can run: all but those marked as not run. */
export function runnableBlocks(page: string): readonly CodeBlock[] {
  return codeBlocks(page).filter(({ notRun }) => notRun === undefined);
}

/** Returns the targets of a page's relative links, without fragments. */
export function linksOf(page: string): readonly string[] {
  return [...page.matchAll(/\]\((?!\w+:|#)([^)#]+)[^)]*\)/g)].map(([, path = ""]) => path);
}

/** Returns the rows of the tables below a heading, cells trimmed, without the head. */
export function tableBelow(page: string, heading: string): readonly (readonly string[])[] {
  const section = page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? "";
  const lines = section.split("\n");
  const isRow = (line = ""): boolean => line.startsWith("|");
  // A table's first two lines are its head.
  const rows = lines.filter((line, index) => isRow(line) && isRow(lines[index - 1]) && isRow(lines[index - 2]));
  return rows.map((row) =>
    row
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim()),
  );
}

/** Compares a text with the shown one, in which `…` stands for anything but a line end. */
export function isTextAsShown(text: string, shown: string): boolean {
  const parts = shown
    .trim()
    .split("…")
    .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`).test(text.trim());
}

/** Reduces `value` to the members that `shown` has, with those that differ from run to run as shown. */
export function asFarAsShown(value: unknown, shown: unknown): unknown {
  if (typeof shown === "string" && typeof value === "string") return isTextAsShown(value, shown) ? shown : value;
  if (Array.isArray(shown) && Array.isArray(value)) return value.map((item, index) => asFarAsShown(item, shown[index]));
  if (typeof shown !== "object" || shown === null || typeof value !== "object" || value === null) return value;
  const members = value as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(shown)
      .filter(([name]) => name in members)
      .map(([name, want]) => [name, name === "latency_ms" ? want : asFarAsShown(members[name], want)]),
  );
}
