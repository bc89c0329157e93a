import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import fc from "fast-check";
import { compileMandate } from "../../src/policy/compile/mandate.ts";
import { createToolSchema } from "../../src/policy/schema/validate.ts";
import { contextFrom, evaluateRule, lookup, mandateFrom, mandateSource, testdata, toolFrom } from "./harness.ts";

interface Case {
  readonly description: string;
  readonly arguments: JsonObject;
  /** The argument and the message; null if the arguments fit. */
  readonly want: readonly [string | null, string] | null;
}

type Formats = Readonly<Record<string, readonly [readonly string[], readonly string[]]>>;

const { schema, cases, formats } = testdata<{ schema: JsonObject; cases: Case[]; formats: Formats }>("schema");
const DRAFT_07 = "http://json-schema.org/draft-07/schema#";
const rule = { type: "schema", tool: "pay", decision: "block" };

function fits(inputSchema: JsonObject, args: JsonObject): boolean {
  return evaluateRule(rule, toolFrom(inputSchema), args).decision === undefined;
}

function problemsOf(inputSchema: JsonObject): readonly string[] {
  return compileMandate(mandateSource([rule]), lookup(toolFrom(inputSchema))).violations.map(
    ({ path, reason, message }) => `${path} ${reason} ${message}`,
  );
}

const NAMES = ["a", "b", "constructor", "__proto__"];

/** Schemas of a handful of keywords, in both dialects alike. */
const { node } = fc.letrec<{ node: JsonObject }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 3 },
    fc.constant({}),
    fc.record(
      {
        type: fc.constantFrom("string", "number", "integer", "boolean", "null", "array", "object"),
        minimum: fc.integer({ min: -1, max: 3 }),
        maxLength: fc.integer({ min: 0, max: 2 }),
        enum: fc.uniqueArray(fc.constantFrom<JsonValue>("x", "", 0, 1, true, null), { minLength: 1 }),
      },
      { requiredKeys: [] },
    ),
    fc.record(
      {
        properties: fc.dictionary(fc.constantFrom(...NAMES), tie("node"), { maxKeys: 3 }),
        required: fc.uniqueArray(fc.constantFrom(...NAMES), { maxLength: 2 }),
        additionalProperties: fc.boolean(),
      },
      { requiredKeys: ["properties"] },
    ),
    fc.record({ items: tie("node"), uniqueItems: fc.boolean() }),
    fc.record({ anyOf: fc.array(tie("node"), { minLength: 1, maxLength: 2 }) }),
    fc.record({ not: tie("node") }),
  ) as fc.Arbitrary<JsonObject>,
}));
const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<JsonValue>("x", "", "😀😀", 0, 1, 1.5, -2, true, null),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...NAMES), tie("value"), { maxKeys: 3 }),
  ) as fc.Arbitrary<JsonValue>,
}));

const isObject = (given: JsonValue): given is JsonObject =>
  typeof given === "object" && given !== null && !Array.isArray(given);
const text = (given: JsonValue): string =>
  isObject(given)
    ? `{${Object.keys(given)
        .sort()
        .map((key) => `${key}:${text(given[key] as JsonValue)}`)}}`
    : Array.isArray(given)
      ? `[${given.map(text)}]`
      : JSON.stringify(given);

function hasType(type: JsonValue, given: JsonValue): boolean {
  if (type === "object") return isObject(given);
  if (type === "array") return Array.isArray(given);
  if (type === "null") return given === null;
  return type === "integer" ? Number.isInteger(given) : typeof given === type;
}

/** Applies the keywords above one by one, as JSON Schema defines them. */
function naiveFits(each: JsonObject, given: JsonValue): boolean {
  const members = (isObject(each.properties ?? null) ? each.properties : {}) as JsonObject;
  const checks: Readonly<Record<string, (keyword: never) => boolean>> = {
    type: (type: string) => hasType(type, given),
    minimum: (low: number) => typeof given !== "number" || given >= low,
    maxLength: (most: number) => typeof given !== "string" || [...given].length <= most,
    enum: (allowed: JsonValue[]) => allowed.some((one) => text(one) === text(given)),
    properties: () =>
      !isObject(given) ||
      Object.entries(given).every(([k, v]) => !Object.hasOwn(members, k) || naiveFits(members[k] as JsonObject, v)),
    required: (names: string[]) => !isObject(given) || names.every((name) => Object.hasOwn(given, name)),
    additionalProperties: (open: boolean) =>
      open || !isObject(given) || Object.keys(given).every((name) => Object.hasOwn(members, name)),
    items: (item: JsonObject) => !Array.isArray(given) || given.every((one) => naiveFits(item, one)),
    uniqueItems: (unique: boolean) =>
      !unique || !Array.isArray(given) || new Set(given.map(text)).size === given.length,
    anyOf: (choices: JsonObject[]) => choices.some((choice) => naiveFits(choice, given)),
    not: (never: JsonObject) => !naiveFits(never, given),
  };
  return Object.entries(each).every(([keyword, operand]) => checks[keyword]?.(operand as never) ?? true);
}

