import { isMap, isScalar, isSeq, type Scalar } from "yaml";

/** Blank characters, which YAML folds; all others stand in the text as they do in the value, or as an escape. */
const BLANK = /\s/;
/** A character, or an escape of a text in double quotes: by a number, one that joins lines, or by a letter. */
const UNIT = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(\r?\n)|(.))|[\s\S]/g;
/** Letters of escapes that stand for a blank. */
const BLANK_ESCAPES = new Set(["n", "t", "r", "v", "f", " ", "\t", "_", "L", "P"]);

/** Finds the scalar at a path such as `rules[0].when`; undefined if there is none. */
export function scalarAt(root: unknown, path: string): Scalar | undefined {
  let node = root;
  for (const step of path.match(/[^.[\]]+/g) ?? []) {
    if (isMap(node)) node = node.items.find(({ key }) => String(isScalar(key) ? key.value : key) === step)?.value;
    else if (isSeq(node)) node = node.items[Number(step)];
    else return undefined;
  }
  return isScalar(node) ? node : undefined;
}

/** Converts a line and a column, in characters from 1, to an index in UTF-16 units. */
export function indexAt(value: string, line: number, column: number): number {
  const lines = value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  return start + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
}

/**
 * Finds where a character of a scalar's value stands in the YAML text, plain, quoted, or in a block that is kept or folded. `index`
 * and the result count UTF-16 units. A blank stands behind the character before it.
 */
export function offsetInScalar(text: string, scalar: Scalar, index: number): number {
  const value = String(scalar.value);
  const offsets = visibleOffsets(text, scalar);
  const before = [...value.slice(0, index)].filter((character) => !BLANK.test(character)).join("").length;
  const isVisible = index < value.length && !BLANK.test(value.charAt(index));
  const last = offsets[before - 1];
  const start = scalar.range?.[0] ?? 0;
  if (isVisible || last === undefined) return offsets[before] ?? start;
  return last + 1;
}

/** Lists the places of all characters of a scalar that are no blanks. */
function visibleOffsets(text: string, { range, type }: Scalar): readonly number[] {
  const [start, end] = range ?? [0, 0];
  switch (type) {
    case "BLOCK_LITERAL":
    case "BLOCK_FOLDED": {
      const header = text.indexOf("\n", start);
      return header < 0 ? [] : plainOffsets(text, header + 1, end);
    }
    case "QUOTE_SINGLE":
      return plainOffsets(text, start + 1, end - 1).filter((at) => !isSecondQuote(text, start + 1, at));
    case "QUOTE_DOUBLE":
      return escapedOffsets(text, start + 1, end - 1);
    default:
      return plainOffsets(text, start, end);
  }
}

function plainOffsets(text: string, from: number, to: number): readonly number[] {
  const offsets: number[] = [];
  for (let at = from; at < to; at++) if (!BLANK.test(text.charAt(at))) offsets.push(at);
  return offsets;
}

/** Tests for a quote that is the second of two that stand for one. */
function isSecondQuote(text: string, from: number, at: number): boolean {
  if (text[at] !== "'") return false;
  let first = at;
  while (first > from && text[first - 1] === "'") first--;
  return (at - first) % 2 === 1;
}

function escapedOffsets(text: string, from: number, to: number): readonly number[] {
  return [...text.slice(from, to).matchAll(UNIT)].flatMap((match) => {
    const [unit, byte, short, long, lines, letter] = match;
    const code = byte ?? short ?? long;
    if (lines !== undefined || BLANK_ESCAPES.has(letter ?? "")) return [];
    const written = code === undefined ? unit.slice(0, 1) : characterOf(code);
    return BLANK.test(written) ? [] : written.split("").map(() => from + match.index);
  });
}

const characterOf = (code: string): string => String.fromCodePoint(Math.min(Number.parseInt(code, 16), 0x10ffff));
