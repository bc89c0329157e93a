import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import fc from "fast-check";
import type { NaiveCondition } from "../../src/dryrun/naive/naive-conditions.ts";
import { compileMandate } from "../../src/policy/compile/mandate.ts";
import { OPERATOR_NAMES } from "../../src/policy/operators/index.ts";
import type { CompiledMandate, ToolSchema } from "../../src/policy/types.ts";
import { lookup, mandateSource, NAMED_LISTS } from "./harness.ts";

/** A schema of the kind that the random calls are made for. */
export interface NaiveSchema {
  readonly type?: string | readonly string[];
  readonly properties?: { readonly [name: string]: NaiveSchema };
  readonly items?: NaiveSchema;
}

const ANY_TYPE = ["array", "boolean", "integer", "null", "number", "object", "string"];

/** Lists the types of every path, straight from the schema. */
export function typesFrom(schema: NaiveSchema, path = ""): [string, readonly string[]][] {
  const own: [string, readonly string[]] = [path, schema.type === undefined ? ANY_TYPE : [schema.type].flat()];
  const members = Object.entries(schema.properties ?? {}).flatMap(([name, each]) =>
    typesFrom(each, path === "" ? name : `${path}.${name}`),
  );
  const elements = schema.items === undefined ? [] : typesFrom(schema.items, `${path}[]`);
  return [...(path === "" ? [] : [own]), ...members, ...elements];
}

/** Source of the random choices of one run. */
export type Draw = fc.GeneratorValue;

const LEAF_TYPES = ["string", "number", "integer", "boolean"];
const TEXTS = [
  "",
  " ",
  "a",
  "A ",
  "ab",
  "b",
  "USD",
  " usd",
  "EUR",
  "5",
  "😀",
  "true",
  "constructor",
  "ａ",
  "a\u200bb",
  "\u00adＢ",
  "ＵＳＤ",
  "us\u2060d",
  "５",
  "5.0",
];
/** Texts that named lists read as hosts or addresses. */
const PLACES = [
  "example.com",
  "https://EXAMPLE.com:443/x",
  "http://user@example.com/",
  "sub.müller.de.",
  "xn--mller-kva.de",
  "10.0.0.1",
  "someone@example.com",
  "A <b@x.corp.example>",
  "a@corp.example, b@example.com",
  "a@b.invalid",
  "\u3164",
  "ﬀ",
  "e\u0301",
  "ß",
  "ﷺ",
  "\u00a0a\u00a0",
  "a\u0301\u0316\u0301\u0316\u0301\u0316\u0301\u0316\u0301\u0316\u0301\u0316",
  "a\u0316\u0316\u0316\u0316\u0316\u0301\u0301\u0301\u0301\u0301",
];
const NUMBERS = [0, 1, 2, 2.5, 5, -1, 1e21];

/** Chooses one of some values. */
export function draw<T>(from: Draw, values: readonly T[]): T {
  return values[from(fc.nat, values.length - 1)] as T;
}

function leaf(from: Draw): NaiveSchema {
  const kind = from(fc.nat, 9);
  if (kind === 0) return {};
  if (kind === 1) return { type: [draw(from, LEAF_TYPES), "null"] };
  if (kind === 2) return { type: [...new Set([draw(from, LEAF_TYPES), draw(from, [...LEAF_TYPES, "array"])])] };
  return { type: draw(from, LEAF_TYPES) };
}

/** A schema of arguments, with an object and a list inside. */
export function schemaFrom(from: Draw, depth = 0): NaiveSchema {
  const properties: Record<string, NaiveSchema> = { a: leaf(from), constructor: leaf(from) };
  for (const name of ["currency", "currency_code", "a_currency"]) {
    if (from(fc.nat, 2) === 0) properties[name] = { type: "string" };
  }
  if (depth < 2) {
    const type = from(fc.nat, 3) === 0 ? ["object", "null"] : "object";
    properties.o = { ...schemaFrom(from, depth + 1), type };
    const items = from(fc.nat, 1) === 0 ? leaf(from) : schemaFrom(from, depth + 2);
    properties.l = { type: from(fc.nat, 3) === 0 ? ["array", "string"] : "array", items };
  }
  return { type: "object", properties };
}

function anyValue(from: Draw): JsonValue {
  const kind = from(fc.nat, 7);
  if (kind === 0) return null;
  if (kind === 1) return draw(from, [true, false]);
  if (kind === 2) return draw<JsonValue>(from, [[draw(from, TEXTS), draw(from, NUMBERS)], [[draw(from, TEXTS)]]]);
  if (kind === 3) return { a: draw(from, TEXTS) };
  if (kind === 4) return [];
  return kind === 5 ? draw(from, TEXTS) : draw(from, NUMBERS);
}

