import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import { contextFrom, evaluateRule, mandateFrom, testdata, toolFrom } from "./harness.ts";

interface TypedCase {
  readonly description: string;
  readonly schema: string;
  readonly conditions: JsonObject;
  readonly arguments: JsonObject | null;
  readonly block: boolean;
  readonly allow: boolean;
  readonly code?: string;
}

interface MetadataCase {
  readonly description: string;
  readonly condition: JsonObject;
  readonly arguments: JsonObject;
  readonly metadata: JsonObject;
  /** True if a rule that blocks holds, and, without `allows`, one that allows. */
  readonly holds: boolean;
  readonly allows?: boolean;
}

const typed = testdata<{ schemas: Record<string, JsonObject>; cases: TypedCase[] }>("conditions");

describe("conditions on arguments", () => {
  for (const given of typed.cases) {
    it(`${given.description}.`, () => {
      const tool = toolFrom(typed.schemas[given.schema] ?? {});
      const decide = (decision: string) => {
        const rule = { type: "argument", tool: "pay", decision, conditions: given.conditions };
        return evaluateRule(rule, tool, given.arguments ?? undefined);
      };
      expect(decide("allow").decision).to.equal(given.allow ? "allow" : undefined);
      expect(decide("escalate").decision).to.equal(given.block ? "escalate" : undefined);
      const blocked = decide("block");
      expect(blocked.decision).to.equal(given.block ? "block" : undefined);
      expect(blocked.reasons[0]?.code).to.equal(given.code);
    });
  }

  it("takes a number that is not finite for wrong-typed.", () => {
    const tool = toolFrom({ type: "object", properties: { amount: { type: "number" } } });
    const conditions = { rules: [{ field: "amount", operator: ">", value: 500 }] };
    for (const amount of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const decide = (decision: string) =>
        evaluateRule({ type: "argument", tool: "pay", decision, conditions }, tool, { amount }).decision;
      expect(decide("block")).to.equal("block");
      expect(decide("allow")).to.equal(undefined);
    }
  });

  it("say what an argument of a wrong type is.", () => {
    const properties = {
      amount: { type: "number" },
      count: { type: "integer" },
      o: { type: "object", properties: { a: {} } },
    };
    const tool = toolFrom({ type: "object", properties });
    const messageOf = (field: string, args: JsonObject) => {
      const conditions = { rules: [{ field, operator: ">", value: 5 }] };
      const { reasons } = evaluateRule({ type: "argument", tool: "pay", decision: "block", conditions }, tool, args);
      return `${reasons[0]?.code} ${reasons[0]?.message}`;
    };
    const wrong = "ARGUMENT_WRONG_TYPE";
    expect(messageOf("amount", { amount: "5" })).to.equal(`${wrong} \`amount\` is text, not number`);
    expect(messageOf("amount", { amount: true })).to.equal(`${wrong} \`amount\` is a boolean, not number`);
    expect(messageOf("amount", { amount: [6] })).to.equal(`${wrong} \`amount\` is a list, not number`);
    expect(messageOf("amount", { amount: { a: 1 } })).to.equal(`${wrong} \`amount\` is an object, not number`);
    expect(messageOf("count", { count: 5.5 })).to.equal(`${wrong} \`count\` is a number, not integer`);
    const beyond = `${wrong} \`count\` is a number beyond 2^53 - 1, not integer`;
    for (const count of [2 ** 53, -(2 ** 53), 1e21]) expect(messageOf("count", { count })).to.equal(beyond);
    expect(messageOf("count", { count: 2 ** 53 - 1 })).to.equal("CONDITION_HELD `count > 5` holds");
  });
});

