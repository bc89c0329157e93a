import { parseDocument } from "yaml";
import { isJsonRecord } from "../verify/json.ts";
import { CommandError } from "./command.ts";
import { CsvError, csvRows } from "./csv.ts";

/** Content of a list in a file. */
export interface ListFile {
  /** Undefined if the file does not say. */
  readonly kind: string | undefined;
  readonly values: readonly string[];
}

/** First cell of a row that names its columns. */
const HEADER = "value";

/** Reads the first column of a CSV text (RFC 4180). Blank rows and a first row that begins with `value` are left out. */
function firstColumn(path: string, text: string): string[] {
  const values: string[] = [];
  try {
    for (const [first = ""] of csvRows(text)) values.push(first.trim());
  } catch (error) {
    if (error instanceof CsvError) throw new CommandError(`--file: \`${path}\` is no CSV: ${error.message}`);
    throw error;
  }
  const [header = ""] = values;
  return (header.toLowerCase() === HEADER ? values.slice(1) : values).filter((value) => value !== "");
}

/** Parses JSON, much faster than as YAML; undefined for other texts. */
function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function parsedYaml(path: string, text: string): unknown {
  const document = parseDocument(text, { prettyErrors: false });
  const [fault] = document.errors;
  if (fault !== undefined) throw new CommandError(`--file: \`${path}\` is neither JSON nor YAML (${fault.code})`);
  return document.toJS({ maxAliasCount: 100 });
}

/** Reads a list of texts, or an object with `values` and `kind`, from JSON or YAML. */
function fromYaml(path: string, text: string): ListFile {
  const content = parsedJson(text) ?? parsedYaml(path, text);
  const { kind, values } = isJsonRecord(content) ? content : { kind: undefined, values: content };
  const isRead = Array.isArray(values) && values.every((value) => typeof value === "string");
  if (!isRead || !(kind === undefined || typeof kind === "string"))
    throw new CommandError(`--file: \`${path}\` holds no list of texts, and no \`kind\` with \`values\``);
  return { kind, values };
}

/** Reads the values of a list: from JSON or YAML by the file's name, else from the first column of a CSV text. */
export function listFileFrom(path: string, text: string): ListFile {
  // The sign for bytes that are no UTF-8: a value with it would match nothing.
  if (text.includes("\ufffd")) throw new CommandError(`--file: \`${path}\` is not in UTF-8; save it in that encoding`);
  if (/\.(ya?ml|json)$/i.test(path)) return fromYaml(path, text);
  return { kind: undefined, values: firstColumn(path, text) };
}
