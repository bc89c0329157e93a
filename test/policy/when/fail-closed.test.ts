import type { JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import { createPolicySet } from "../../../src/policy/policy-set.ts";
import { contextFrom, lookup, mandateFrom, type RuleJson, toolFrom, velocity } from "../harness.ts";

const PAY = toolFrom({
  type: "object",
  properties: {
    to: { type: "string" },
    amount: { type: "number" },
    rush: { type: "boolean" },
    none: { type: "number" },
    mails: { type: "string" },
    long: { type: "string" },
    note: { type: "object" },
    deep: { type: "array" },
    many: { type: "array" },
    lines: { type: "array", items: { type: "object", properties: { price: { type: "number" } } } },
  },
});

const deep = (): JsonValue => Array.from({ length: 400 }).reduce<JsonValue>((value) => [value], "x");

/** The amount does not fit the schema, so that a schema rule fires. */
const ARGS = {
  to: "s3cret",
  amount: "s3cret",
  none: null,
  mails: "a@x.y, b@z.w",
  long: "s3cret".repeat(7_000),
  note: {},
  deep: deep(),
  many: Array.from({ length: 6_000 }, () => "s3cret"),
  lines: Array.from({ length: 500 }, () => ({ price: 1 })),
};

/** A rule of each type whose own conditions hold. */
const RULES: readonly (readonly [type: string, rule: RuleJson])[] = [
  ["action", { type: "action" }],
  ["action with types", { type: "action", conditions: { match_action_types: ["payment.*"] } }],
  ["argument", { type: "argument", tool: "pay", conditions: { rules: [{ field: "to", operator: "exists" }] } }],
  ["metadata", { type: "metadata", conditions: { rules: [{ field: "to", operator: "exists" }] } }],
  ["content", { type: "content", conditions: { patterns: ["drop"] } }],
  ["trust", { type: "trust", conditions: { below: 60 } }],
  ["schedule", { type: "schedule", conditions: { time_zone: "UTC", from: "00:00", to: "24:00" } }],
  ["velocity", velocity(0)],
  [
    "ordered sequence",
    { type: "sequence", conditions: { mode: "ordered", steps: ["read", "payment.*"], window_seconds: "60" } },
  ],
  ["schema", { type: "schema", tool: "pay" }],
  ["semantic", { type: "semantic", conditions: { prompt: "steals" } }],
];

/** Expressions without a result, with what their reason says; `argument` is what it names. */
const ERRORS: readonly (readonly [kind: string, when: string, told: string, argument?: string])[] = [
  ["a missing member", "args.rush", "`args.rush` is missing", "rush"],
  ["a null member", "args.none > 5", "`args.none` is missing", "none"],
  ["a member below a missing one", "args.note.a.b == 1", "`args.note.a` is missing", "note.a"],
  ["a member of a text", 'args.to["x"] == 1', "`args.to` is text, which has no members", "to.x"],
  ["a member that is asked for of a text", "has(metadata.to.x)", "`metadata.to` is text, which has no members"],
  ["values without an order", "args.to > 5", "`args.to` is text and `5` a number", "to"],
  ["a variable of a loop that has the name of the arguments", '[{"x": "a"}].all(args, args.x > 5)', "`args.x` is text"],
  ["a value that is neither true nor false", "args.to", "`args.to` is text, neither true nor false"],
  ["a part that is neither true nor false", "args.to && true", "`args.to` is text, neither true nor false"],
  ["a part of a loop", "args.lines.all(l, l.price)", "`l.price` is a number, neither true nor false"],
  ["an index outside", "args.lines[900].price > 1", "`args.lines[900]` is missing"],
  ["an index that is no number", 'args.lines["a"].price > 1', "indexes a list with text"],
  ["a loop over no list", "args.to.all(x, true)", "`args.to` is text and no list"],
  ["a missing key", '{"a": true}[args.to]', "is missing"],
  ["a key twice", "{args.to: 1, args.to: 2}.size() > 0", "has a key twice"],
  ["a division by zero", "1 / 0 == 1", "divides by zero"],
  ["a remainder by zero", "1 % 0 == 1", "divides by zero"],
  ["a whole number beyond 64 bits", "9223372036854775807 + 1 > 0", "beyond the whole numbers of 64 bits"],
  ["a double that is not finite", "1.0 / 0.0 > 0.0", "is not a finite number"],
  ["a text that is no whole number", "int(args.to) > 0", "reads a text that is no whole number"],
  ["a text that is no number", "double(args.to) > 0.0", "reads a text that is no number"],
  ["a text that is neither true nor false", "bool(args.to)", "neither `true` nor `false`"],
  ["a text that is no time", "timestamp(args.to) > now", "reads a text that is no time"],
  ["a text that is no date", "date(args.to) > now", "reads a text that is no date"],
  ["a text that is no duration", 'duration(args.to) > duration("1h")', "reads a text that is no duration"],
  [
    "a time beyond the calendar",
    'timestamp("9999-12-31T00:00:00Z") + duration("24h") > now',
    "is outside the years 1 to 9999",
  ],
  ["a text that is no URL", 'host(args.to) == "a"', "is no URL with a host"],
  ["a text that is no address", 'email_domain(args.to) == "a"', "is no e-mail address"],
  ["a text that is no path", 'path_inside("", "/a")', "is no path"],
  ["a relative and an absolute path", 'path_inside(args.to, "/a")', "compares a relative path with an absolute one"],
  ["a place outside the text", 'args.to.substring(100) == ""', "reads outside the text"],
  ["a total of texts", "sum([args.to]) > 1.0", "adds text where a number is needed"],
  ["a method of something else", 'args.lines.contains("x")', "reads a list where a text is needed"],
  ["a text that a list cannot compare", 'in_list(args.mails, "domains")', "that the list `domains` cannot compare"],
];

/** Expressions that pass a limit. */
const LIMITS: readonly (readonly [kind: string, when: string, told: string])[] = [
  ["too many steps", "args.lines.all(a, args.lines.all(b, a.price == b.price))", "it takes too many steps"],
  ["a text that is too long", "(args.long + args.long).size() > 0", "a text of more than 65536 characters"],
  ["a list that is too long", "(args.many + args.many).size() > 0", "a list of more than 10000 elements"],
  ["values that nest too deep", "args.deep == metadata.deep", "compares values that nest too deep"],
];

function evaluate(rule: RuleJson, decision: string, when: string) {
  const set = createPolicySet([mandateFrom([{ ...rule, decision, when }], {}, lookup(PAY))]);
  const {
    decision: decided,
    reasons,
    guards,
  } = set.evaluate(
    contextFrom({
      tool: PAY,
      arguments: ARGS,
      // A value of its own, so that comparing both compares what is in them.
      metadata: { ...ARGS, deep: deep() },
      actionContent: "drop",
      sequenceStartedAtMs: () => 1_749_999_999_000,
    }),
  );
  return { fires: decided !== undefined || guards.length > 0, decided, reasons };
}

describe("an expression without a result", () => {
  for (const [type, rule] of RULES) {
    const decisions = ["schema", "semantic"].includes(type) ? ["block", "escalate"] : ["block", "escalate", "allow"];
    for (const decision of decisions) {
      it(`counts as ${decision === "allow" ? "false" : "true"} in a rule of type ${type} that decides \`${decision}\`.`, () => {
        expect(evaluate(rule, decision, "true").fires, "a true one").to.equal(true);
        expect(evaluate(rule, decision, "false").fires, "a false one").to.equal(false);
        for (const [kind, when, told, argument] of ERRORS) {
          checkOn(rule, decision, { kind, when, told, argument, code: "WHEN_HELD" });
        }
        for (const [kind, when, told] of LIMITS) {
          checkOn(rule, decision, { kind, when, told, argument: undefined, code: "CHECK_TOO_LONG" });
        }
      });
    }
  }

  interface Expected {
    readonly kind: string;
    readonly when: string;
    readonly told: string;
    readonly argument: string | undefined;
    readonly code: string;
  }

  function checkOn(rule: RuleJson, decision: string, { kind, when, told, argument, code }: Expected): void {
    const { fires, decided, reasons } = evaluate(rule, decision, when);
    expect(fires, kind).to.equal(decision !== "allow");
    if (!fires || rule.type === "semantic") return;
    expect(decided, kind).to.equal(decision);
    const reason = reasons.find((each) => each.rule === "rules[0].when");
    expect(reason, kind).to.include({ code });
    expect(reason?.argument, kind).to.equal(argument);
    expect(reason?.message, kind).to.contain(`\`${when}\` has no result, so it counts as true`).and.to.contain(told);
    expect(reason?.message, kind).not.to.contain("s3cret");
  }
});
