import { readFileSync } from "node:fs";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import { metadataHolds } from "../../src/dryrun/naive/naive-conditions.ts";
import { NaivePatterns } from "../../src/dryrun/naive/naive-patterns.ts";
import { OPERATOR_NAMES } from "../../src/policy/operators/index.ts";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import { contextFrom, mandateFrom } from "./harness.ts";

const GUIDE = readFileSync(new URL("../../src/policy/GUIDE.md", import.meta.url), "utf8");
/** A row of the guide's table: `on_missing`, and the operators that hold in a rule that restricts and in one that allows. */
const ROW = /^\| (not given|`ignore`|`violate`) +\| ([^|]+)\| ([^|]+)\|$/gm;

/** A value that each operator takes. */
const VALUES: Readonly<Record<string, JsonValue>> = {
  ">": 1,
  ">=": 1,
  "<": 1,
  "<=": 1,
  between: [1, 2],
  not_between: [1, 2],
  in: ["a"],
  not_in: ["a"],
  contains_any: ["a"],
  contains_all: ["a"],
  subset_of: ["a"],
  length_gt: 0,
  length_lt: 9,
  in_list: "names",
  not_in_list: "names",
};

/** Reads a cell of the table: the operators that hold. */
function operatorsIn(cell: string): readonly string[] {
  const named = [...cell.matchAll(/`([^`]+)`/g)].map(([, operator = ""]) => operator);
  return cell.startsWith("all but") ? OPERATOR_NAMES.filter((operator) => !named.includes(operator)) : named;
}

function conditionOf(operator: string, onMissing: string | undefined) {
  const value = operator.endsWith("exists") ? {} : { value: VALUES[operator] ?? "a" };
  return { field: "to", operator, ...value, ...(onMissing !== undefined && { on_missing: onMissing }) };
}

describe("the guide's table of missing values without a schema", () => {
  const rows = [...GUIDE.matchAll(ROW)];

  it("has a row for each form of `on_missing`.", () => {
    expect(rows.map(([, given]) => given)).to.deep.equal(["not given", "`ignore`", "`violate`"]);
  });

  for (const [, given = "", restricting = "", allowing = ""] of rows) {
    const onMissing = given === "not given" ? undefined : given.replaceAll("`", "");
    for (const operator of OPERATOR_NAMES) {
      it(`is true of \`${operator}\` where \`on_missing\` is ${given}.`, () => {
        const condition = conditionOf(operator, onMissing);
        for (const decision of ["block", "escalate", "allow"]) {
          const want = operatorsIn(decision === "allow" ? allowing : restricting).includes(operator);
          const rule = { type: "metadata", decision, conditions: { rules: [condition as JsonObject] } };
          const set = createPolicySet([mandateFrom([rule])]);
          for (const metadata of [{ other: "a" }, { to: null }, { arguments: {} }]) {
            const { decision: got } = set.evaluate(contextFrom({ metadata }));
            expect(got, JSON.stringify({ decision, metadata })).to.equal(want ? decision : undefined);
            const args = "arguments" in metadata ? metadata.arguments : metadata;
            expect(metadataHolds(condition, decision, args, metadata, new NaivePatterns())).to.equal(want);
          }
        }
      });
    }
  }
});
