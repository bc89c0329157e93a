import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { countText } from "../../kit/count-text.ts";

/** A row of a table of arguments. */
export interface ArgumentRow {
  /** Path as in the tool's flattened schema: `payment.amount`, `items`. */
  readonly path: string;
  /** Name as it is sent, below its parents' names. */
  readonly name: string;
  /** Names of the members that lead to it. */
  readonly steps: readonly string[];
  readonly value: JsonValue;
}

/** Objects with more members, or deeper, are one value. */
const MAX_MEMBERS = 12;
const MAX_DEPTH = 3;
/** A name that needs no quotes in a path. */
const PLAIN = /^(?!\s)[^.[\]"]+(?<!\s)$/;

/** Appends a member's name to a path; an ambiguous name is quoted: `["a.b"]`. */
function memberPath(parent: string, name: string): string {
  if (!PLAIN.test(name)) return `${parent}[${JSON.stringify(name)}]`;
  return parent === "" ? name : `${parent}.${name}`;
}

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Lists arguments in their order, a row for each member of a small object. */
export function argumentRows(args: JsonObject): readonly ArgumentRow[] {
  const rows: ArgumentRow[] = [];
  const add = (object: JsonObject, parent: Omit<ArgumentRow, "value"> | undefined, depth: number): void => {
    for (const [own, value] of Object.entries(object)) {
      const path = memberPath(parent?.path ?? "", own);
      const name = parent === undefined ? own : `${parent.name}.${own}`;
      const steps = [...(parent?.steps ?? []), own];
      const size = isObject(value) ? Object.keys(value).length : 0;
      const isOpen = size > 0 && size <= MAX_MEMBERS && depth < MAX_DEPTH;
      if (isOpen && isObject(value)) add(value, { path, name, steps }, depth + 1);
      else rows.push({ path, name, steps, value });
    }
  };
  add(args, undefined, 0);
  return rows;
}

/** Returns the list of objects that a value is; undefined for other values. */
export function objectsIn(value: JsonValue): readonly JsonObject[] | undefined {
  return Array.isArray(value) && value.length > 0 && value.every(isObject) ? value : undefined;
}

/** Tests whether a path lies at or below another. */
export function isWithin(path: string, parent: string): boolean {
  return path === parent || (path.startsWith(parent) && /^[.[]/.test(path.slice(parent.length)));
}

/** Maximum characters of a text that the service compares. */
const MAX_COMPARED = 512;

/** Values of a list that are looked at. */
const MAX_LOOKED_AT = 100;

/**
 * Returns the path at which the service compares a value, or the values of a list, with the past: their line has room before that
 * is read. Undefined for values that it does not compare.
 */
export function comparedPath({ path, value }: Pick<ArgumentRow, "path" | "value">): string | undefined {
  if (Array.isArray(value)) return value.slice(0, MAX_LOOKED_AT).some(isCompared) ? `${path}[]` : undefined;
  return isCompared(value) ? path : undefined;
}

function isCompared(value: JsonValue): boolean {
  if (typeof value === "number") return true;
  return typeof value === "string" && value.length <= MAX_COMPARED && value.trim() !== "";
}

/** Characters of arguments in one line, and of one value among them. */
const MAX_LINE = 240;
const MAX_VALUE = 60;

function lineText(value: JsonValue): string {
  if (typeof value === "string") return value.slice(0, 2 * MAX_VALUE).replaceAll(/\s+/g, " ");
  if (Array.isArray(value) && value.some((each) => typeof each === "object")) return countText(value.length, "item");
  if (isObject(value)) return countText(Object.keys(value).length, "member");
  return JSON.stringify(value);
}

/** Writes arguments in one line: `to: ACME, amount: 20`. */
export function argumentsLine(args: JsonObject): string {
  const texts: string[] = [];
  let length = 0;
  for (const { name, value } of argumentRows(args)) {
    const text = lineText(value);
    const cut = text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)} …` : text;
    texts.push(`${name}: ${cut}`);
    length += name.length + cut.length;
    if (length > MAX_LINE) return `${texts.join(", ")} …`;
  }
  return texts.join(", ");
}
