import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { type ToolArgument, ToolArgumentSchema } from "../../gen/agentcontrol/v1/resources_pb.js";
import {
  argumentsFrom,
  choicesOf,
  type EditedArgument,
  editedFrom,
  faultOf,
} from "../../src/dashboard/screens/escalations/edited-arguments.ts";

const text = (value: string) => create(ValueSchema, { kind: { case: "stringValue", value } });
const number = (value: number) => create(ValueSchema, { kind: { case: "numberValue", value } });

/** Arguments of a schema by path; sorted, as the service sends them. */
function known(types: Readonly<Record<string, string>>, enums: Readonly<Record<string, ToolArgument["enum"]>> = {}) {
  const paths = Object.keys(types).sort();
  return new Map(
    paths.map((path) => {
      const type = types[path] ?? "string";
      return [path, create(ToolArgumentSchema, { path, types: [type], enum: enums[path] ?? [] })] as const;
    }),
  );
}

const form = (args: JsonObject, types: Readonly<Record<string, string>> = {}, fired: readonly string[] = []) =>
  editedFrom({ args, before: args, known: known(types), fired });
const edit = (entries: readonly EditedArgument[], path: string, change: Partial<EditedArgument>) =>
  entries.map((each) => (each.path === path ? { ...each, ...change } : each));

describe("the form of edited arguments", () => {
  const TYPES = { amount: "number", "bank.fee": "number", "bank.iban": "string", bank: "object", to: "string" };

  it("begins with what fired, then has the schema's order, then unknown arguments.", () => {
    const args = { other: 1, to: "A", amount: 2, bank: { iban: "DE" } };
    expect(form(args, TYPES, ["bank.iban"]).map(({ path, isSent }) => `${path} ${isSent}`)).to.deep.equal([
      "bank.iban true",
      "amount true",
      "bank.fee false",
      "to true",
      "other true",
    ]);
  });

  it("has one field for an object that is not sent.", () => {
    expect(form({ amount: 1 }, TYPES).map(({ path }) => path)).to.deep.equal(["amount", "bank", "to"]);
  });

  it("gives back the same arguments if nothing is changed, whatever their names and types are.", () => {
    const cases: readonly JsonObject[] = [
      {},
      { a: 1, b: "1", c: true, d: null, e: [1, { f: 2 }], g: {}, h: [] },
      { bank: { iban: "DE", more: { deep: { deeper: { deepest: 1 } } } } },
      { "a.b": { c: 1 }, "": { "": "x" }, '"': 2, "[]": "y" },
      JSON.parse('{"__proto__": {"x": 1}, "constructor": "y"}') as JsonObject,
    ];
    for (const args of cases)
      expect(JSON.stringify(argumentsFrom(form(args, TYPES), known(TYPES)))).to.equal(JSON.stringify(sorted(args)));
  });

  /** Sorts members as the form does: by the schema, where `bank` alone is known here. */
  function sorted(args: JsonObject): JsonObject {
    const entries = Object.entries(args);
    const isKnown = ([name]: readonly [string, JsonValue]) => name in TYPES;
    return Object.fromEntries([...entries.filter(isKnown), ...entries.filter((each) => !isKnown(each))]);
  }

  it("changes, adds and leaves out members of an object.", () => {
    const args = { bank: { iban: "DE", fee: 1 }, to: "A" };
    const entries = form(args, TYPES);
    const built = (changed: readonly EditedArgument[]) => argumentsFrom(changed, known(TYPES));
    expect(built(edit(entries, "bank.fee", { text: "2" }))).to.deep.equal({ bank: { fee: 2, iban: "DE" }, to: "A" });
    expect(built(edit(entries, "amount", { text: "7", isSent: true }))).to.include({ amount: 7 });
    expect(built(edit(entries, "bank.iban", { isSent: false })).bank).to.deep.equal({ fee: 1 });
    const none = edit(edit(entries, "bank.iban", { isSent: false }), "bank.fee", { isSent: false });
    expect(built(none)).to.deep.equal({ bank: {}, to: "A" });
  });

  it("says what is wrong with a value.", () => {
    const schema = known({ n: "number" }).get("n");
    expect(faultOf("9,5", schema, 1)).to.equal("must be a number");
    expect(faultOf("9.5", schema, 1)).to.equal(undefined);
    expect(faultOf("{", undefined, {})).to.contain("must be JSON");
    expect(faultOf("anything", undefined, "text")).to.equal(undefined);
  });

  it("offers the values that the schema lists, where a field can hold them.", () => {
    const types = { currency: "string", size: "integer", urgent: "boolean", any: "string" };
    const schemas = known(types, { currency: [text("EUR"), text("USD")], size: [number(1), number(2)] });
    expect(choicesOf(schemas.get("currency"), "GBP")).to.deep.equal(["EUR", "USD"]);
    expect(choicesOf(schemas.get("currency"), undefined)).to.deep.equal(["EUR", "USD"]);
    expect(choicesOf(schemas.get("currency"), 5)).to.deep.equal(['"EUR"', '"USD"']);
    expect(choicesOf(schemas.get("size"), 1)).to.deep.equal(["1", "2"]);
    expect(choicesOf(schemas.get("size"), "1")).to.deep.equal([]);
    expect(choicesOf(schemas.get("urgent"), false)).to.deep.equal(["true", "false"]);
    expect(choicesOf(schemas.get("any"), "x")).to.deep.equal([]);
    expect(choicesOf(undefined, "x")).to.deep.equal([]);
  });
});
