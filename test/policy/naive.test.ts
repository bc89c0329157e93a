import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import fc from "fast-check";
import {
  type ArgumentTypes,
  type NaiveCondition,
  naiveArgumentFires,
  naiveMetadataFires,
} from "../../src/dryrun/naive/naive-conditions.ts";
import { compileMandate } from "../../src/policy/compile/mandate.ts";
import { OPERATOR_NAMES } from "../../src/policy/operators/index.ts";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import type { CompiledMandate, ToolSchema } from "../../src/policy/types.ts";
import { contextFrom, lookup, mandateSource, toolFrom } from "./harness.ts";

/** The long form takes 1,700. */
const SCHEMAS = Number(process.env.SCHEMAS ?? 340);
const RULES = 10;
const CALLS = 10;
/** Rules and calls that are compared at least, 100,000 in the long form. */
const TRIPLES = SCHEMAS * 59;

/** A schema of the kind that the random calls are made for. */
interface NaiveSchema {
  readonly type?: string | readonly string[];
  readonly properties?: { readonly [name: string]: NaiveSchema };
  readonly items?: NaiveSchema;
}

const ANY_TYPE = ["array", "boolean", "integer", "null", "number", "object", "string"];

/** Lists the types of every path, straight from the schema. */
function typesFrom(schema: NaiveSchema, path = ""): [string, readonly string[]][] {
  const own: [string, readonly string[]] = [path, schema.type === undefined ? ANY_TYPE : [schema.type].flat()];
  const members = Object.entries(schema.properties ?? {}).flatMap(([name, each]) =>
    typesFrom(each, path === "" ? name : `${path}.${name}`),
  );
  const elements = schema.items === undefined ? [] : typesFrom(schema.items, `${path}[]`);
  return [...(path === "" ? [] : [own]), ...members, ...elements];
}

type Draw = fc.GeneratorValue;

const LEAF_TYPES = ["string", "number", "integer", "boolean"];
const TEXTS = ["", " ", "a", "A ", "ab", "b", "USD", " usd", "EUR", "5", "😀", "true", "constructor"];
const NUMBERS = [0, 1, 2, 2.5, 5, -1, 1e21];

function draw<T>(from: Draw, values: readonly T[]): T {
  return values[from(fc.nat, values.length - 1)] as T;
}

function leaf(from: Draw): NaiveSchema {
  const kind = from(fc.nat, 9);
  if (kind === 0) return {};
  if (kind === 1) return { type: [draw(from, LEAF_TYPES), "null"] };
  if (kind === 2) return { type: [...new Set([draw(from, LEAF_TYPES), draw(from, [...LEAF_TYPES, "array"])])] };
  return { type: draw(from, LEAF_TYPES) };
}

