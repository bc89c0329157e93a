import type { JsonObject } from "@bufbuild/protobuf";
import type { ToolSchema } from "../policy/types.ts";
import { shown } from "./condition-values.ts";
import type { TestedAction } from "./mandate-test.ts";
import { type Json, splitPath } from "./naive/naive-conditions.ts";
import type { NaivePatterns } from "./naive/naive-patterns.ts";
import type { Case } from "./rule-cases.ts";
import { sampleArguments, schemaAt, withValueAt } from "./sample-arguments.ts";
import { nearMisses, sampleText } from "./sample-text.ts";

/** Maximum number of arguments of a schema that have cases. */
const MAX_PATHS = 60;
/** Maximum characters or elements of a value. */
const MAX_LENGTH = 2_000;
const OF_EACH_TYPE: readonly Json[] = ["text", 7, 7.5, true, ["text"], { text: true }];

type Args = { [key: string]: Json };

/** Lists the cases of a `schema` rule: arguments that fit, and each argument with values around its bounds. */
export function schemaCases(
  tool: ToolSchema,
  base: TestedAction,
  patterns: NaivePatterns,
): { readonly groups: readonly (readonly Case[])[]; readonly isDerived: boolean } {
  const at = (name: string, metadata: Args | undefined): Case => {
    const { metadata: _, ...action } = base.action;
    return { name, tested: { ...base, action: { ...action, ...(metadata && { metadata: metadata as JsonObject }) } } };
  };
  const whole = [at("no metadata", undefined), at("no arguments", { arguments: {} })];
  const sample = sampleArguments(tool.inputSchema as Args, patterns);
  if (sample === undefined) return { groups: [whole], isDerived: false };
  whole.push(at("arguments that fit", { arguments: sample }));
  whole.push(at("arguments that fit as the metadata itself", sample));
  whole.push(at("an argument that the schema does not name", { arguments: { ...sample, unnamed_argument: 1 } }));
  const groups = tool.arguments.slice(0, MAX_PATHS).map(({ path }) => {
    const steps = splitPath(path);
    const around = schemaAt(tool.inputSchema as Args, path) ?? {};
    return valuesOf(around, patterns).map((value) =>
      at(`\`${path}\` ${shown(value)}`, { arguments: withValueAt(sample, steps, value) }),
    );
  });
  return { groups: [whole, ...groups], isDerived: true };
}

const numbersAround = (bound: Json | undefined): number[] =>
  typeof bound === "number" ? [bound - 1, Number((bound - 0.01).toPrecision(15)), bound, bound + 1] : [];
const lengthsAround = (bound: Json | undefined): number[] =>
  typeof bound === "number" ? [bound - 1, bound, bound + 1].filter((each) => each >= 0 && each <= MAX_LENGTH) : [];

/** Lists values around every bound that a schema sets for one argument. */
function valuesOf(schema: Args, patterns: NaivePatterns): readonly (Json | undefined)[] {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength, minItems, maxItems } = schema;
  const numbers = [minimum, maximum, exclusiveMinimum, exclusiveMaximum].flatMap(numbersAround);
  const texts = [minLength, maxLength].flatMap(lengthsAround).map((length) => "x".repeat(length));
  const lists = [minItems, maxItems].flatMap(lengthsAround).map((length) => Array.from({ length }, () => "x"));
  const allowed = Array.isArray(schema.enum) ? schema.enum.slice(0, 24) : [];
  const { pattern } = schema;
  const sample = typeof pattern === "string" ? sampleText(pattern, patterns, { ignoreCase: false }) : undefined;
  const matching = sample === undefined ? [] : [sample, ...nearMisses(String(pattern), sample, patterns)];
  const values = [undefined, null, ...numbers, ...allowed, ...texts, ...matching, ...lists, ...OF_EACH_TYPE, ""];
  return [...new Map(values.map((value) => [JSON.stringify(value) ?? "missing", value])).values()];
}
