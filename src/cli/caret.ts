import { type JsonRecord, textAt } from "../verify/json.ts";
import { columnsOf, printable } from "./columns.ts";

/** Characters that are shown before and behind the marked one. */
const BEFORE = 60;
const BEHIND = 60;
const INDENT = "  ";

/** Shows a line of a text, and a caret under one of its characters; of a long line, the part around it. `column` is in UTF-16 units from 1. */
export function caretLines(line: string, column: number): readonly string[] {
  const [before, rest] = [Array.from(line.slice(0, column - 1)), Array.from(line.slice(column - 1))];
  const start = before.length > BEFORE ? `…${before.slice(-BEFORE).join("")}` : before.join("");
  const end = rest.length > BEHIND ? `${rest.slice(0, BEHIND).join("")}…` : rest.join("");
  const shown = printable(start.replaceAll("\t", " "));
  return [`${INDENT}${shown}${printable(end.replaceAll("\t", " "))}`, `${INDENT}${" ".repeat(columnsOf(shown))}^`];
}

/** Beginning of a message about an expression. */
const PLACE_IN_EXPRESSION = /^line (\d+), column (\d+): /;

/** Reads the place in an expression, from 1, with which a message begins, and the rest of it; undefined for any other message. */
export function placeInExpression(message: string) {
  const [prefix = "", line, column] = PLACE_IN_EXPRESSION.exec(message) ?? [];
  if (prefix === "") return undefined;
  return { line: Number(line), column: Number(column), message: message.slice(prefix.length) };
}

/** Shows what is wrong with a rule, and where it lies in an expression, the line of it with a caret. */
export function ruleViolationLines(violation: JsonRecord, rules: readonly JsonRecord[]): readonly string[] {
  const [path, message] = [textAt(violation, "path"), textAt(violation, "message")];
  const place = placeInExpression(message);
  const [, index] = /^rules\[(\d+)\]\.when$/.exec(path) ?? [];
  const expression = index === undefined ? undefined : rules[Number(index)]?.when;
  if (place === undefined || typeof expression !== "string") return [`${path}: ${message}`];
  const line = expression.split("\n")[place.line - 1] ?? "";
  const before = Array.from(line).slice(0, place.column - 1);
  return [`${path}: ${place.message}`, ...caretLines(line, before.join("").length + 1)];
}
