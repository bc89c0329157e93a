/** A block of code that a page marks to be run, with the output it shows. */
export interface RunnableBlock {
  /** `sh` or `ts`. */
  readonly language: string;
  readonly code: string;
  /** Undefined where the page shows none. */
  readonly shown: { readonly language: string; readonly text: string } | undefined;
}

const BLOCK = /^<!-- run -->\n```(\w+)\n([\s\S]*?)^```\n(?:\n```(json|text)\n([\s\S]*?)^```\n)?/gm;

/** The blocks below a `<!-- run -->` line, in their order; a `json` or `text` block right after one is its output. */
export function runnableBlocks(page: string): readonly RunnableBlock[] {
  return [...page.matchAll(BLOCK)].map(([, language = "", code = "", shownAs, text = ""]) => ({
    ...{ language, code },
    shown: shownAs === undefined ? undefined : { language: shownAs, text },
  }));
}

/** The rows of the table below a heading, cells trimmed, without the head. */
export function tableBelow(page: string, heading: string): readonly (readonly string[])[] {
  const section = page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? "";
  const rows = section.split("\n").filter((line) => line.startsWith("|"));
  return rows.slice(2).map((row) =>
    row
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim()),
  );
}

/** Whether a text is as shown, where `…` stands for anything but a line end. */
export function isTextAsShown(text: string, shown: string): boolean {
  const parts = shown
    .trim()
    .split("…")
    .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`).test(text.trim());
}

/** Leaves out of `value` the members that `shown` leaves out, and what differs from run to run. */
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
