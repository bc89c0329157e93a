import { type DescField, type DescMessage, type Message, toJson } from "@bufbuild/protobuf";
import { type ListValue, ListValueSchema, type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { invalidField } from "../errors.ts";
import { tooDeep } from "./refusals.ts";

/** Throws when free JSON inside a message nests too deep (BODY_TOO_DEEP) or holds what JSON cannot say (INVALID_FIELD). */
export type StructCheck = (message: Message) => void;

/** What is wrong, and the path to it from where the search began. The path grows while the search unwinds, so a good value pays nothing for it. */
interface Fault {
  readonly kind: "depth" | "number" | "text";
  path: string;
}

type Search = (value: unknown, depth: number) => Fault | undefined;

const TEXT: Readonly<Record<"number" | "text", string>> = {
  number: "must be a finite number",
  text: "must not hold half of a surrogate pair",
};

/**
 * Creates the checks of `google.protobuf.Struct`, `Value` and `ListValue` inside messages. Binary wires carry there what
 * JSON text cannot: any depth, NaN, infinities; JSON escapes carry half surrogate pairs. A message without such fields has no check.
 * Depth is counted in the brackets that the whole message has as JSON, so that every wire has the same limit.
 */
export function createStructCheck(maxDepth: number): (schema: DescMessage) => StructCheck | undefined {
  const searches = new Map<string, Search | undefined>();
  const compile = (schema: DescMessage): Search | undefined => {
    const name = schema.typeName;
    if (searches.has(name)) return searches.get(name);
    // A type that contains itself finds this forwarding search while it is being compiled.
    let compiled: Search | undefined;
    searches.set(name, (message, depth) => compiled?.(message, depth));
    const fields = schema.fields.flatMap((field) => fieldSearch(field, compile, maxDepth));
    compiled = fields.length === 0 ? undefined : (message, depth) => firstFault(fields, message, depth);
    searches.set(name, compiled);
    return compiled;
  };
  return (schema) => {
    const search = compile(schema);
    return search && ((message) => refuse(search(message, 1), maxDepth));
  };
}

function refuse(fault: Fault | undefined, maxDepth: number): void {
  if (fault === undefined) return;
  if (fault.kind === "depth") throw tooDeep(maxDepth);
  throw invalidField(fault.path.toWellFormed(), TEXT[fault.kind]);
}

interface FieldSearch {
  readonly name: string;
  readonly read: (message: unknown) => unknown;
  readonly search: Search;
}

function firstFault(fields: readonly FieldSearch[], message: unknown, depth: number): Fault | undefined {
  for (const { name, read, search } of fields) {
    const value = read(message);
    const fault = value === undefined ? undefined : search(value, depth + 1);
    if (fault !== undefined) return at(fault, name);
  }
  return undefined;
}

function fieldSearch(
  field: DescField,
  compile: (schema: DescMessage) => Search | undefined,
  maxDepth: number,
): readonly FieldSearch[] {
  const schema = field.message;
  if (schema === undefined) return [];
  const item = jsonSearch(schema, maxDepth) ?? compile(schema);
  if (item === undefined) return [];
  const search = field.fieldKind === "message" ? item : eachItem(item);
  return [{ name: field.name, read: reader(field), search }];
}

function reader({ localName, oneof }: DescField): (message: unknown) => unknown {
  if (oneof === undefined) return (message) => (message as Record<string, unknown>)[localName];
  return (message) => {
    const choice = (message as Record<string, { case?: string; value?: unknown }>)[oneof.localName];
    return choice?.case === localName ? choice.value : undefined;
  };
}

/** The items of a repeated field, or the values of a map. */
function eachItem(search: Search): Search {
  return (items, depth) => {
    for (const [key, item] of Object.entries(items as object)) {
      const fault = search(item, depth + 1);
      if (fault !== undefined) return at(fault, Array.isArray(items) ? `[${key}]` : key);
    }
    return undefined;
  };
}

function jsonSearch({ typeName }: DescMessage, maxDepth: number): Search | undefined {
  const search: Search = (value, depth) => findFault(value, depth, maxDepth);
  if (typeName === "google.protobuf.Struct") return search;
  // Decoding has bounded how deep these messages nest, so that turning them into JSON cannot exhaust the stack.
  if (typeName === "google.protobuf.Value")
    return (value, depth) => searchAsJson(search, () => valueJson(value), depth);
  if (typeName === "google.protobuf.ListValue")
    return (value, depth) => searchAsJson(search, () => listJson(value), depth);
  return undefined;
}

const valueJson = (value: unknown): unknown => toJson(ValueSchema, value as Value);
const listJson = (value: unknown): unknown => toJson(ListValueSchema, value as ListValue);

function searchAsJson(search: Search, json: () => unknown, depth: number): Fault | undefined {
  let value: unknown;
  try {
    value = json();
  } catch {
    return { kind: "number", path: "" };
  }
  return search(value, depth);
}

/** Recursion ends at `maxDepth`, whatever the value is. */
function findFault(value: unknown, depth: number, maxDepth: number): Fault | undefined {
  if (typeof value === "string") return value.isWellFormed() ? undefined : { kind: "text", path: "" };
  if (typeof value === "number") return Number.isFinite(value) ? undefined : { kind: "number", path: "" };
  if (typeof value !== "object" || value === null) return undefined;
  if (depth > maxDepth) return { kind: "depth", path: "" };
  return Array.isArray(value) ? faultInList(value, depth, maxDepth) : faultInObject(value, depth, maxDepth);
}

function faultInList(list: readonly unknown[], depth: number, maxDepth: number): Fault | undefined {
  for (let index = 0; index < list.length; index++) {
    const fault = findFault(list[index], depth + 1, maxDepth);
    if (fault !== undefined) return at(fault, `[${index}]`);
  }
  return undefined;
}

function faultInObject(object: object, depth: number, maxDepth: number): Fault | undefined {
  for (const key of Object.keys(object)) {
    if (!key.isWellFormed()) return { kind: "text", path: key };
    const fault = findFault((object as Record<string, unknown>)[key], depth + 1, maxDepth);
    if (fault !== undefined) return at(fault, key);
  }
  return undefined;
}

function at(fault: Fault, step: string): Fault {
  fault.path = fault.path === "" || fault.path.startsWith("[") ? `${step}${fault.path}` : `${step}.${fault.path}`;
  return fault;
}
