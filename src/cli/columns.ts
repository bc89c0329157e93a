/** Characters that take two columns of a terminal. */
const WIDE =
  /\p{Script=Han}|\p{Script=Hangul}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Emoji_Presentation}|[\u3000-\u303f\uff01-\uff60\uffe0-\uffe6]/u;
/** Characters that take no column. */
const COMBINING = /^[\p{M}\p{Cf}]+$/u;
const CHARACTERS = new Intl.Segmenter();

/** Escapes control and direction characters: text from the log could use them to manipulate the terminal. */
export function printable(line: string): string {
  return line.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be printed
    /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Returns the number of columns of a printable text on a terminal. */
export function columnsOf(text: string): number {
  let columns = 0;
  for (const { segment } of CHARACTERS.segment(text)) columns += columnsOfCharacter(segment);
  return columns;
}

/** Fits a text to a number of columns: pads it, or cuts it with an ellipsis at its end. */
export function fitted(text: string, columns: number): string {
  const shown = printable(text);
  const width = columnsOf(shown);
  if (width <= columns) return shown + " ".repeat(columns - width);
  let kept = "";
  let used = 1;
  for (const { segment } of CHARACTERS.segment(shown)) {
    const more = columnsOfCharacter(segment);
    if (used + more > columns) break;
    kept += segment;
    used += more;
  }
  return `${kept}…${" ".repeat(columns - used)}`;
}

function columnsOfCharacter(character: string): number {
  if (COMBINING.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}
