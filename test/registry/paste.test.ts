import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { toolsFromPaste } from "../../src/registry/paste.ts";
import type { JsonValue } from "../../src/tree/canonical.ts";
import { failureOf } from "../support/harness.ts";

interface Case {
  readonly description: string;
  readonly given: JsonValue;
  /** The names of the tools, or the fields at fault. */
  readonly want: readonly string[];
}

const FILE = join(import.meta.dirname, "..", "testdata", "registry", "paste.json");
const { schema, accepted, refused } = JSON.parse(readFileSync(FILE, "utf8")) as {
  schema: JsonValue;
  accepted: Case[];
  refused: Case[];
};

/** The case with the word SCHEMA replaced by the schema that all cases share. */
const filled = (given: JsonValue): JsonValue =>
  JSON.parse(JSON.stringify(given), (_key, value) => (value === "SCHEMA" ? schema : value)) as JsonValue;

describe("toolsFromPaste", () => {
  for (const { description, given, want } of accepted) {
    it(`recognises ${description}.`, () => {
      const drafts = toolsFromPaste(filled(given));
      expect(drafts.map(({ name }) => name)).to.deep.equal(want);
      for (const { inputSchema } of drafts) expect(inputSchema).to.deep.equal(schema);
    });
  }

  for (const { description, given, want } of refused) {
    it(`refuses ${description}, naming what is wrong.`, async () => {
      const failure = await failureOf(() => toolsFromPaste(filled(given)));
      expect(failure.violations.map(({ field }) => field)).to.deep.equal(want);
      expect(failure.message).to.not.include("\n");
    });
  }

  it("names a JSON Schema by its title when it has no name.", () => {
    const titled = { title: "SendPayment", type: "object", properties: { amount: { type: "number" } } };
    expect(toolsFromPaste(titled)[0]).to.deep.include({ name: "SendPayment", inputSchema: titled });
    expect(toolsFromPaste({ ...titled, name: "pay" })[0]).to.deep.include({ name: "pay", inputSchema: titled });
  });

  it("takes an OpenAI function without parameters for one without arguments.", () => {
    for (const given of [
      { type: "function", function: { name: "now" } },
      { type: "function", name: "now", parameters: null },
    ]) {
      expect(toolsFromPaste(given)[0]?.inputSchema).to.deep.equal({ type: "object", properties: {} });
    }
  });

  it("refuses more than 500 tools.", async () => {
    const tools = Array.from({ length: 501 }, (_, index) => ({ name: `t${index}`, schema }));
    expect(toolsFromPaste(tools.slice(1))).to.have.length(500);
    expect((await failureOf(() => toolsFromPaste(tools))).message).to.include("501");
  });
});
