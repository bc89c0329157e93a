/*
 * Writes the tables of the guides that follow from the code. `npm run generate` runs this file; a test compares the pages with what
 * it would write.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { COMMANDS } from "../../src/cli/run.ts";
import { CONFIG_VARIABLES } from "../../src/config.ts";
import { codeFromReason, codeName, ErrorReason, httpStatusFromReason } from "../../src/errors.ts";
import { type ReasonWord, reasonText } from "../../src/server/rest/openapi-errors.ts";
import { ROOT } from "./source-files.ts";

/** Cells of one row, trimmed. */
type Row = readonly string[];

/** A page with tables that follow from the code. */
interface Page {
  /** Path from the top of the project. */
  readonly path: string;
  /** First cell of the head of the tables that are written. */
  readonly head: string;
  /** Returns the rows that a table should have, given those that it has. */
  rows(present: readonly Row[]): readonly Row[];
}

const code = (text: string): string => `\`${text}\``;

function variableRows(): readonly Row[] {
  return CONFIG_VARIABLES.map(({ name, default: preset, meaning }) => [
    code(name),
    preset ? code(preset) : "",
    meaning,
  ]);
}

function commandRows(): readonly Row[] {
  return COMMANDS.map((command) => [code(`agentctl ${command.name} ${command.arguments}`.trim()), command.summary]);
}

/** The order of the reasons and what to do about them are the page's; the rest is the proto's. */
function reasonRows(present: readonly Row[]): readonly Row[] {
  return present.map(([cell = "", , , advice = ""]) => {
    const word = cell.replaceAll("`", "") as ReasonWord;
    const reason = ErrorReason[word];
    const { when, example } = reasonText(word);
    const status = `${httpStatusFromReason(reason)}, ${codeName(codeFromReason(reason))}`;
    return [cell, status, `${when} "${example}"`, advice];
  });
}

/** Pages that hold tables of the code. */
export const PAGES: readonly Page[] = [
  { path: "src/server/CONFIGURATION.md", head: "Variable", rows: variableRows },
  { path: "src/cli/GUIDE.md", head: "Command", rows: commandRows },
  { path: "src/server/ERRORS.md", head: "Reason", rows: reasonRows },
];

const TABLE = /^\|.*\n\| ?-.*\n(?:\|.*\n)*/gm;

function cellsOf(line: string): Row {
  const cells = line.slice(1, -1).split(/(?<!\\)\|/);
  return cells.map((cell) => cell.trim());
}

function printed([head = [], ...rows]: readonly Row[]): string {
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)));
  const line = (row: Row): string =>
    `| ${widths.map((width, column) => (row[column] ?? "").padEnd(width)).join(" | ")} |\n`;
  return [head, widths.map((width) => "-".repeat(width)), ...rows].map(line).join("");
}

/** Returns the text of a page with its tables as the code has them. */
export function withTables(text: string, { head, rows }: Page): string {
  return text.replace(TABLE, (table) => {
    const [title = [], , ...present] = table.trimEnd().split("\n").map(cellsOf);
    return title[0] === head ? printed([title, ...rows(present)]) : table;
  });
}

if (import.meta.main) {
  for (const page of PAGES) {
    const file = join(ROOT, page.path);
    writeFileSync(file, withTables(readFileSync(file, "utf8"), page));
  }
}