describe("a schema rule", () => {
  for (const { description, arguments: args, want } of cases) {
    it(`judges ${description}.`, () => {
      const { reasons } = evaluateRule(rule, toolFrom(schema), args);
      const [reason] = reasons;
      expect(reason === undefined ? null : [reason.argument ?? null, reason.message]).to.deep.equal(want);
      if (reason === undefined) return;
      expect(reason.code).to.equal("ARGUMENTS_INVALID");
      expect(JSON.stringify(reasons)).not.to.contain("secret");
    });
  }

  for (const [format, [right, wrong]] of Object.entries(formats)) {
    it(`checks the format \`${format}\`.`, () => {
      const strings = { type: "object", properties: { a: { type: "string", format } } };
      for (const a of right) expect(fits(strings, { a }), a).to.equal(true);
      for (const a of wrong) expect(fits(strings, { a }), a).to.equal(false);
    });
  }

  it("fires when there are no arguments at all.", () => {
    const { reasons } = evaluateRule(rule, toolFrom({ type: "object" }), undefined);
    expect(reasons[0]?.message).to.equal("the arguments are missing");
  });

  it("takes metadata as arguments without the name of the tool, unless that is an argument.", () => {
    const closed = { type: "object", properties: { a: { type: "number" } }, additionalProperties: false };
    expect(fits(closed, { a: 1, tool: "pay" })).to.equal(true);
    expect(fits(closed, { a: 1, tools: "pay" })).to.equal(false);
    const own = { type: "object", properties: { tool: { enum: ["saw"] } } };
    expect(fits(own, { tool: "pay" })).to.equal(false);
    const tool = toolFrom(closed);
    const [mandate] = [mandateFrom([rule], {}, lookup(tool))];
    const args = { a: 1, tool: "pay" };
    expect(mandate.rules[0]?.check(contextFrom({ tool, arguments: args, metadata: { arguments: args } }))).to.be.an(
      "object",
    );
  });

  it("does not compile on a pattern that RE2 cannot take, and tells all of them.", () => {
    const properties = { a: { type: "string", pattern: "(?=a)" }, b: { patternProperties: { "(a)\\1": {} } } };
    const problems = problemsOf({ type: "object", properties });
    expect(problems).to.have.length(2);
    expect(problems[0]).to.contain("rules[0].tool SCHEMA_NOT_CHECKABLE the schema of `pay` cannot be checked");
    expect(problems.join()).to.contain("(?=a)").and.to.contain("(a)\\1");
  });

  it("holds when the validator gives neither true nor false, and leaves no rejection behind.", async () => {
    const inputSchema = { $async: true, type: "object", properties: { a: { type: "string" } } };
    const tool = createToolSchema({ name: "pay", version: 1, digest: "d", arguments: [], inputSchema });
    const rejections: unknown[] = [];
    const note = (error: unknown): void => void rejections.push(error);
    process.on("unhandledRejection", note);
    try {
      for (const a of [1, "text"]) expect(evaluateRule(rule, tool, { a }).decision).to.equal("block");
      await new Promise(setImmediate);
    } finally {
      process.off("unhandledRejection", note);
    }
    expect(rejections).to.deep.equal([]);
  });

  it("ignores the keywords of OpenAPI.", () => {
    const pet = { nullable: true, discriminator: { propertyName: "kind" }, properties: { kind: { const: "cat" } } };
    const properties = { pet, note: { type: "string", nullable: true }, nullable: { type: "number" } };
    expect(fits({ type: "object", properties }, { pet: { kind: "cat" }, note: "x", nullable: 1 })).to.equal(true);
    expect(fits({ type: "object", properties }, { note: null })).to.equal(false);
    expect(fits({ type: "object", properties }, { nullable: "1" })).to.equal(false);
  });

  it("keeps its decision in its place when a new version of the tool cannot be checked.", () => {
    const stale = compileMandate(
      mandateSource([rule]),
      lookup(toolFrom({ type: "object", properties: { a: { type: "string", pattern: "(?!x)" } } })),
      { allowStale: true },
    );
    expect(stale.rules[0]).to.include({ stale: true, decision: "block", tool: "pay" });
  });

  it("checks each pattern of a schema, not the first of them alone.", () => {
    const words = { a: { pattern: "^a$" }, b: { pattern: "^b$" } };
    const several = { type: "object", properties: words, patternProperties: { "^c": { pattern: "^c$" } } };
    for (const args of [{ a: "a" }, { b: "b" }, { c: "c" }, { a: "a", b: "b", c: "c" }, { d: "a" }])
      expect(fits(several, args), JSON.stringify(args)).to.equal(true);
    for (const args of [{ a: "b" }, { b: "a" }, { c: "a" }, { a: "a", b: "a" }, { cc: "b" }])
      expect(fits(several, args), JSON.stringify(args)).to.equal(false);
  });

  it("searches for patterns in time linear in the text.", () => {
    const evil = { type: "object", properties: { a: { type: "string", pattern: "^(a+)+$" } } };
    expect(fits(evil, { a: `${"a".repeat(50_000)}!` })).to.equal(false);
  });

  it("gives up, and fires, where references make the work explode.", () => {
    const branch = { properties: { a: { $ref: "#" } }, required: ["a"] };
    const twice = { anyOf: [branch, branch, { required: ["end"] }] };
    let args: JsonObject = {};
    for (let depth = 0; depth < 60; depth++) args = { a: args };
    const { reasons } = evaluateRule(rule, toolFrom({ type: "object", ...twice }), args);
    expect(reasons[0]).to.include({
      code: "CHECK_TOO_LONG",
      message: "the arguments take too long to check, so the rule fires",
    });
    expect(fits({ type: "object", ...twice }, { a: { a: { end: 1 } } })).to.equal(true);
  });

  it("takes no arguments that nest deeper than any stack.", () => {
    let deep: JsonObject = {};
    for (let depth = 0; depth < 50_000; depth++) deep = { a: deep };
    expect(fits({ type: "object", properties: { a: { $ref: "#" } } }, deep)).to.equal(false);
  });

  it("compares many elements in time linear in them.", () => {
    const unique = { type: "object", properties: { a: { type: "array", uniqueItems: true } } };
    const many = Array.from({ length: 100_000 }, (_, index) => ({ index }));
    expect(fits(unique, { a: many })).to.equal(true);
    expect(fits(unique, { a: [...many, { index: 5 }] })).to.equal(false);
  });

  it("understands both dialects, with references within the document.", () => {
    const point = { type: "array", minItems: 2 };
    const draft = {
      $schema: DRAFT_07,
      type: "object",
      definitions: { point: { ...point, items: [{ type: "number" }, { type: "number" }], additionalItems: false } },
      properties: { at: { $ref: "#/definitions/point" } },
    };
    const latest = {
      type: "object",
      $id: "https://example.com/tool",
      $defs: {
        point: { ...point, $anchor: "point", prefixItems: [{ type: "number" }, { type: "number" }], items: false },
      },
      properties: { at: { $ref: "#point" } },
      unevaluatedProperties: false,
    };
    for (const each of [draft, latest]) {
      expect(fits(each, { at: [1, 2] })).to.equal(true);
      expect(fits(each, { at: [1, 2, 3] })).to.equal(false);
      expect(fits(each, { at: [1, "2"] })).to.equal(false);
    }
    expect(fits(latest, { else: 1 })).to.equal(false);
  });

  it("knows members by their own names alone, whatever an object inherits.", () => {
    for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf"]) {
      const named = (member: JsonValue): JsonObject =>
        JSON.parse(`{${JSON.stringify(name)}:${JSON.stringify(member)}}`);
      const limited = { properties: named({ type: "number", maximum: 100 }) };
      const others = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`m${index}`, {}]));
      const many = { properties: { ...others, ...limited.properties } };
      const matched = { ...limited, patternProperties: { "^__proto__$": { minimum: 50 }, "^[a-z]": { minimum: 50 } } };
      const closed = { additionalProperties: false };
      const strict = { unevaluatedProperties: false };
      const someways = { anyOf: [limited, { properties: { other: {} }, required: ["other"] }] };
      const referred = { $defs: named(limited), $ref: `#/$defs/${name}` };
      const CASES: readonly (readonly [
        schema: JsonObject,
        fitting: readonly JsonObject[],
        others: readonly JsonObject[],
      ])[] = [
        [limited, [{}, named(99), { other: "x" }], [named(9000), named("x"), named(null)]],
        [{ ...limited, ...closed }, [{}, named(99)], [named(9000), { other: 1 }]],
        [{ ...many, ...closed }, [{}, named(99)], [named(9000), { other: 1 }]],
        [{ ...limited, ...strict }, [{}, named(99)], [named(9000), { other: 1 }]],
        [{ ...someways, ...strict }, [{}, named(99)], [named(9000), { more: 1 }]],
        [{ properties: { other: {} }, ...closed }, [{}, { other: 1 }], [named(1)]],
        [{ properties: { other: {} }, ...strict }, [{}, { other: 1 }], [named(1)]],
        [
          { patternProperties: { "^other$": {} }, ...strict },
          [{}, { other: 1 }],
          [named(1), { ...named(1), other: 1 }],
        ],
        [{ anyOf: [{ patternProperties: { "^other$": {} } }, {}], ...strict }, [{}, { other: 1 }], [named(1)]],
        [matched, [{}, named(60)], [named(101), named(9)]],
        [{ required: [name] }, [named(null)], [{}, { other: 1 }]],
        [{ propertyNames: { pattern: "^other$" } }, [{ other: 1 }], [named(1)]],
        [{ dependentRequired: named(["other"]) }, [{}, { other: 1 }, { ...named(1), other: 1 }], [named(1)]],
        [{ dependentSchemas: named({ required: ["other"] }) }, [{}, { ...named(1), other: 1 }], [named(1)]],
        [{ dependencies: named(["other"]) }, [{}, { ...named(1), other: 1 }], [named(1)]],
        [{ dependencies: named({ required: ["other"] }) }, [{}, { ...named(1), other: 1 }], [named(1)]],
        [{ ...referred, ...strict }, [{}, named(99)], [named(9000), { other: 1 }]],
        [{ properties: { inner: limited } }, [{ inner: named(99) }], [{ inner: named(9000) }]],
        [{ properties: { list: { items: limited } } }, [{ list: [named(99)] }], [{ list: [named(1), named(9000)] }]],
        [{ const: named(1) }, [named(1)], [{}, named(2), { other: 1 }]],
        [{ properties: { a: { enum: [named(1)] } } }, [{ a: named(1) }], [{ a: {} }, { a: named(2) }]],
        [{ properties: { a: { type: "string", format: name } } }, [{ a: "x" }], [{ a: 1 }]],
      ];
      for (const [each, right, wrong] of CASES) {
        const tool = { type: "object", ...each };
        for (const args of right) expect(fits(tool, args), JSON.stringify({ tool, args })).to.equal(true);
        for (const args of wrong) expect(fits(tool, args), JSON.stringify({ tool, args })).to.equal(false);
      }
      const draft = { $schema: DRAFT_07, type: "object", dependencies: named(["other"]), ...limited };
      expect([fits(draft, { ...named(1), other: 1 }), fits(draft, named(1)), fits(draft, named(9000))]).to.deep.equal([
        true,
        false,
        false,
      ]);
    }
  });

  it("checks what a schema names like a statement of its validator.", () => {
    const statement = "\n  var props0 = {};\n";
    const properties = { [statement]: { maximum: 100 } };
    const patternProperties = { "^other$": {} };
    const tool = { type: "object", properties, patternProperties, unevaluatedProperties: false };
    expect(fits(tool, { [statement]: 9 })).to.equal(true);
    expect(fits(tool, { [statement]: 9000 })).to.equal(false);
    expect(fits(tool, { [statement.replace("{}", "Object.create(null)")]: 9 })).to.equal(false);
  });

  it("agrees with a naive validator on random schemas and arguments, in both dialects.", () => {
    const seen = { true: 0, false: 0 };
    fc.assert(
      fc.property(node, fc.array(value, { minLength: 6, maxLength: 6 }), (a, values) => {
        for (const $schema of [DRAFT_07, "https://json-schema.org/draft/2020-12/schema"]) {
          const tool = toolFrom({ $schema, type: "object", properties: { a } });
          const mandate = mandateFrom([rule], {}, lookup(tool));
          for (const each of values) {
            const want = naiveFits(a, each);
            const finding = mandate.rules[0]?.check(contextFrom({ tool, arguments: { a: each } }));
            expect(finding === undefined, JSON.stringify({ a, each })).to.equal(want);
            seen[`${want}`] += 1;
          }
        }
      }),
      { numRuns: 400 },
    );
    expect(Math.min(seen.true, seen.false)).to.be.above(300);
  });

  it("refuses an integer beyond 2^53, of which a double holds only a neighbour.", () => {
    const properties = {
      count: { type: "integer" },
      either: { type: ["integer", "null"] },
      amount: { type: "number" },
    };
    const tool = toolFrom({ type: "object", properties });
    const rule = { type: "schema", tool: "pay", decision: "block" };
    const decide = (args: JsonObject) => evaluateRule(rule, tool, args);
    for (const name of ["count", "either"]) {
      const { decision, reasons } = decide({ [name]: 2 ** 53 });
      expect(decision).to.equal("block");
      expect(reasons[0]?.message).to.equal(`\`${name}\` must be an integer within 2^53 - 1`);
      expect(decide({ [name]: 2 ** 53 - 1 }).decision).to.equal(undefined);
    }
    expect(decide({ amount: 2 ** 60, either: null }).decision).to.equal(undefined);
  });
});
