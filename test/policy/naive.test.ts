import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import fc from "fast-check";
import { type ArgumentTypes, naiveArgumentFires, naiveMetadataFires } from "../../src/dryrun/naive/naive-conditions.ts";
import { NaivePatterns } from "../../src/dryrun/naive/naive-patterns.ts";
import { compileMandate } from "../../src/policy/compile/mandate.ts";
import { OPERATOR_NAMES } from "../../src/policy/operators/index.ts";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import { contextFrom, lookup, mandateSource, NAMED_LISTS, toolFrom } from "./harness.ts";
import { type Draw, objectFor, operandFor, type RandomRule, ruleFor, schemaFrom, typesFrom } from "./random-rules.ts";

/** The long form takes 1,700. */
const SCHEMAS = Number(process.env.SCHEMAS ?? 340);
const RULES = 10;
const CALLS = 10;
/** Rules and calls that are compared at least, 100,000 in the long form. */
const TRIPLES = SCHEMAS * 59;

const PATTERNS = new NaivePatterns((name) => NAMED_LISTS.get(name));

function fires(rule: RandomRule, types: ArgumentTypes, args: JsonObject, metadata: JsonObject): boolean {
  if (rule.type === "metadata")
    return naiveMetadataFires(rule.conditions, rule.joint, rule.decision, args, metadata, PATTERNS);
  return naiveArgumentFires(rule.conditions, rule.joint, rule.decision, types, args, PATTERNS);
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
        const beside = objectFor(from, schema);
        for (let index = 0; index < RULES; index++) {
          const rule = ruleFor(from, tool);
          const set = createPolicySet([rule.mandate]);
          for (const args of calls) {
            const metadata = { ...beside, arguments: args, a: "meta", x: 1 };
            const want = fires(rule, types, args, metadata);
            const got = set.evaluate(contextFrom({ tool, arguments: args, metadata }));
            const told = () => JSON.stringify({ schema, rule: { ...rule, mandate: undefined }, metadata });
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
