import { create, type JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { EscalationSchema } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import {
  amountOf,
  firedArguments,
  leadingArgument,
  valueText,
} from "../../src/dashboard/screens/escalations/fired-argument.ts";

interface Case {
  readonly description: string;
  readonly args?: JsonObject;
  readonly metadata?: JsonObject;
  readonly fired?: readonly string[];
  /** Path and text of the leading argument. */
  readonly leading: readonly [string, string] | undefined;
  readonly amount?: number;
}

const LINES = [{ amount: 5 }, { amount: 900 }, { amount: 7 }, { amount: 8 }];

const CASES: readonly Case[] = [
  {
    description: "an amount that fired",
    args: { to: "A", amount: 9 },
    fired: ["amount"],
    leading: ["amount", "9"],
    amount: 9,
  },
  {
    description: "an amount in the currency beside it",
    args: { amount: 9_800, currency: "EUR" },
    fired: ["amount"],
    leading: ["amount", "€9,800.00"],
    amount: 9_800,
  },
  {
    description: "an amount with a currency of its own",
    args: { fee: 3, fee_currency: "JPY", currency: "EUR" },
    fired: ["fee"],
    leading: ["fee", "¥3"],
    amount: 3,
  },
  {
    description: "an amount in a currency without a sign",
    args: { amount: 2_344.5, currency: "chf" },
    fired: ["amount"],
    leading: ["amount", "CHF 2,344.50"],
    amount: 2_344.5,
  },
  {
    description: "a count beside an amount, which is not money",
    args: { amount: 9, items: 4, currency: "EUR" },
    fired: ["items"],
    leading: ["items", "4"],
    amount: 9,
  },
  { description: "no currency at all", args: { amount: 9, currency: "<b>" }, leading: ["amount", "9"], amount: 9 },
  {
    description: "a member of a member",
    args: { to: { mail: "a@b" } },
    fired: ["to.mail"],
    leading: ["to.mail", "a@b"],
  },
  { description: "a quoted member", args: { "a.b": "x" }, fired: ['["a.b"]'], leading: ['["a.b"]', "x"] },
  {
    description: "elements of a list",
    args: { lines: LINES, currency: "EUR" },
    fired: ["lines[].amount"],
    leading: ["lines[].amount", "5, 900, 7 and 1 more"],
    amount: 900,
  },
  { description: "one element", args: { to: ["a@b"] }, fired: ["to[]"], leading: ["to[]", "a@b"] },
  { description: "an argument that is not sent", args: { a: 1 }, fired: ["to"], leading: ["to", "not sent"] },
  { description: "an inherited member", args: { a: 1 }, fired: ["constructor"], leading: ["constructor", "not sent"] },
  {
    description: "a key of the metadata",
    args: {},
    metadata: { zone: "eu" },
    fired: ["zone"],
    leading: ["zone", "eu"],
  },
  {
    description: "the largest amount, when nothing fired",
    args: { to: "A", payment: { amount: 5, currency: "EUR" }, total: 7 },
    leading: ["total", "7"],
    amount: 7,
  },
  {
    description: "an amount with every digit that is sent",
    args: { amount: 150.125, currency: "EUR" },
    fired: ["amount"],
    leading: ["amount", "€150.125"],
    amount: 150.125,
  },
  {
    description: "an amount that binary fractions do not hold, without digits that nobody sent",
    args: { amount: 1_234_567.1, currency: "usd" },
    fired: ["amount"],
    leading: ["amount", "$1,234,567.10"],
    amount: 1_234_567.1,
  },
  { description: "the first argument, without an amount", args: { path: "/etc", mode: 7 }, leading: ["path", "/etc"] },
  { description: "an object in one line", args: { to: { a: 1 } }, leading: ["to", '{"a":1}'] },
  { description: "nothing without arguments", leading: undefined },
  { description: "a path that cannot be read", args: { a: 1 }, fired: ["]["], leading: ["][", "not sent"] },
];

describe("the argument that fired", () => {
  for (const { description, args, metadata, fired = [], leading, amount } of CASES) {
    it(`is ${description}.`, () => {
      const escalation = create(EscalationSchema, {
        ...(args !== undefined && { arguments: args }),
        ...(metadata !== undefined && { metadata }),
        reasons: fired.map((argument) => ({ argument })),
      });
      const found = leadingArgument(escalation);
      expect(found && [found.path, valueText(found)]).to.deep.equal(leading);
      expect(amountOf(escalation)).to.equal(amount);
    });
  }

  it("is each named one once, in the order of the reasons.", () => {
    const reasons = ["to", "amount", "to"].map((argument) => ({ argument }));
    const escalation = create(EscalationSchema, { arguments: { amount: 5, to: "A" }, reasons });
    expect(firedArguments(escalation)).to.deep.equal([
      { path: "to", value: "A", currency: undefined },
      { path: "amount", value: 5, currency: undefined },
    ]);
  });

  it("is found in arguments of a megabyte and of any depth.", () => {
    let deep: JsonObject = { amount: 1 };
    for (let level = 0; level < 5_000; level++) deep = { deep };
    const wide = Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`n${index}`, index]));
    const escalation = create(EscalationSchema, {
      arguments: { deep, wide, list: new Array(900).fill({ amount: 2 }) },
    });
    expect(amountOf(escalation)).to.equal(2);
  });
});
