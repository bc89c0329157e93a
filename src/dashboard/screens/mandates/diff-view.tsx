import { diffLines } from "diff";
import { useMemo } from "react";
import { Scrolled } from "../../kit/scrolled.tsx";
import { Shown } from "../../kit/shown.tsx";

/** Unchanged lines shown around each change. */
const CONTEXT = 3;

interface Line {
  readonly key: string;
  readonly mark: " " | "+" | "-" | "…";
  readonly text: string;
}

function linesOf(before: string, after: string): readonly Line[] {
  const lines = diffLines(before, after).flatMap(({ value, added, removed }, part) => {
    const mark = added ? "+" : removed ? "-" : " ";
    return value
      .replace(/\n$/, "")
      .split("\n")
      .map((text, index): Line => ({ key: `${part} ${index}`, mark, text }));
  });
  const isNear = lines.map((_, at) =>
    lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(({ mark }) => mark !== " "),
  );
  return lines.flatMap((line, at): readonly Line[] => {
    if (isNear[at]) return [line];
    return at === 0 || isNear[at - 1] ? [{ key: `${line.key} …`, mark: "…", text: "" }] : [];
  });
}

const WORDS: Readonly<Record<string, string>> = { "+": "added", "-": "removed" };

/** Line diff of two texts. */
export function DiffView({ before, after }: { readonly before: string; readonly after: string }) {
  const lines = useMemo(() => linesOf(before, after), [before, after]);
  if (before === after) return <p className="hint">Nothing differs.</p>;
  return (
    <Scrolled label="Difference" className="diff">
      {lines.map(({ key, mark, text }) => (
        <div key={key} className={mark === "+" ? "is-added" : mark === "-" ? "is-removed" : ""}>
          <span aria-hidden>{mark} </span>
          {WORDS[mark] === undefined ? null : <span className="visually-hidden">{WORDS[mark]}: </span>}
          <Shown text={text} />
        </div>
      ))}
    </Scrolled>
  );
}
