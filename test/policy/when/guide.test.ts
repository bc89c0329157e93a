import { readFileSync } from "node:fs";
import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { createPolicySet } from "../../../src/policy/policy-set.ts";
import { WHEN_FUNCTIONS } from "../../../src/policy/when/functions.ts";
import { MEMBERS, WHOLES } from "../../../src/policy/when/variables.ts";
import { contextFrom, mandateFrom } from "../harness.ts";

const GUIDE = readFileSync(new URL("../../../src/policy/when/GUIDE.md", import.meta.url), "utf8");

/** Rows of the table of examples. */
const EXAMPLES = (GUIDE.split("## Examples")[1]?.split("\n## ")[0] ?? "")
  .split("\n")
  .filter((line) => line.startsWith("| "))
  .slice(2)
  .map((line) =>
    line
      .replaceAll("\\|", "\u0000")
      .split("|")
      .slice(1, -1)
      .map((cell) =>
        cell
          .trim()
          .replaceAll("\u0000", "|")
          .replace(/^(`|\*\*)|(`|\*\*)$/g, ""),
      ),
  );

describe("the guide to expressions", () => {
  it("has at least twenty examples.", () => {
    expect(EXAMPLES).to.have.length.of.at.least(20);
  });

  for (const [title, when = "", ...columns] of EXAMPLES) {
    it(`shows ${title}.`, () => {
      const set = createPolicySet([mandateFrom([{ type: "action", decision: "block", when }])]);
      columns.forEach((cell, index) => {
        if (cell === "") return;
        const args = JSON.parse(cell) as JsonObject;
        const { decision, reasons } = set.evaluate(contextFrom({ arguments: args, metadata: args }));
        expect(decision, JSON.stringify(reasons)).to.equal(index === 0 ? "block" : undefined);
        if (index === 0) expect(reasons[0]?.message).to.match(/ is true$/);
      });
    });
  }

  it("names every function and variable.", () => {
    const members = [...MEMBERS].flatMap(([name, inner]) => [...inner.keys()].map((member) => `${name}.${member}`));
    // `dyn` says nothing here, and lists of the workspace have a guide of their own.
    const functions = [...WHEN_FUNCTIONS.keys()].filter((name) => !["dyn", "in_list"].includes(name));
    for (const name of [...functions, ...members, ...WHOLES.keys()]) expect(GUIDE, name).to.contain(`\`${name}`);
  });
});
