import { expect } from "chai";
import fc from "fast-check";
import { canonicalJson, digestOf, type JsonValue } from "../../src/tree/canonical.ts";

describe("canonicalJson", () => {
  it("gives the published example of RFC 8785 §3.2.4", () => {
    const value = {
      numbers: [333333333.3333333, 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
      string: "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"/",
      literals: [null, true, false],
    };
    const text =
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}';
    expect(canonicalJson(value)).to.equal(text);
  });

  it("orders members by UTF-16 code units, as RFC 8785 §3.2.3 shows", () => {
    const names = ["\u20ac", "\r", "\ufb33", "1", "\ud83d\ude00", "\u0080", "\u00f6"];
    const value = Object.fromEntries(names.map((name, index) => [name, index]));
    const order = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\ud83d\ude00", "\ufb33"];
    expect(Object.keys(JSON.parse(canonicalJson(value)) as object).sort()).to.have.members(order);
    expect([...canonicalJson(value).matchAll(/:(\d)/g)].map(([, index]) => names[Number(index)])).to.deep.equal(order);
  });

  it("orders members that a JavaScript object puts elsewhere: array indexes and its prototype's name", () => {
    const value = JSON.parse('{"z":{"b":1,"a":2},"9":0,"__proto__":{"x":1},"10":[{"2":1,"!":2}],"":3}') as JsonValue;
    const text = '{"":3,"10":[{"!":2,"2":1}],"9":0,"__proto__":{"x":1},"z":{"a":2,"b":1}}';
    expect(canonicalJson(value)).to.equal(text);
    expect(canonicalJson([value])).to.equal(`[${text}]`);
  });

  it("leaves members without a value out and writes minus zero as zero", () => {
    expect(canonicalJson({ b: undefined, a: -0 })).to.equal('{"a":0}');
  });

  it("refuses what I-JSON cannot hold", () => {
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, "\ud800", { "\udc00": 1 }] as JsonValue[]) {
      expect(() => canonicalJson(value)).to.throw(TypeError);
    }
  });

  it("does not depend on the order in which members were written, and keeps the value", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: "grapheme" }), fc.jsonValue()), (object) => {
        const reversed = Object.fromEntries(Object.entries(object).reverse());
        const text = canonicalJson(object as JsonValue);
        expect(text).to.equal(canonicalJson(reversed as JsonValue));
        expect(JSON.parse(text)).to.deep.equal(JSON.parse(JSON.stringify(object)));
        expect(digestOf(object as JsonValue)).to.match(/^[0-9a-f]{64}$/);
      }),
    );
  });
});
