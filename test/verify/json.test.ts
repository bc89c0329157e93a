import { expect } from "chai";
import { canonicalJson } from "../../src/tree/canonical.ts";
import { bytesFromBase64 } from "../../src/verify/bytes.ts";
import { canonicalText, parseCanonicalObject, valueAt } from "../../src/verify/json.ts";

describe("the verifier's JSON", () => {
  it("is written as the log writes it.", () => {
    const value = { b: [1e21, 0.1, -0, "\u2028\u0007é\ud83d\ude00"], a: { "\ud83d\ude00": 1, "\ufb01": 2, "": null } };
    expect(canonicalText(value)).to.equal(canonicalJson(value));
    expect(parseCanonicalObject(canonicalText(value))).to.deep.equal({ ...value, b: [1e21, 0.1, 0, value.b[3]] });
  });

  it("is read in its canonical form alone, and objects alone.", () => {
    const others = [
      '{"a":1,"a":1}',
      '{"b":1,"a":1}',
      '{"a":"\\ud800"}',
      '{"a":1.0}',
      '{"a":1} ',
      "[]",
      "1",
      "",
      "[".repeat(100_000),
    ];
    for (const text of others) expect(parseCanonicalObject(text), text.slice(0, 20)).to.equal(undefined);
  });

  it("is looked into by own members alone.", () => {
    expect(valueAt({ a: { b: 1 } }, "a.b")).to.equal(1);
    for (const path of ["constructor", "a.b.c", "a.toString", "a.length", "c"]) {
      expect(valueAt({ a: [1] }, path), path).to.equal(undefined);
    }
  });
});

describe("the verifier's base64", () => {
  it("is standard base64 in its one spelling.", () => {
    expect(bytesFromBase64("AAE=")).to.deep.equal(Uint8Array.of(0, 1));
    expect(bytesFromBase64("AAE=", 3)).to.equal(undefined);
    for (const text of ["AAE", "AAF=", " AAE=", "AA E=", "AAE=\n", "-_8=", "A", 1, null, undefined]) {
      expect(bytesFromBase64(text), String(text)).to.equal(undefined);
    }
  });
});