describe("conditions on metadata", () => {
  for (const given of testdata<MetadataCase[]>("metadata")) {
    it(`${given.description}.`, () => {
      for (const decision of ["block", "allow"]) {
        const rule = { type: "metadata", decision, conditions: { rules: [given.condition] } };
        const context = contextFrom({ arguments: given.arguments, metadata: given.metadata });
        const result = createPolicySet([mandateFrom([rule])]).evaluate(context);
        const holds = decision === "allow" ? (given.allows ?? given.holds) : given.holds;
        expect(result.decision).to.equal(holds ? decision : undefined);
      }
    });
  }

  const decisionOn = (decision: string, condition: JsonObject, args: JsonObject) => {
    const rule = { type: "metadata", decision, conditions: { rules: [condition] } };
    return createPolicySet([mandateFrom([rule])]).evaluate(contextFrom({ arguments: args, metadata: args }));
  };

  /** Conditions on a fact that the arguments and the metadata both tell, and whether a rule that blocks holds, and one that allows. */
  const TWO_SOURCES: readonly (readonly [
    condition: JsonObject,
    metadata: JsonObject,
    blocks: boolean,
    allows: boolean,
  ])[] = [
    [{ field: "risk", operator: ">", value: 5 }, { risk: 6, arguments: { risk: 1 } }, true, false],
    [{ field: "risk", operator: ">", value: 5 }, { risk: 1, arguments: { risk: 6 } }, true, false],
    [{ field: "risk", operator: ">", value: 5 }, { risk: 7, arguments: { risk: 6 } }, true, true],
    [{ field: "risk", operator: ">", value: 5 }, { risk: 2, arguments: { risk: 1 } }, false, false],
    [{ field: "risk", operator: ">", value: 5 }, { risk: 6, arguments: { risk: null } }, true, true],
    [{ field: "risk", operator: ">", value: 5 }, { risk: null, arguments: { risk: 6 } }, true, true],
    [{ field: "by.name", operator: "==", value: "eve" }, { by: { name: "Eve" }, arguments: { by: {} } }, true, false],
    [{ field: "by.name", operator: "==", value: "eve" }, { by: {}, arguments: { by: { name: "eve" } } }, true, false],
    [{ field: "by.name", operator: "exists" }, { by: { name: "Eve" }, arguments: { by: 1 } }, true, false],
    [{ field: "by", operator: "!=", value: "ann" }, { by: "eve", arguments: { by: "ann" } }, true, false],
    [{ field: "to[]", operator: "==", value: "eve" }, { to: ["eve"], arguments: { to: ["ann"] } }, true, false],
    [{ field: "arguments.risk", operator: ">", value: 5 }, { arguments: { risk: 6, arguments: {} } }, true, false],
    [
      { field: "by.name", operator: "==", value: "eve", on_missing: "violate" },
      { by: {}, arguments: { by: { name: "ann" } } },
      true,
      false,
    ],
  ];
  for (const [condition, metadata, blocks, allows] of TWO_SOURCES) {
    const text = JSON.stringify(condition);
    it(`take the stricter of two sources: ${text} on ${JSON.stringify(metadata)}.`, () => {
      const decided = (decision: string) => {
        const rule = { type: "metadata", decision, conditions: { rules: [condition] } };
        const context = contextFrom({ arguments: metadata.arguments as JsonObject, metadata });
        return createPolicySet([mandateFrom([rule])]).evaluate(context).decision;
      };
      for (const decision of ["block", "escalate"]) expect(decided(decision)).to.equal(blocks ? decision : undefined);
      expect(decided("allow")).to.equal(allows ? "allow" : undefined);
    });
  }

  /** Values that a condition is compared with, whether a rule that blocks holds, and one that allows. */
  const QUOTED: readonly (readonly [condition: JsonObject, value: JsonValue, blocks: boolean, allows: boolean])[] = [
    [{ operator: ">", value: 50000 }, "310000", true, false],
    [{ operator: ">", value: 50000 }, "60000", true, true],
    [{ operator: ">", value: 50000 }, "9", true, false],
    [{ operator: ">", value: 50000 }, "1e5", true, false],
    [{ operator: ">", value: 50000 }, " +60000.0 ", true, false],
    [{ operator: ">", value: 50000 }, "10", false, false],
    [{ operator: ">", value: 50000 }, "310,000", true, false],
    [{ operator: ">", value: 50000 }, "３１００００", true, false],
    [{ operator: ">", value: 50000 }, "0x99999", true, false],
    [{ operator: ">", value: 50000 }, "", true, false],
    [{ operator: ">", value: 50000 }, [310000], true, false],
    [{ operator: ">", value: 50000 }, { value: 1 }, true, false],
    [{ operator: ">", value: 50000 }, true, true, false],
    [{ operator: "<", value: 5 }, "10", true, false],
    [{ operator: "between", value: [10, 20] }, "15", true, true],
    [{ operator: "between", value: [10, 20] }, "9", false, false],
    [{ operator: "not_between", value: [10, 20] }, "100", true, false],
    [{ operator: "==", value: 5 }, "5.0", true, false],
    [{ operator: "==", value: 5 }, "5", true, true],
    [{ operator: "==", value: 5 }, "five", false, false],
    [{ operator: "!=", value: 5 }, "5.0", true, false],
    [{ operator: "!=", value: 5 }, "6", true, true],
    [{ operator: "in", value: [5, 6] }, "6e0", true, false],
    [{ operator: "==", value: "caf\u00e9" }, "cafe\u0301", true, true],
    [{ operator: ">", value: 50000 }, "６００００", true, false],
    [{ operator: ">", value: 50000 }, "60\u200b000", true, false],
    [{ operator: ">", value: 50000 }, "３", true, false],
    [{ operator: "==", value: 5 }, "５", true, true],
    [{ operator: "!=", value: 5 }, "５", false, false],
    [{ operator: "==", value: 5 }, "５.0", true, false],
    [{ operator: "==", value: "KP" }, ["KP"], true, false],
    [{ operator: "==", value: "KP" }, { c: "KP" }, true, false],
    [{ operator: "!=", value: "KP" }, ["IR"], true, false],
    [{ operator: "in", value: ["KP", "IR"] }, [["KP"]], true, false],
    [{ operator: "not_in", value: ["KP", "IR"] }, { c: "FR" }, true, false],
    [{ operator: "starts_with", value: "KP" }, ["FR"], true, false],
    [{ operator: "matches", value: "^[A-Z]{2}$" }, { c: "FR" }, true, false],
    [{ operator: "contains", value: "KP" }, ["FR", " ｋｐ"], true, true],
    [{ operator: "contains", value: "KP" }, ["FR", { c: "KP" }], true, false],
    [{ operator: "contains", value: "KP" }, ["FR"], false, false],
    [{ operator: "not_contains", value: "KP" }, [["KP"]], true, false],
    [{ operator: "length_gt", value: 100 }, { c: "KP" }, true, false],
    [{ operator: ">", value: "m" }, ["a"], true, false],
    [{ operator: "exists" }, ["KP"], true, true],
    [{ field: "a[]", operator: "==", value: "KP" }, ["KP", { c: "KP" }], true, false],
    [{ field: "a[]", operator: "!=", value: "KP" }, ["FR", ["KP"]], true, false],
    [{ field: "a[]", operator: "==", value: "KP" }, ["FR", "Ｋ\u200dＰ"], true, true],
  ];
  for (const [condition, value, blocks, allows] of QUOTED) {
    it(`with ${condition.operator} ${JSON.stringify(condition.value)} read ${JSON.stringify(value)} as the stricter.`, () => {
      const on = (decision: string) => decisionOn(decision, { field: "a", ...condition }, { a: value }).decision;
      expect(on("block")).to.equal(blocks ? "block" : undefined);
      expect(on("escalate")).to.equal(blocks ? "escalate" : undefined);
      expect(on("allow")).to.equal(allows ? "allow" : undefined);
    });
  }

  it("fail closed on a missing fact if they are told to.", () => {
    for (const args of [{}, { a: null }, { a: [] }, { b: 1 }] as JsonObject[]) {
      const condition = { field: "a", operator: ">", value: 5, on_missing: "violate" };
      const blocked = decisionOn("block", condition, args);
      expect(blocked.decision).to.equal("block");
      expect(blocked.reasons[0]?.code).to.equal(Array.isArray(args.a) ? "ARGUMENT_WRONG_TYPE" : "ARGUMENT_MISSING");
      expect(decisionOn("allow", condition, args).decision).to.equal(undefined);
      expect(decisionOn("block", { ...condition, on_missing: "ignore" }, args).decision).to.equal(
        Array.isArray(args.a) ? "block" : undefined,
      );
    }
    const within = { field: "l[].a", operator: ">", value: 5, on_missing: "violate" };
    expect(decisionOn("block", within, { l: [{ a: 1 }, {}] }).decision).to.equal("block");
    expect(decisionOn("block", within, { l: [{ a: 1 }] }).decision).to.equal(undefined);
    for (const operator of ["exists", "not_exists"]) {
      const got = decisionOn("block", { field: "a", operator, on_missing: "violate" }, {}).decision;
      expect(got).to.equal(operator === "exists" ? undefined : "block");
    }
  });
});
