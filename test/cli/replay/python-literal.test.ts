import { readFileSync } from "node:fs";
import { expect } from "chai";
import { jsonFromPython, PythonLiteralError } from "../../../src/cli/replay/python-literal.ts";

interface Case {
  readonly given: string;
  readonly want?: unknown;
  /** Part of the message of the error. */
  readonly fault?: string;
}

const FILE = new URL("../../testdata/replay/python-literals.json", import.meta.url);
const CASES = JSON.parse(readFileSync(FILE, "utf8")) as readonly Case[];

const faultOf = (text: string): PythonLiteralError | undefined => {
  try {
    jsonFromPython(text);
    return undefined;
  } catch (error) {
    if (error instanceof PythonLiteralError) return error;
    throw error;
  }
};

describe("a Python literal", () => {
  for (const { given, want, fault } of CASES) {
    it(fault === undefined ? `is read: ${JSON.stringify(given)}.` : `is refused: ${JSON.stringify(given)}.`, () => {
      if (fault === undefined) expect(jsonFromPython(given)).to.deep.equal(want);
      else expect(faultOf(given)?.message).to.include(fault);
    });
  }

  it("tells the character at which it is wrong.", () => {
    expect(faultOf("{'a': [1, two]}")?.position).to.equal(10);
  });

  it("keeps a member named `__proto__` as a member.", () => {
    const value = jsonFromPython("{'__proto__': {'admin': True}}");
    expect(Object.keys(value as object)).to.deep.equal(["__proto__"]);
    expect((value as { admin?: unknown }).admin).to.equal(undefined);
  });

  it("is refused when it is nested too deeply, whatever the brackets.", () => {
    for (const open of ["[", "(", "{1: ", "f(", "<A.B: "]) {
      expect(faultOf(open.repeat(100_000))?.message, open).to.include("60 levels deep");
    }
  });

  it("is refused in time proportional to its length when it is hostile.", () => {
    const started = performance.now();
    expect(faultOf(`[${"1,".repeat(2_000_000)}`)?.message).to.include("more than 200000 values");
    expect(faultOf(`[${"#\n".repeat(2_000_000)}`)?.message).to.include("ends before a value");
    expect(faultOf(`'${"\\'".repeat(2_000_000)}`)?.message).to.include("without an end");
    expect(faultOf("-".repeat(4_000_000))?.message).to.include("expects a number");
    expect(faultOf(`0x${"f".repeat(4_000_000)}`)?.message).to.include("no such number");
    expect(faultOf("'' ".repeat(1_000_000))).to.equal(undefined);
    expect(faultOf("x".repeat(4_194_305))?.message).to.include("more than 4194304 characters");
    expect(jsonFromPython("9".repeat(4_000_000))).to.have.length(4_000_000);
    expect(performance.now() - started).to.be.below(10_000);
  });
});
