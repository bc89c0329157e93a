import { expect } from "chai";
import { completeWhen } from "../../src/dashboard/screens/mandates/when-completion.ts";
import { shapeOfArguments } from "../../src/notation/argument-shape.ts";
import { WHEN_CALLS } from "../../src/notation/when-names.ts";
import { compileWhen } from "../../src/policy/when/compile-when.ts";

const ARGUMENTS = [
  { path: "currency", types: ["string"], texts: ["EUR", "USD", "a b"] },
  { path: "amount", types: ["number"], description: "how much" },
  { path: "to", types: ["string", "null"] },
  { path: "ship-to", types: ["string"] },
  { path: "customer", types: ["object"] },
  { path: "customer.country", types: ["string"] },
  { path: "lines", types: ["array"] },
  { path: "lines[]", types: ["object"] },
  { path: "lines[].price", types: ["number"] },
  { path: "lines[].parts", types: ["array"] },
  { path: "lines[].parts[]", types: ["object"] },
  { path: "lines[].parts[].code", types: ["string"] },
  { path: "any", types: ["number", "string", "object"] },
];
const AROUND = { shape: shapeOfArguments(ARGUMENTS), lists: ["blocked", "known-payees"] };
const LINE = ["price", "parts"];
const TEXT_METHODS = WHEN_CALLS.filter((call) => "on" in call && call.on === "text").map(({ name }) => name);

const complete = (expression: string) => completeWhen(expression, AROUND);
const labels = (expression: string): readonly string[] => complete(expression)?.options.map(({ label }) => label) ?? [];