function schemaFrom(from: Draw, depth = 0): NaiveSchema {
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
  if (kind === 2) return [draw(from, TEXTS), draw(from, NUMBERS)];
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
      return draw(from, TEXTS);
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

function objectFor(from: Draw, schema: NaiveSchema): JsonObject {
  const entries = Object.entries(schema.properties ?? {}).map(
    ([name, member]) => [name, valueFor(from, member)] as const,
  );
  return Object.fromEntries(entries.filter((entry): entry is readonly [string, JsonValue] => entry[1] !== undefined));
}

function operandFor(from: Draw, operator: string): JsonValue | undefined {
  const scalar = () => draw<JsonValue>(from, [...TEXTS, ...NUMBERS, true, false]);
  if (operator.endsWith("exists")) return undefined;
  if (operator.endsWith("between")) return [draw(from, NUMBERS), draw(from, NUMBERS)].sort((a, b) => a - b);
  if (/^(in|not_in|contains_any|contains_all|subset_of)$/.test(operator)) {
    const texts = from(fc.nat, 1) === 0;
    return Array.from({ length: 1 + from(fc.nat, 2) }, () => (texts ? draw<JsonValue>(from, TEXTS) : scalar()));
  }
  if (operator.startsWith("length")) return from(fc.nat, 2);
  if (/^[<>]/.test(operator)) return draw(from, NUMBERS);
  if (operator === "matches") return draw(from, ["^a", "b$", "[0-9]", "(a|b)+", "^\\s*$", "usd"]);
  return operator.endsWith("with") ? draw(from, TEXTS) : scalar();
}

function conditionFor(from: Draw, paths: readonly string[]): NaiveCondition {
  const operator = draw(from, OPERATOR_NAMES);
  const value = operandFor(from, operator);
  return {
    field: draw(from, paths),
    operator,
    ...(value !== undefined && { value }),
    ...(from(fc.nat, 4) === 0 && { currency: draw(from, ["usd", "EUR "]) }),
    ...(from(fc.nat, 3) === 0 && { on_missing: draw(from, ["ignore", "violate"]) }),
  };
}

interface RandomRule {
  readonly type: string;
  readonly decision: string;
  readonly joint: string;
  readonly conditions: readonly NaiveCondition[];
  readonly mandate: CompiledMandate;
}

/** A rule that compiles; conditions that do not are drawn again. */
function ruleFor(from: Draw, tool: ToolSchema): RandomRule {
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

function fires(rule: RandomRule, types: ArgumentTypes, args: JsonObject, metadata: JsonObject): boolean {
  if (rule.type === "metadata") return naiveMetadataFires(rule.conditions, rule.joint, rule.decision, args, metadata);
  return naiveArgumentFires(rule.conditions, rule.joint, rule.decision, types, args);
}

describe("compiled rules", () => {
  it("agree with a naive evaluator on many random schemas, rules and arguments.", () => {
    let triples = 0;
    const seen = new Map<string, number>();
    fc.assert(
      fc.property(fc.gen(), (from) => {
        const schema = schemaFrom(from);
        const tool = toolFrom(schema as JsonObject);
        const types = new Map(typesFrom(schema));
        const calls = Array.from({ length: CALLS }, () => objectFor(from, schema));
        for (let index = 0; index < RULES; index++) {
          const rule = ruleFor(from, tool);
          const set = createPolicySet([rule.mandate]);
          for (const args of calls) {
            const metadata = { arguments: args, a: "meta", x: 1 };
            const want = fires(rule, types, args, metadata);
            const got = set.evaluate(contextFrom({ tool, arguments: args, metadata }));
            const told = () => JSON.stringify({ schema, rule: { ...rule, mandate: undefined }, args });
            if ((got.decision !== undefined) !== want)
              expect(got.decision, told()).to.equal(want ? rule.decision : undefined);
            const key = `${rule.type} ${rule.decision} ${want}`;
            seen.set(key, (seen.get(key) ?? 0) + 1);
            triples++;
          }
        }
      }),
      { numRuns: SCHEMAS, endOnFailure: true },
    );
    expect(triples).to.be.at.least(TRIPLES);
    expect(
      [...seen.values()].every((count) => count > SCHEMAS / 2),
      JSON.stringify([...seen]),
    ).to.equal(true);
  });

  it("never throw on any JSON.", () => {
    const tool = toolFrom({
      type: "object",
      properties: {
        a: {},
        o: { type: "object", properties: { a: { type: "string" }, l: { type: "array", items: {} } } },
        l: {
          type: "array",
          items: { type: "object", properties: { a: { type: "number" }, currency: { type: "string" } } },
        },
      },
    });
    const paths = tool.arguments.map((argument) => argument.path);
    const key = fc.constantFrom("a", "o", "l", "currency", "__proto__", "arguments");
    const { json } = fc.letrec<{ json: JsonValue }>((tie) => ({
      json: fc.oneof(
        { maxDepth: 6 },
        fc.jsonValue() as fc.Arbitrary<JsonValue>,
        fc.array(tie("json"), { maxLength: 3 }),
        fc.dictionary(key, tie("json"), { maxKeys: 4 }) as fc.Arbitrary<JsonValue>,
      ),
    }));
    fc.assert(
      fc.property(fc.gen(), fc.dictionary(key, json, { maxKeys: 5 }), (from, args) => {
        const mandates = Array.from({ length: 4 }, (_, index) => ({
          ...ruleFor(from, tool).mandate,
          id: `mnd_${index}`,
        }));
        const context = contextFrom({ tool, arguments: args, metadata: args });
        expect(() => createPolicySet(mandates).evaluate(context), paths.join()).not.to.throw();
      }),
      { numRuns: 2000 },
    );
  });

  it("never throw on arguments nested deeper than any stack.", () => {
    const tool = toolFrom({ type: "object", properties: { a: {} } });
    let deep: JsonValue = "x";
    for (let index = 0; index < 100_000; index++) deep = index % 2 === 0 ? [deep] : { a: deep };
    for (const type of ["argument", "metadata"]) {
      for (const operator of OPERATOR_NAMES) {
        const value = operandFor((() => 0) as unknown as Draw, operator);
        const usable = value === "" ? "x" : Array.isArray(value) && value[0] === "" ? ["x"] : value;
        const condition = { field: "a", operator, ...(usable !== undefined && { value: usable }) };
        const rule = { type, tool: "pay", decision: "block", conditions: { rules: [condition] } };
        const mandate = compileMandate(mandateSource([rule]), lookup(tool));
        expect(mandate.violations).to.deep.equal([]);
        const args = { a: deep };
        createPolicySet([mandate]).evaluate(contextFrom({ tool, arguments: args, metadata: args }));
      }
    }
  });
});
