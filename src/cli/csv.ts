/** One cell: in quotes, doubled within, or up to the next comma, with what ends it. */
const CELL = /(?:"([^"]*(?:""[^"]*)*)"|([^",\r\n]*))(,|\r\n|\n|\r|$)/y;

/** Error for a text that is not CSV. `line` counts from 1. */
export class CsvError extends Error {
  override readonly name = "CsvError";
  readonly line: number;

  constructor(line: number) {
    super(`a quote is not closed, or text follows one, in line ${line}`);
    this.line = line;
  }
}

/** Reads the rows of a CSV text (RFC 4180), with or without a byte order mark. A blank line is a row of one empty cell. Throws `CsvError`. */
export function* csvRows(text: string): Generator<readonly string[]> {
  let row: string[] = [];
  let at = text.startsWith("\ufeff") ? 1 : 0;
  while (at < text.length) {
    CELL.lastIndex = at;
    const [whole = "", quoted, plain = "", end] = CELL.exec(text) ?? [];
    if (end === undefined) throw new CsvError(text.slice(0, at).split("\n").length);
    at += whole.length;
    row.push(quoted?.replaceAll('""', '"') ?? plain);
    if (end === "," && at < text.length) continue;
    // A comma at the very end begins a last, empty cell.
    yield end === "," ? [...row, ""] : row;
    row = [];
  }
}
