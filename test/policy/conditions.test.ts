import type { JsonObject } from "@bufbuild/protobuf";
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
  readonly holds: boolean;
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
});

describe("conditions on metadata", () => {
  for (const given of testdata<MetadataCase[]>("metadata")) {
    it(`${given.description}.`, () => {
      for (const decision of ["block", "allow"]) {
        const rule = { type: "metadata", decision, conditions: { rules: [given.condition] } };
        const context = contextFrom({ arguments: given.arguments, metadata: given.metadata });
        const result = createPolicySet([mandateFrom([rule])]).evaluate(context);
        expect(result.decision).to.equal(given.holds ? decision : undefined);
      }
    });
  }
});