describe("completion of expressions", () => {
  for (const start of [
    "",
    "ag",
    "args.amount > ",
    "(",
    "!",
    "a && ",
    "fold(",
    "[1, ",
    '"x" == ',
    "x ? ",
    "-",
    "has(",
  ]) {
    it(`offers variables and functions after ${JSON.stringify(start)}.`, () => {
      expect(labels(start)).to.include.members(["args", "metadata", "now", "action.type", "agent.trust", "sum", "has"]);
      expect(labels(start)).not.to.include.members(["trim", "all", "dyn"]);
      expect(complete(start)?.typed).to.equal(start === "ag" ? "ag" : "");
    });
  }

  it("offers each variable and function, with its help, that compiles as it is offered.", () => {
    const options = complete("")?.options ?? [];
    for (const { label, help, takes, kind } of options) {
      const call = takes === undefined ? label : `${label}(${takes.map(() => "args.to").join(", ")})`;
      const shown = label === "has" ? "has(args.to)" : label === "in_list" ? 'in_list(args.to, "blocked")' : call;
      const tools = {
        checkPattern: () => ({ kind: "invalid", message: "is wrong" }) as const,
        findList: () => () => true,
      };
      expect(compileWhen(`${shown} == 1`, tools).kind, shown).to.equal("compiled");
      if (kind !== "word") expect(help, label).to.match(/\w/);
    }
    expect(options.map(({ label }) => label)).to.include("in_list");
    const sum = options.find(({ label }) => label === "sum");
    expect(sum).to.include({ kind: "function", detail: "(list) → number" });
    expect(sum?.help).to.match(/^sum\(list\) → number\n.*exact/);
  });

  it("offers the members of the tool's schema, with their types and descriptions.", () => {
    const members = ["currency", "amount", "to", "customer", "lines", "any"];
    expect(labels("args.").slice(0, 6)).to.deep.equal(members);
    expect(labels("args.am")).to.deep.equal(labels("args."));
    expect(complete("x || args.am")?.typed).to.equal("am");
    expect(complete("args.")?.options[1]).to.deep.equal({
      label: "amount",
      kind: "member",
      detail: "number",
      help: "how much",
    });
    expect(labels("args.customer.")[0]).to.equal("country");
    expect(labels('args["customer"].')[0]).to.equal("country");
    expect(labels("args.lines[0].").slice(0, 2)).to.deep.equal(LINE);
    expect(labels("(args.customer).")[0]).to.equal("country");
    expect(labels('args["')).to.deep.equal(["currency", "amount", "to", "ship-to", "customer", "lines", "any"]);
    expect(complete("args['shi")?.typed).to.equal("shi");
    expect(completeWhen("args.", { shape: undefined, lists: [] })?.options.map(({ label }) => label)).to.deep.equal([
      "size",
    ]);
  });

  it("follows macros, also within each other.", () => {
    expect(labels("args.lines.all(l, l.").slice(0, 2)).to.deep.equal(LINE);
    expect(labels("args.lines.all(l, ")[0]).to.equal("l");
    expect(labels("args.lines.all(l, l.price > 5 && l.pr").slice(0, 2)).to.deep.equal(LINE);
    expect(labels("args.lines.filter(x, x.price > 1).exists(y, y.").slice(0, 2)).to.deep.equal(LINE);
    expect(labels("args.lines.all(l, l.parts.exists(p, p.")[0]).to.equal("code");
    expect(labels("args.lines.all(l, l.parts.exists(p, ").slice(0, 2)).to.deep.equal(["p", "l"]);
    expect(labels("args.lines.map(l, l.parts).all(p, p[0].")[0]).to.equal("code");
    expect(labels("sum(args.lines.map(l, l.").slice(0, 2)).to.deep.equal(LINE);
    expect(labels("args.lines.all(")).to.deep.equal([]);
    expect(labels("args.lines.all(l")).to.deep.equal([]);
    expect(labels("args.lines.all(l, l.price > 1) && ")).not.to.include("l");
    expect(labels("args.lines.all(now, now.").slice(0, 2)).to.deep.equal(LINE);
  });

  it("offers what fits the kind of a value.", () => {
    expect(labels("args.to.")).to.have.members([...TEXT_METHODS, "size"]);
    expect(labels('"a b".')).to.have.members([...TEXT_METHODS, "size"]);
    expect(labels("args.to.trim().")).to.have.members([...TEXT_METHODS, "size"]);
    expect(labels("args.lines.")).to.have.members(["all", "exists", "exists_one", "filter", "map", "join", "size"]);
    expect(labels("now.")).to.include("getHours").and.not.include("trim");
    expect(labels("date(args.to).")).to.include("getHours").and.not.include("trim");
    expect(labels("agent.")).to.deep.equal(["id", "name", "trust", "departments", "framework"]);
    expect(labels("agent.departments.")).to.include("exists").and.not.include("trim");
    expect(labels("args.amount.")).to.deep.equal([]);
    expect(labels("args.any.")).to.include.members(["trim", "getHours", "all"]);
    expect(labels("metadata.x.")).to.include.members(["trim", "all"]);
    expect(complete("args.lines.")?.options[0]).to.include({ label: "all", kind: "macro" });
    expect(complete("args.lines.")?.options[0]?.takes).to.deep.equal(["x", "condition"]);
  });

  it("offers the names of lists, zones, the values that a schema lists, and nothing in other texts.", () => {
    expect(labels('in_list(args.to, "')).to.deep.equal(["blocked", "known-payees"]);
    expect(labels("!in_list(fold(args.to), 'known-p")).to.deep.equal(["blocked", "known-payees"]);
    expect(complete("in_list(args.to, 'known-p")?.typed).to.equal("known-p");
    expect(labels('in_list("')).to.deep.equal([]);
    expect(labels('now.getHours("')).to.include("Europe/Berlin");
    const currencies = ["EUR", "USD", "a b"];
    for (const text of [
      'args.currency == "',
      "args.currency != 'U",
      'args.currency in ["',
      '!(args["currency"] in ["EUR", "',
    ]) {
      expect(labels(text), text).to.deep.equal(currencies);
    }
    expect(complete('args.currency == "a ')?.typed).to.equal("a ");
    for (const text of [
      'args.currency == "EUR" && "',
      'args.currency + "',
      'args.currency == fold("',
      'args.currency == "EUR" "',
    ]) {
      expect(labels(text), text).to.deep.equal([]);
    }
    for (const text of ['args.to == "', '"args.', "'a' + 'args.", '"""x " args.', "r'args.", '["a', 'x["a" "']) {
      expect(labels(text), text).to.deep.equal([]);
    }
  });

  it("offers nothing in a comment or a number, and `in` after a value.", () => {
    expect(labels("args.to // args.")).to.deep.equal([]);
    expect(labels("args.to // x\n && args.")).to.include("amount");
    expect(labels("5")).to.deep.equal([]);
    expect(labels("args.to ")).to.deep.equal(["in"]);
    expect(labels("args.to i")).to.deep.equal(["in"]);
    expect(labels("args.to in ")).to.include("args");
  });

  it("comes to an end on any text.", () => {
    const pieces = [...".(){}[],\"'\\\n?:!&|=<>+-*/% r", "args", "all", "x", "1", "in_list", "//", '"""'];
    let seed = 7;
    for (let count = 0; count < 3_000; count++) {
      let text = "";
      for (let length = 0; length < 12; length++) {
        seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
        text += pieces[seed % pieces.length];
      }
      const found = complete(text);
      if (found !== undefined) expect(text.endsWith(found.typed), text).to.equal(true);
    }
    expect(labels("(".repeat(5_000))).to.include("args");
  });
});
