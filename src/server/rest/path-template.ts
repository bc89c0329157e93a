/** One slash-separated part of a template: a fixed word, exactly one segment (`*`), or all that is left (`**`). */
export type TemplateSegment =
  | { readonly kind: "literal"; readonly text: string }
  | { readonly kind: "any" }
  | { readonly kind: "rest" };

/** A `{field.path=…}` of a template and the segments it captures. */
export interface TemplateVariable {
  /** Dotted snake_case path to the request field. */
  readonly fieldPath: string;
  /** Index of the first segment captured. */
  readonly start: number;
  /** Index after the last segment captured; `undefined` when the variable ends with `**`. */
  readonly end: number | undefined;
  /** Whether the value may hold slashes; decides how percent-escapes are decoded. */
  readonly multi: boolean;
}

/** A parsed `google.api.http` path template. */
export interface PathTemplate {
  readonly text: string;
  readonly segments: readonly TemplateSegment[];
  readonly variables: readonly TemplateVariable[];
  /** The word after the last colon; `""` when the template has no verb. */
  readonly verb: string;
}

const LITERAL = /[A-Za-z0-9\-._~%!$&'()+,;@]+/y;
const FIELD_PATH = /[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*/y;

interface Cursor {
  readonly text: string;
  at: number;
}

interface Collected {
  readonly segments: TemplateSegment[];
  readonly variables: TemplateVariable[];
}

function fault(cursor: Cursor, why: string): Error {
  return new Error(`path template \`${cursor.text}\`: ${why} at position ${cursor.at}`);
}

function accept(cursor: Cursor, word: string): boolean {
  if (!cursor.text.startsWith(word, cursor.at)) return false;
  cursor.at += word.length;
  return true;
}

function acceptPattern(cursor: Cursor, pattern: RegExp): string | undefined {
  pattern.lastIndex = cursor.at;
  const found = pattern.exec(cursor.text)?.[0];
  if (found !== undefined) cursor.at += found.length;
  return found;
}

function plainSegment(cursor: Cursor): TemplateSegment {
  if (accept(cursor, "**")) return { kind: "rest" };
  if (accept(cursor, "*")) return { kind: "any" };
  const literal = acceptPattern(cursor, LITERAL);
  if (literal === undefined) throw fault(cursor, "a segment is expected");
  return { kind: "literal", text: literalText(cursor, literal) };
}

function literalText(cursor: Cursor, literal: string): string {
  try {
    return decodeURIComponent(literal);
  } catch {
    throw fault(cursor, "a percent-escape is malformed");
  }
}

function readVariable(cursor: Cursor, into: Collected): void {
  const fieldPath = acceptPattern(cursor, FIELD_PATH);
  if (fieldPath === undefined) throw fault(cursor, "a field path is expected");
  const start = into.segments.length;
  if (!accept(cursor, "=")) into.segments.push({ kind: "any" });
  else readPlainSegments(cursor, into);
  if (!accept(cursor, "}")) throw fault(cursor, "`}` is expected");
  const open = into.segments.at(-1)?.kind === "rest";
  const multi = open || into.segments.length - start > 1;
  into.variables.push({ fieldPath, start, end: open ? undefined : into.segments.length, multi });
}

function readPlainSegments(cursor: Cursor, into: Collected): void {
  do {
    into.segments.push(plainSegment(cursor));
  } while (accept(cursor, "/"));
}

function readSegments(cursor: Cursor): Collected {
  const into: Collected = { segments: [], variables: [] };
  do {
    if (accept(cursor, "{")) readVariable(cursor, into);
    else into.segments.push(plainSegment(cursor));
  } while (accept(cursor, "/"));
  return into;
}

function readVerb(cursor: Cursor): string {
  if (!accept(cursor, ":")) return "";
  const verb = acceptPattern(cursor, LITERAL);
  if (verb === undefined) throw fault(cursor, "a verb is expected");
  return verb;
}

function assertSound(cursor: Cursor, { segments, variables }: Collected): void {
  const rest = segments.findIndex((segment) => segment.kind === "rest");
  if (rest >= 0 && rest < segments.length - 1) throw fault(cursor, "`**` must be the last segment");
  const paths = variables.map((variable) => variable.fieldPath);
  const twice = paths.find((path, index) => paths.indexOf(path) !== index);
  if (twice !== undefined) throw fault(cursor, `field \`${twice}\` is captured twice`);
}

/** Parses a template by the grammar of `google.api.HttpRule`. Throws an `Error` that names the template and the position. */
export function parsePathTemplate(text: string): PathTemplate {
  const cursor: Cursor = { text, at: 0 };
  if (!accept(cursor, "/")) throw fault(cursor, "`/` is expected");
  const collected = readSegments(cursor);
  const verb = readVerb(cursor);
  if (cursor.at < text.length) throw fault(cursor, `unexpected \`${text[cursor.at]}\``);
  assertSound(cursor, collected);
  return { text, ...collected, verb };
}

/**
 * Decodes what a variable captured. One segment is decoded in full; several keep `%2F` as it is, so that
 * a slash inside a value stays distinct from a slash between values. `undefined` when an escape is malformed.
 */
export function capturedText(variable: TemplateVariable, segments: readonly string[]): string | undefined {
  if (!variable.multi) return decodeOrUndefined(segments[variable.start] ?? "");
  const raw = segments.slice(variable.start, variable.end).join("/");
  const parts = raw.split(/(%2f)/i).map((part, index) => (index % 2 === 1 ? part : decodeOrUndefined(part)));
  return parts.includes(undefined) ? undefined : parts.join("");
}

function decodeOrUndefined(text: string): string | undefined {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
