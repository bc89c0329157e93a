import { useState } from "react";
import { Shown } from "../shown.tsx";

const FIRST = 24;
const MORE = 100;

/** Shows a list of short texts in one paragraph; a long list in parts. */
export function WordList({ words, none }: { readonly words: readonly string[]; readonly none: string }) {
  const [limit, setLimit] = useState(FIRST);
  if (words.length === 0) return <span className="hint">{none}</span>;
  const shown = words.slice(0, limit);
  return (
    <ul className="words">
      {shown.map((word) => (
        <li key={word} className="word">
          <Shown text={word} />
        </li>
      ))}
      {words.length > limit ? (
        <li>
          <button type="button" className="link" onClick={() => setLimit(limit + MORE)}>
            {words.length - limit} more
          </button>
        </li>
      ) : null}
    </ul>
  );
}
