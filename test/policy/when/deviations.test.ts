import { type CelFunc, celEnv, celList, celMap, parse, plan } from "@bufbuild/cel";
import { strings } from "@bufbuild/cel/ext";
import { expect } from "chai";
import { DEVIATIONS, NaiveWhens } from "../../../src/dryrun/naive/naive-when.ts";
import { checkPattern } from "../../../src/policy/patterns.ts";
import { compileWhen } from "../../../src/policy/when/compile-when.ts";
import { Fault } from "../../../src/policy/when/values.ts";
import { contextFrom } from "../harness.ts";

/** Arguments of each case. */
const ARGS = { none: null, list: [1, 2], text: "abc", object: { a: 1 } };

type Result = boolean | "error";

/** A function that gives another result here than in the library, with an expression that shows it. */
interface Deviation {
  /** As the list of deviations names it. */
  readonly id: string;
  readonly expression: string;
  readonly here: Result;
  readonly library: Result;
}

/** Writes a deviation that the library has no result for, and which is true here. */
const added = (id: string, expression: string): Deviation => ({ id, expression, here: true, library: "error" });
/** Writes a deviation that the library has a result for, and which is an error here. */
const refused = (id: string, expression: string): Deviation => ({ id, expression, here: "error", library: true });
/** Writes a deviation that is true here and false in the library. */
const other = (id: string, expression: string): Deviation => ({ id, expression, here: true, library: false });

const CASES: readonly Deviation[] = [
  refused("_+_(double,double)", "1e308 + 1e308 > 0.0"),
  added("_+_(int,double)", "1 + 0.5 == 1.5"),
  added("_+_(double,int)", "0.5 + 1 == 1.5"),
  refused("_-_(double,double)", "-1e308 - 1e308 < 0.0"),
  added("_-_(int,double)", "1 - 0.5 == 0.5"),
  added("_-_(double,int)", "1.5 - 1 == 0.5"),
  refused("_*_(double,double)", "1e300 * 1e300 > 0.0"),
  added("_*_(int,double)", "2 * 0.5 == 1.0"),
  added("_*_(double,int)", "0.5 * 2 == 1.0"),
  refused("_/_(double,double)", "1.0 / 0.0 > 0.0"),
  refused("_/_(double,double)", "0.0 / 0.0 != 1.0"),
  added("_/_(int,double)", "1 / 2.0 == 0.5"),
  added("_/_(double,int)", "1.0 / 2 == 0.5"),
  added("_%_(double,double)", "5.0 % 2.0 == 1.0"),
  added("_%_(int,double)", "5 % 2.0 == 1.0"),
  added("_%_(double,int)", "5.0 % 2 == 1.0"),
  refused("double(string)", 'double("NaN") != 1.0'),
  refused("double(string)", 'double("Infinity") > 1.0'),
  refused("double(string)", 'double("0x10") == 16.0'),
  refused("double(string)", 'double(" 1 ") == 1.0'),
  refused("double(string)", 'double("") == 0.0'),
  refused("int(string)", 'int("0x10") == 16'),
  refused("int(string)", 'int("") == 0'),
  refused("int(string)", 'int(" 1 ") == 1'),
  refused("int(google.protobuf.Duration)", 'int(duration("90s")) == 90'),
  refused("duration(int)", 'duration(90) == duration("90s")'),
  refused("duration(string)", 'duration("") == duration("0s")'),
  refused("duration(string)", 'duration("+") == duration("0s")'),
  other("timestamp(int)", 'timestamp(90) == timestamp("1970-01-01T00:01:30Z")'),
  refused("timestamp(string)", 'timestamp("2026-02-30T00:00:00Z") == timestamp("2026-03-02T00:00:00Z")'),
  refused("timestamp(string)", 'timestamp("2026-01-01T24:00:00Z") == timestamp("2026-01-02T00:00:00Z")'),
  other("string.charAt(int)", '"x😁y".charAt(2) == "y"'),
  added("string.charAt(double)", '"xy".charAt(1.0) == "y"'),
  other("string.indexOf(string)", '"x😁y".indexOf("y") == 2'),
  other("string.indexOf(string,int)", '"x😁y".indexOf("y", 1) == 2'),
  added("string.indexOf(string,double)", '"xy".indexOf("y", 1.0) == 1'),
  other("string.lastIndexOf(string)", '"x😁y".lastIndexOf("y") == 2'),
  other("string.lastIndexOf(string,int)", '"😁xy".lastIndexOf("y", 2) == 2'),
  added("string.lastIndexOf(string,double)", '"xy".lastIndexOf("x", 1.0) == 0'),
  other("string.substring(int)", '"x😁y".substring(2) == "y"'),
  added("string.substring(double)", '"xy".substring(1.0) == "y"'),
  other("string.substring(int,int)", '"x😁y".substring(1, 2) == "😁"'),
  added("string.substring(double,double)", '"xy".substring(0.0, 1.0) == "x"'),
  added("string.substring(int,double)", '"xy".substring(0, 1.0) == "x"'),
  added("string.substring(double,int)", '"xy".substring(0.0, 1) == "x"'),
  other("string.split(string)", '"x😁".split("") == ["x", "😁"]'),
  other("string.split(string,int)", '"a,b,c".split(",", 2) == ["a", "b,c"]'),
  added("string.split(string,double)", '"a,b,c".split(",", 2.0) == ["a", "b,c"]'),
  other("string.replace(string,string)", '"xy".replace("", "-") == "-x-y-"'),
  other("string.replace(string,string,int)", '"xy".replace("", "-", 2) == "-x-y"'),
  added("string.replace(string,string,double)", '"aaa".replace("a", "b", 2.0) == "bba"'),
  // An index that is not whole throws past `||` in the library.
  added("@index(dyn,dyn)", "args.list[0.5] == 1 || true"),
  { id: "@has(dyn,string)", expression: "has(args.text.x)", here: "error", library: false },
  // Not a function: a null member of an action's JSON is missing.
  refused("null", "args.none == null"),
  refused("null", 'args["none"] == null'),
];

