import { create, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import { expect } from "chai";
import { EarlierAnswersSchema, UsualNumberSchema } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import {
  argumentRows,
  argumentsLine,
  comparedPath,
  isWithin,
  objectsIn,
} from "../../src/dashboard/screens/escalations/argument-rows.ts";
import { answersOfListText, answersText, usualText } from "../../src/dashboard/screens/escalations/past-text.ts";

const spread = (count: number, minimum: number, maximum: number, percentile95 = maximum) => ({
  count,
  minimum,
  median: minimum,
  percentile95,
  maximum,
});

describe("the sentence about an agent's usual numbers", () => {
  const CASES: readonly {
    readonly usual: MessageInitShape<typeof UsualNumberSchema>;
    readonly from?: number;
    readonly text: string;
    readonly isUnusual?: boolean;
  }[] = [
    {
      usual: { value: 800, currency: "EUR", ...spread(212, 20, 200, 180) },
      text: "usually 20 to 180 EUR; this is 4 × the largest of 212",
      isUnusual: true,
    },
    {
      usual: { value: 210, ...spread(3, 20, 200) },
      text: "usually 20 to 200; this is more than each of 3",
      isUnusual: true,
    },
    { usual: { value: 190, ...spread(40, 20, 200, 180) }, text: "usually 20 to 180; this is among the largest of 40" },
    { usual: { value: 100, ...spread(3, 20, 200) }, text: "usually 20 to 200, 3 times" },
    { usual: { value: 1, ...spread(3, 20, 200) }, text: "usually 20 to 200; this is less than each of 3" },
    { usual: { value: 5, ...spread(2, 5, 5) }, text: "usually 5, 2 times" },
    { usual: { value: 5, ...spread(1, 5, 5) }, text: "once before, 5" },
    { usual: { value: 15, ...spread(1, 5, 5) }, text: "once before, 5; this is 3 × as much", isUnusual: true },
    { usual: { value: 1, ...spread(2, -5, 0) }, text: "usually -5 to 0; this is more than each of 2", isUnusual: true },
    {
      usual: { value: 2_000_000, ...spread(2, 1, 1_000) },
      text: "usually 1 to 1,000; this is 2,000 × the largest of 2",
      isUnusual: true,
    },
    { usual: { value: 5 }, from: 0, text: "its first in 90 days: nothing to compare with" },
    { usual: { value: 5 }, from: 1, text: "not sent in its one allowed action" },
    { usual: { value: 5, currency: "JPY" }, from: 12, text: "not in JPY sent in its last 12 allowed actions" },
  ];
  for (const { usual, from = 9, text, isUnusual = false } of CASES) {
    it(`is: ${text}`, () => {
      expect(usualText(create(UsualNumberSchema, usual), from)).to.deep.equal({ text, isUnusual });
    });
  }
});

describe("the sentence about earlier answers", () => {
  const answers = (init: MessageInitShape<typeof EarlierAnswersSchema>) => create(EarlierAnswersSchema, init);

  it("tells how often each was given, and that a text was never rejected or approved.", () => {
    expect(answersText(answers({ approved: 3 }))).to.deep.equal(["approved 3 times", "never rejected"]);
    expect(answersText(answers({ rejected: 1 }))).to.deep.equal(["rejected once", "never approved"]);
    expect(answersText(answers({ approved: 1, rejected: 2 }))).to.deep.equal(["approved once", "rejected twice"]);
    expect(answersText(answers({ edited: 1, expired: 2 }))).to.deep.equal(["changed once", "not answered twice"]);
    expect(answersText(answers({}))).to.deep.equal([]);
  });

  it("sums up the texts of a list.", () => {
    const none = answers({});
    expect(answersOfListText([none, none])).to.equal("no earlier answer for the 2");
    expect(answersOfListText([answers({ approved: 2 }), none])).to.equal("1 of 2 approved before; none rejected");
    expect(answersOfListText([answers({ rejected: 2 }), none])).to.equal("0 of 2 approved before; 1 of 2 rejected");
  });
});

describe("the rows of arguments", () => {
  const pathsOf = (args: JsonObject) => argumentRows(args).map(({ path }) => path);

  it("are one for each member of a small object, and one for a large or deep one.", () => {
    expect(pathsOf({ a: 1, b: { c: 2, d: { e: 3 } }, f: {}, g: [{ h: 1 }] })).to.deep.equal([
      "a",
      "b.c",
      "b.d.e",
      "f",
      "g",
    ]);
    const large = Object.fromEntries(Array.from({ length: 13 }, (_, at) => [`n${at}`, at]));
    expect(pathsOf({ large })).to.deep.equal(["large"]);
    expect(pathsOf({ a: { b: { c: { d: { e: 1 } } } } })).to.deep.equal(["a.b.c.d"]);
    const steps = ["x.y", "z"];
    expect(argumentRows({ "x.y": { z: 1 } })).to.deep.equal([{ path: '["x.y"].z', name: "x.y.z", steps, value: 1 }]);
  });

  it("are compared where the service compares them.", () => {
    expect(comparedPath({ path: "a", value: 1 })).to.equal("a");
    expect(comparedPath({ path: "a", value: "x" })).to.equal("a");
    expect(comparedPath({ path: "a", value: ["x"] })).to.equal("a[]");
    for (const value of [" ", "x".repeat(513), true, null, {}, [], [{}]])
      expect(comparedPath({ path: "a", value })).to.equal(undefined);
  });

  it("hold what a path reaches below them.", () => {
    expect(isWithin("a", "a")).to.equal(true);
    expect(isWithin("a.b", "a")).to.equal(true);
    expect(isWithin("a[].b", "a")).to.equal(true);
    expect(isWithin("ab", "a")).to.equal(false);
    expect(objectsIn([{ a: 1 }, {}])).to.have.length(2);
    for (const value of [[], [1], [{}, 1], {}, "x"]) expect(objectsIn(value)).to.equal(undefined);
  });

  it("are written in one line, long values cut.", () => {
    expect(argumentsLine({ to: "ACME\nGmbH", amount: 20, bank: { fee: 1 } })).to.equal(
      "to: ACME GmbH, amount: 20, bank.fee: 1",
    );
    expect(argumentsLine({ list: [{ a: 1 }, { a: 2 }], tags: ["x", "y"], ok: true })).to.equal(
      'list: 2 items, tags: ["x","y"], ok: true',
    );
    expect(argumentsLine({ long: "x".repeat(1_000_000) }).length).to.be.below(100);
    const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`name${at}`, at]));
    expect(argumentsLine(many).length).to.be.below(500);
  });
});
