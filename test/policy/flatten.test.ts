import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { SCHEMA_LIMITS, SCHEMA_VIOLATION_REASONS } from "../../src/policy/schema/check.ts";
import { flattenSchema } from "../../src/policy/schema/flatten.ts";
import { testdata } from "./harness.ts";

interface Case {
  readonly description: string;
  readonly schema: JsonObject;
  /** Types joined by `|`, with `!` if required, by path. */
  readonly paths?: Readonly<Record<string, string>>;
  readonly want?: readonly unknown[];
  readonly count?: number;
  readonly violations?: readonly (readonly [string, string])[];
}

const cases = testdata<Case[]>("flatten");

function reasonsOf(schema: JsonObject): readonly string[] {
  const result = flattenSchema(schema);
  return result.kind === "invalid" ? result.violations.map((violation) => violation.reason) : [];
}

function object(properties: JsonObject, rest: JsonObject = {}): JsonObject {
  return { type: "object", properties, ...rest };
}

const members = (count: number): JsonObject =>
  object(Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, { type: "string" }])));

function nest(depth: number): JsonObject {
  let schema: JsonObject = { type: "string" };
  for (let level = 0; level < depth; level++) schema = object({ a: schema });
  return schema;
}

const doubling: JsonObject = {
  $ref: "#/$defs/d0",
  $defs: Object.fromEntries(
    Array.from({ length: 40 }, (_, index) => {
      const next = { $ref: `#/$defs/d${index + 1}` };
      return [`d${index}`, index === 39 ? { type: "object" } : { allOf: [next, next] }];
    }),
  ),
};

const LIMIT_CASES: readonly (readonly [string, JsonObject])[] = [
  ["SCHEMA_TOO_LARGE", { description: "x".repeat(SCHEMA_LIMITS.bytes) }],
  ["TOO_MANY_PATHS", members(SCHEMA_LIMITS.paths + 1)],
  ["SCHEMA_TOO_DEEP", nest(SCHEMA_LIMITS.depth + 1)],
  ["SCHEMA_TOO_DEEP", nest(50_000)],
  ["SCHEMA_TOO_COMPLEX", doubling],
];

describe("flattenSchema", () => {
  for (const given of cases) {
    it(`reads ${given.description}.`, () => {
      const result = flattenSchema(given.schema);
      if (result.kind === "invalid") {
        const found = result.violations.map((violation) => [violation.field, violation.reason]);
        expect(found, JSON.stringify(result.violations)).to.deep.equal(given.violations);
        return;
      }
      expect(given.violations).to.equal(undefined);
      const short = result.arguments.map(({ path, types, required }) => [
        path,
        `${types.join("|")}${required ? "!" : ""}`,
      ]);
      if (given.paths !== undefined) expect(Object.fromEntries(short)).to.deep.equal(given.paths);
      if (given.want !== undefined) expect(result.arguments).to.deep.equal(given.want);
      if (given.count !== undefined) expect(result.arguments).to.have.length(given.count);
    });
  }

  for (const [reason, schema] of LIMIT_CASES) {
    it(`refuses what is beyond a limit with ${reason}.`, () => {
      expect(reasonsOf(schema)).to.deep.equal([reason]);
    });
  }

  it("accepts what is just within the limits.", () => {
    expect(reasonsOf(members(SCHEMA_LIMITS.paths))).to.deep.equal([]);
    expect(reasonsOf(nest(SCHEMA_LIMITS.depth))).to.deep.equal([]);
  });

  it("unfolds a wide recursive schema less often instead of refusing it.", () => {
    const names = Array.from({ length: 30 }, (_, index) => `m${index}`);
    const node = object(Object.fromEntries(names.map((name) => [name, { $ref: "#/$defs/node" }])));
    const result = flattenSchema({ $ref: "#/$defs/node", $defs: { node } });
    expect(result.kind === "flattened" && result.arguments.length).to.equal(30 + 30 * 30);
  });

  it("gives paths in the same order whatever the order of the members.", () => {
    const forward = object({ b: { type: "string" }, a: object({ y: {}, x: {} }) });
    const backward = object({ a: object({ x: {}, y: {} }), b: { type: "string" } });
    expect(flattenSchema(forward)).to.deep.equal(flattenSchema(backward));
  });

  it("has a case for every reason.", () => {
    const seen = [
      ...cases.flatMap((given) => given.violations ?? []).map(([, reason]) => reason),
      ...LIMIT_CASES.map(([reason]) => reason),
    ];
    expect([...new Set(seen)]).to.have.members(Object.keys(SCHEMA_VIOLATION_REASONS));
  });
});