describe("deviations from the library", () => {
  const env = celEnv({ funcs: strings });
  const naive = new NaiveWhens();
  const object = celMap(new Map([["a", 1]]));
  const members = new Map<string, unknown>(Object.entries(ARGS));
  const args = celMap(members.set("list", celList([1, 2])).set("object", object) as Map<string, string>);

  /** Evaluates by the library alone, with a null as it is. */
  function byLibrary(expression: string): Result {
    const { expr } = parse(expression);
    if (expr === undefined) throw new Error("an expression without a tree");
    try {
      const result = plan(env, expr)({ args });
      return typeof result === "boolean" ? result : "error";
    } catch {
      return "error";
    }
  }

  function byRules(expression: string): Result {
    const compiled = compileWhen(expression, {
      checkPattern: (pattern) => checkPattern(pattern, { ignoreCase: false }),
    });
    if (compiled.kind === "invalid") throw new Error(compiled.problems[0]?.message);
    const result = compiled.when.judge(contextFrom({ arguments: ARGS, metadata: ARGS }));
    if (result instanceof Error) throw result;
    return result instanceof Fault ? "error" : result;
  }

  for (const { id, expression, here, library } of CASES) {
    it(`show ${id}: \`${expression}\` is ${here}, and ${library} in the library.`, () => {
      expect(byRules(expression), "rules").to.equal(here);
      expect(byLibrary(expression), "library").to.equal(library);
      expect(naive.of(expression)({ args: ARGS }, 0) ?? "error", "naive evaluator").to.equal(here);
    });
  }

  it("have a case each.", () => {
    const shown = new Set(CASES.map(({ id }) => id).filter((id) => id !== "null"));
    expect([...shown].sort()).to.deep.equal([...new Set(DEVIATIONS.map(({ id }: CelFunc) => id))].sort());
  });
});
