import { expect } from "chai";
import fc from "fast-check";
import { amountFrom, DecimalTotal, millionthsFrom } from "../../src/policy/decimal.ts";
import { evaluateRule, toolFrom } from "./harness.ts";

/** A rational number with a power of ten below the line. */
interface Rational {
  readonly digits: bigint;
  readonly places: number;
}

/** The text that RFC 8785 writes for a number, exactly. */
function rationalFrom(number: number): Rational {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(number)) ?? [];
  return { digits: BigInt(`${sign}${whole}${fraction}`), places: fraction.length - Number(exponent) };
}

/** The sign of a difference, by whole numbers alone. */
function order(a: Rational, b: Rational): number {
  const places = Math.max(a.places, b.places);
  const [left, right] = [a, b].map((each) => each.digits * 10n ** BigInt(places - each.places)) as [bigint, bigint];
  return left < right ? -1 : Number(left > right);
}

/** Millionths of a number by the text that RFC 8785 writes; undefined if it has more places. */
function exactMillionths(amount: number): bigint | undefined {
  const { digits, places } = rationalFrom(amount);
  if (places <= 6) return digits * 10n ** BigInt(6 - places);
  return digits % 10n ** BigInt(places - 6) === 0n ? digits / 10n ** BigInt(places - 6) : undefined;
}

const amount = fc.oneof(
  fc.integer({ min: -999_999_999_000_000, max: 999_999_999_000_000 }).map((millionths) => millionths / 1_000_000),
  fc.integer({ min: -100_000, max: 100_000 }).map((cents) => cents / 100),
  fc.double({ noNaN: true, min: -1e300, max: 1e300 }),
  fc.double({ noNaN: true, min: -1_000, max: 1_000 }),
  fc.constantFrom(0, -0, 0.1, 0.2, 1e-6, 1e-7, 1.5e-6, 999_999_999, 999_999_999.000001, 1e9, 5e-324),
);

describe("amounts", () => {
  it("are millionths exactly where their decimal text has at most six places.", () => {
    fc.assert(
      fc.property(amount, (value) => {
        const exact = Math.abs(value) <= 999_999_999 ? exactMillionths(value) : undefined;
        const found = millionthsFrom(value);
        expect(found === undefined ? undefined : BigInt(found), String(value)).to.equal(exact);
      }),
      { numRuns: 20_000 },
    );
  });

  it("are shown as the double that is nearest to their decimal text, however large a total is.", () => {
    const digits = fc.bigInt({ min: 0n, max: 10n ** 26n });
    const small = fc.bigInt({ min: 0n, max: 2n ** 54n });
    fc.assert(
      fc.property(fc.oneof(small, digits), fc.boolean(), (millionths, isNegative) => {
        const [sign, signed] = isNegative ? ["-", -millionths] : ["", millionths];
        const places = (millionths % 1_000_000n).toString().padStart(6, "0");
        expect(amountFrom(signed)).to.equal(Number(`${sign}${millionths / 1_000_000n}.${places}`) || 0);
      }),
      { numRuns: 20_000 },
    );
  });

  it("compare in rules as their decimal texts do, however close.", () => {
    const tool = toolFrom({ type: "object", properties: { amount: { type: "number" } } });
    const holds: Readonly<Record<string, (sign: number) => boolean>> = {
      "==": (sign) => sign === 0,
      "!=": (sign) => sign !== 0,
      ">": (sign) => sign > 0,
      ">=": (sign) => sign >= 0,
      "<": (sign) => sign < 0,
      "<=": (sign) => sign <= 0,
    };
    const nextTo = fc.tuple(amount, fc.constantFrom(-1, 0, 1)).map(([value, ulps]) => {
      return [value, value + ulps * Math.abs(value) * Number.EPSILON] as const;
    });
    fc.assert(
      fc.property(
        fc.oneof(nextTo, fc.tuple(amount, amount)),
        fc.constantFrom(...Object.keys(holds)),
        (pair, operator) => {
          const [value, bound] = pair;
          const conditions = { rules: [{ field: "amount", operator, value: bound }] };
          const rule = { type: "argument", tool: "pay", decision: "block", conditions };
          const { decision } = evaluateRule(rule, tool, { amount: value });
          const expected = holds[operator]?.(order(rationalFrom(value), rationalFrom(bound)));
          expect(decision === "block", `${value} ${operator} ${bound}`).to.equal(expected);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it("add up exactly, in any order.", () => {
    fc.assert(
      fc.property(fc.array(amount, { maxLength: 200 }), (values) => {
        const exact = values.map(millionthsFrom).filter((each) => each !== undefined);
        const [there, back] = [new DecimalTotal(), new DecimalTotal()];
        for (const each of exact) there.add(each);
        for (const each of exact.toReversed()) back.add(each);
        const sum = exact.reduce((all, each) => all + BigInt(each), 0n);
        expect(BigInt(there.text.replace(".", ""))).to.equal(sum);
        expect(back.text).to.equal(there.text);
        expect(there.value).to.equal(Number(there.text));
      }),
      { numRuns: 2_000 },
    );
    const total = new DecimalTotal();
    for (const each of [0.1, 0.2]) total.add(millionthsFrom(each) ?? 0);
    expect(total.value).to.equal(0.3);
  });
});