/** A value that fits a schema, more often than not. */
function valueFor(from: Draw, schema: NaiveSchema): JsonValue | undefined {
  const chance = from(fc.nat, 19);
  if (chance === 0) return undefined;
  if (chance <= 2) return anyValue(from);
  const types = schema.type === undefined ? LEAF_TYPES : [schema.type].flat();
  switch (draw(from, types)) {
    case "string":
      return draw(from, [...TEXTS, ...PLACES]);
    case "number":
      return draw(from, NUMBERS);
    case "integer":
      return draw(from, [0, 1, 2, 5]);
    case "boolean":
      return draw(from, [true, false]);
    case "null":
      return null;
    case "array":
      return Array.from({ length: from(fc.nat, 2) }, () => valueFor(from, schema.items ?? {}) ?? null);
    default:
      return objectFor(from, schema);
  }
}

/** Arguments that fit a schema, more often than not. */
export function objectFor(from: Draw, schema: NaiveSchema): JsonObject {
  const entries = Object.entries(schema.properties ?? {}).map(
    ([name, member]) => [name, valueFor(from, member)] as const,
  );
  return Object.fromEntries(entries.filter((entry): entry is readonly [string, JsonValue] => entry[1] !== undefined));
}

/** A value in the form that an operator takes. */
export function operandFor(from: Draw, operator: string): JsonValue | undefined {
  const scalar = () => draw<JsonValue>(from, [...TEXTS, ...NUMBERS, true, false]);
  if (operator.endsWith("exists")) return undefined;
  if (operator.endsWith("in_list")) return draw(from, [...NAMED_LISTS.names()]);
  if (operator.endsWith("between")) return [draw(from, NUMBERS), draw(from, NUMBERS)].sort((a, b) => a - b);
  if (/^(in|not_in|contains_any|contains_all|subset_of)$/.test(operator)) {
    const texts = from(fc.nat, 1) === 0;
    return Array.from({ length: 1 + from(fc.nat, 2) }, () => (texts ? draw<JsonValue>(from, TEXTS) : scalar()));
  }
  if (operator.startsWith("length")) return from(fc.nat, 2);
  if (/^[<>]/.test(operator)) return draw(from, NUMBERS);
  if (operator === "matches") return draw(from, ["^a", "b$", "[0-9]", "(a|b)+", "^\\s*$", "usd", "^[^a]*$", "(?-i)A"]);
  return operator.endsWith("with") ? draw(from, TEXTS) : scalar();
}

/** A condition over one of some paths; it may not compile. */
export function conditionFor(from: Draw, paths: readonly string[], operators = OPERATOR_NAMES): NaiveCondition {
  const operator = draw(from, operators);
  const value = operandFor(from, operator);
  return {
    field: draw(from, paths),
    operator,
    ...(value !== undefined && { value }),
    ...(from(fc.nat, 4) === 0 && { currency: draw(from, ["usd", "EUR "]) }),
    ...(from(fc.nat, 3) === 0 && { on_missing: draw(from, ["ignore", "violate"]) }),
  };
}

/** A rule with what it was made of. */
export interface RandomRule {
  readonly type: string;
  readonly decision: string;
  readonly joint: string;
  readonly conditions: readonly NaiveCondition[];
  readonly mandate: CompiledMandate;
}

/** A rule that compiles; conditions that do not are drawn again. */
export function ruleFor(from: Draw, tool: ToolSchema): RandomRule {
  const paths = tool.arguments.map((argument) => argument.path);
  const type = from(fc.nat, 3) === 0 ? "metadata" : "argument";
  const decision = draw(from, ["allow", "block", "escalate"]);
  const joint = draw(from, ["AND", "OR"]);
  const compile = (conditions: readonly NaiveCondition[]) => {
    const rules = conditions as unknown as JsonValue;
    const rule = { type, tool: tool.name, decision, conditions: { operator: joint, rules } };
    return compileMandate(mandateSource([rule]), lookup(tool));
  };
  const usable = (): NaiveCondition => {
    for (;;) {
      const condition = conditionFor(from, paths);
      if (compile([condition]).violations.length === 0) return condition;
    }
  };
  const conditions = Array.from({ length: 1 + (from(fc.nat, 2) === 0 ? 1 : 0) }, usable);
  return { type, decision, joint, conditions, mandate: compile(conditions) };
}
