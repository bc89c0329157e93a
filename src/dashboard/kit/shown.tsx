import { useState } from "react";

/**
 * Characters that are invisible or move others: controls except tab and newline, ignorable code points, bidirectional
 * controls, spaces other than U+0020, and lone surrogates (Unicode's Default_Ignorable_Code_Point, Bidi_Control, Zs, Cs).
 */
const UNSEEN =
  /\p{Cc}|\p{Cf}|\p{Cs}|\p{Co}|\p{Cn}|\p{Zl}|\p{Zp}|(?! )\p{Zs}|\p{Variation_Selector}|[\u034f\u115f\u1160\u3164\uffa0]/gu;
const FIRST = 2_000;
const MORE = 20_000;

/** A piece of text: unchanged, or one invisible character by its code point. */
type Piece = { readonly at: number; readonly text: string } | { readonly at: number; readonly code: string };

function piecesOf(text: string): readonly Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const { 0: found, index } of text.matchAll(UNSEEN)) {
    if (found === "\n" || found === "\t") continue;
    if (index > from) pieces.push({ at: from, text: text.slice(from, index) });
    const code = (found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    pieces.push({ at: index, code: `U+${code}` });
    from = index + found.length;
  }
  if (from < text.length) pieces.push({ at: from, text: text.slice(from) });
  return pieces;
}

/** Writes a text from elsewhere where elements are impossible, as in options and titles: invisible characters as `[U+200B]`. */
export function shownText(text: string, limit = 120): string {
  const whole = piecesOf(text.slice(0, limit)).map((piece) => ("code" in piece ? `[${piece.code}]` : piece.text));
  return `${whole.join("").replaceAll(/\s+/g, " ")}${text.length > limit ? " …" : ""}`;
}

/**
 * Shows a text from elsewhere: inert, in its own direction, invisible characters as code points, long texts in parts.
 */
export function Shown({ text }: { readonly text: string }) {
  const [limit, setLimit] = useState(FIRST);
  const isLong = text.length > limit;
  return (
    <>
      <bdi className="shown">
        {piecesOf(isLong ? text.slice(0, limit) : text).map((piece) =>
          "code" in piece ? (
            <span key={piece.at} className="unseen">
              {piece.code}
            </span>
          ) : (
            <span key={piece.at}>{piece.text}</span>
          ),
        )}
      </bdi>
      {isLong && (
        <button type="button" className="link" onClick={() => setLimit(limit + MORE)}>
          … {(text.length - limit).toLocaleString("en")} more characters
        </button>
      )}
    </>
  );
}
