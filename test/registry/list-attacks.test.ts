import { expect } from "chai";
import { ListKind } from "../../gen/agentcontrol/v1/list_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { backtest, draftOf } from "../dryrun/run-backtest.ts";
import { fieldsOf, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

describe("lists under attack", () => {
  let test: TestWorkspace;
  let agentId: string;
  before(async () => {
    test = await openWorkspace();
    agentId = await test.agent();
  });
  after(() => test.close());

  const put = (name: string, kind: ListKind, values: readonly string[]) =>
    test.lists.putList({ name, kind, values: [...values] });
  const valuesOf = async (name: string): Promise<readonly string[]> => (await test.lists.getList({ name })).values;

  /** Publishes a rule on `to` that compares with a list, for actions of the list's name. */
  const rule = (list: string, operator = "in_list", decision = Decision.BLOCK) => ({
    type: RuleType.METADATA,
    decision,
    conditions: {
      rules: [{ field: "to", operator, value: { kind: { case: "stringValue" as const, value: list } } }],
      matchActionTypes: [`use.${list}`],
    },
  });
  const decide = async (list: string, to: unknown): Promise<string> => {
    const metadata = { to } as never;
    return Decision[(await test.intercept({ agentId, actionType: `use.${list}`, metadata })).decision] ?? "";
  };

  it("block a host in whatever form it is written, and let another script's look-alike be another host.", async () => {
    await put("hosts", ListKind.HOST, ["*.evil.example", "bücher.example", "203.0.113.7"]);
    await test.mandate([rule("hosts")]);
    for (const to of [
      "evil.example",
      "EVIL.example.",
      "https://a.b.evil.example:8443/x?y#z",
      "ｅｖｉｌ．example",
      "evil。example",
      "xn--bcher-kva.example",
      "BÜCHER.example",
      "bu\u0308cher.example",
      "http://203.0.113.7/",
      "0xcb.0.113.7",
    ]) {
      expect(await decide("hosts", to), to).to.equal("BLOCK");
    }
    // What programs read in different ways counts as listed.
    for (const to of [
      "https://evil.example@good.example/",
      "https://good.example\\@evil.example",
      "evil.example\u0001.good.example",
      "",
    ])
      expect(await decide("hosts", to), JSON.stringify(to)).to.equal("BLOCK");
    for (const to of ["notevil.example", "evil.example.good.example", "еvil.example", "bucher.example", "203.0.113.70"])
      expect(await decide("hosts", to), to).to.equal("ALLOW");
  });

  it("keep values that fold to one another once, and names of prototypes as any text.", async () => {
    const values = ["__proto__", "constructor", "ACME", "ａｃｍｅ", " ac\u00adme ", "toString", "Ⅷ", "viii"];
    expect((await put("texts", ListKind.TEXT, values)).list?.size).to.equal(5);
    expect(await valuesOf("texts")).to.deep.equal(["__proto__", "acme", "constructor", "tostring", "viii"]);
    await test.lists.removeListValues({ name: "texts", values: ["__proto__", "never there"] });
    expect(await valuesOf("texts")).to.not.include("__proto__");
    await test.mandate([rule("texts", "not_in_list")]);
    expect(await decide("texts", "hasOwnProperty")).to.equal("BLOCK");
    expect(await decide("texts", "CONSTRUCTOR")).to.equal("ALLOW");
  });

  it("count code units, and refuse halves of pairs, NUL and blanks, in a change as a whole.", async () => {
    const pairs = "😀".repeat(128);
    expect((await put("long", ListKind.TEXT, [pairs, "x".repeat(256)])).list?.size).to.equal(2);
    // One character that NFKC makes eighteen of.
    for (const bad of [`${pairs}x`, "\ufdfa".repeat(20), "\u200b\u00ad", " \t", "a\u0000b", "a\ud800", "\udfffb"]) {
      const call = test.lists.addListValues({ name: "long", values: ["good", bad] });
      expect(await reasonOf(call), JSON.stringify(bad)).to.equal("INVALID_FIELD");
      expect(await fieldsOf(test.lists.addListValues({ name: "long", values: ["good", bad] }))).to.deep.equal([
        "values[1]",
      ]);
    }
    expect(await valuesOf("long")).to.have.length(2);
  });

  it("refuse patterns that would cover everything, or nothing.", async () => {
    for (const bad of [
      "*",
      "*.",
      "*.*",
      "a.*",
      "*a.example",
      "*.*.example",
      "*.10.0.0.1",
      "**.example",
      "*.[::1]",
      ".",
    ])
      expect(await fieldsOf(put("patterns", ListKind.HOST, [bad])), bad).to.deep.equal(["values[0]"]);
    await put("patterns", ListKind.HOST, ["*.Example.", "*.xn--bcher-kva.example", "*.bücher.example"]);
    expect(await valuesOf("patterns")).to.deep.equal(["*.example", "*.xn--bcher-kva.example"]);
  });

  it("have names that lead nowhere else.", async () => {
    for (const name of [".", "..", "...", "-", "constructor", "__proto__"]) {
      await put(name, ListKind.TEXT, [name]);
      expect(await valuesOf(name)).to.deep.equal([name]);
      await test.lists.deleteList({ name });
      expect(await reasonOf(test.lists.getList({ name })), name).to.equal("LIST_NOT_FOUND");
    }
    for (const name of ["../hosts", "%2e%2e", "hosts/", "hosts:add", "hosts\u0000", "ｈosts", "Hosts"])
      expect(await fieldsOf(test.lists.getList({ name })), name).to.deep.equal(["name"]);
    expect(await valuesOf("hosts")).to.have.length(3);
  });

  it("are supposed by a backtest beside those in force, which it leaves as they are.", async () => {
    await put("past", ListKind.TEXT, ["acme"]);
    await test.mandate([rule("past", "not_in_list")]);
    expect([await decide("past", "Acme"), await decide("past", "Initech")]).to.deep.equal(["ALLOW", "BLOCK"]);
    const seq = (await test.log.caughtUp()).seq;
    const changesWith = async (
      lists: readonly { name: string; kind: "text"; values: readonly string[] }[],
      more = {},
    ) => {
      return (await backtest(test, { lists, ...more })).changes.length;
    };
    expect(await changesWith([])).to.equal(0);
    const supposed = [{ name: "past", kind: "text" as const, values: ["INITECH"] }];
    expect(await changesWith(supposed)).to.equal(2);
    const imagined = [{ name: "imagined", kind: "text" as const, values: ["acme"] }];
    const drafted = {
      ...rule("imagined"),
      conditions: { ...rule("imagined").conditions, matchActionTypes: ["use.past"] },
    };
    const drafts = [draftOf("drafted", [drafted])];
    expect(await changesWith(imagined, { drafts })).to.equal(1);
    expect(await reasonOf(changesWith([], { drafts }))).to.equal("MANDATE_INVALID");
    expect((await test.log.caughtUp()).seq).to.equal(seq);
    expect(await valuesOf("past")).to.deep.equal(["acme"]);
  });
});
