/** An expression in the YAML text of a mandate, up to a position in it. */
export interface ExpressionBefore {
  /** The expression up to the position, without the marks and escapes of YAML. */
  readonly before: string;
  /** A quote of the expression as the YAML text writes it. */
  readonly quote: string;
}

/** A member `when` at the start of a line, with what stands before it. */
const WHEN = /^(\s*(?:-\s+)*)(["']?)when\2\s*:(?:[ \t]+|$)/;
/** A member `when` of an object in braces, the last one of a line. */
const FLOW_WHEN = /.*[{,]\s*(["']?)when\1\s*:\s*/;
const TOOL = /^(["']?)tool\1\s*:\s*(?:"([^"]+)"|'([^']+)'|([^"'#]+?))\s*(?:#.*)?$/;
const FLOW_TOOL = /[{,]\s*(["']?)tool\1\s*:\s*(?:"([^"]+)"|'([^']+)'|([^"',}]+?))\s*[,}]/;
const BLOCK_HEADER = /^[|>][-+0-9]*[ \t]*(?:#[^\n]*)?\n/;

/** Width of what stands before the text of a line, the marks of list items included. */
const columnOf = (line: string): number => /^\s*(?:-\s+)*/.exec(line)?.[0].length ?? 0;
const indentOf = (line: string): number => /^\s*/.exec(line)?.[0].length ?? 0;
const isBlank = (line: string): boolean => line.trim() === "";

/** Finds the expression around a position of the text; undefined outside of any `when`. */
export function expressionBefore(text: string, position: number): ExpressionBefore | undefined {
  const start = valueStart(text.slice(0, position).split("\n"));
  // A value begins behind a blank.
  if (start === undefined || (start.offset === position && text[position - 1] === ":")) return undefined;
  const value = text.slice(start.offset, position);
  const header = BLOCK_HEADER.exec(value)?.[0];
  if (header !== undefined) return { before: value.slice(header.length), quote: '"' };
  if (/^[|>&*!#]/.test(value)) return undefined;
  const [first, inner] = [value.charAt(0), value.slice(1)];
  if (first === '"') {
    const ends = /^(?:[^"\\]|\\[\s\S])*"/.test(inner);
    return ends ? undefined : { before: inner.replace(/\\(["\\/])/g, "$1"), quote: '\\"' };
  }
  if (first === "'") {
    const ends = inner.replaceAll("''", "").includes("'");
    return ends ? undefined : { before: inner.replaceAll("''", "'"), quote: '"' };
  }
  const ends = /\s#/.test(value) || (start.isFlow && /[,{}[\]]/.test(value));
  return ends ? undefined : { before: value, quote: '"' };
}

/** Finds where the value of the `when` around the end of some lines starts. */
function valueStart(lines: readonly string[]): { readonly offset: number; readonly isFlow: boolean } | undefined {
  const last = lines.at(-1) ?? "";
  const offsetOf = (index: number): number => lines.slice(0, index).reduce((sum, line) => sum + line.length + 1, 0);
  const flow = FLOW_WHEN.exec(last)?.[0];
  if (flow !== undefined) return { offset: offsetOf(lines.length - 1) + flow.length, isFlow: true };
  let least = Number.POSITIVE_INFINITY;
  for (let index = lines.length - 1; index >= 0; index--) {
    const line = lines[index] ?? "";
    const [key, before = ""] = WHEN.exec(line) ?? [];
    if (key !== undefined && before.length < least) return { offset: offsetOf(index) + key.length, isFlow: false };
    if (!isBlank(line) || index === lines.length - 1) least = Math.min(least, indentOf(line));
    if (least === 0) return undefined;
  }
  return undefined;
}

/** Finds the tool of the rule around a position of the text, above or below it. */
export function toolAround(text: string, position: number): string | undefined {
  const lines = text.split("\n");
  const index = text.slice(0, position).split("\n").length - 1;
  const flow = nameIn(FLOW_TOOL.exec(lines[index] ?? ""));
  if (flow !== undefined) return flow;
  let line = index;
  for (let column = columnOf(lines[index] ?? ""); ; ) {
    const tool = toolOfObject(lines, line, column);
    if (tool !== undefined) return tool;
    do line--;
    while (line >= 0 && (isBlank(lines[line] ?? "") || columnOf(lines[line] ?? "") >= column));
    if (line < 0) return undefined;
    column = columnOf(lines[line] ?? "");
  }
}

/** Finds the member `tool` of the object that has a member at a line and column. */
function toolOfObject(lines: readonly string[], at: number, column: number): string | undefined {
  const isBelow = (line: string): boolean => isBlank(line) || indentOf(line) >= column;
  let first = at;
  // The first member of an object in a list stands behind the mark of its item.
  while (first > 0 && isBelow(lines[first] ?? "")) first--;
  if (columnOf(lines[first] ?? "") !== column) first++;
  for (let index = first; index < lines.length; index++) {
    const line = lines[index] ?? "";
    if (index > first && !isBelow(line)) return undefined;
    if (columnOf(line) !== column) continue;
    const name = nameIn(TOOL.exec(line.slice(column)));
    if (name !== undefined) return name;
  }
  return undefined;
}

const nameIn = (match: RegExpExecArray | null): string | undefined => match?.[2] ?? match?.[3] ?? match?.[4];
