import { createHash } from "node:crypto";
import { expect } from "chai";
import fc from "fast-check";
import type { Work } from "../../src/async/work.ts";
import { naiveListed } from "../../src/dryrun/naive/naive-lists.ts";
import { type ListKind, readListValue } from "../../src/policy/lists/kinds.ts";
import {
  difference,
  digestOfValues,
  type SortedValues,
  sortedValues,
  union,
} from "../../src/policy/lists/named-list.ts";
import { UsedLists } from "../../src/policy/lists/used-lists.ts";
import { fold } from "../../src/text/fold.ts";
import { canonicalJson } from "../../src/tree/canonical.ts";
import { evaluateRule, listFrom, lookup, ruleFrom, rulesCompiled, testdata, toolFrom } from "./harness.ts";

interface ValueCase {
  readonly given: string;
  readonly form?: string;
  readonly fault?: string;
}

interface LookupCase {
  readonly kind: ListKind;
  readonly values: readonly string[];
  readonly listed: readonly string[];
  readonly not_listed: readonly string[];
  readonly unreadable: readonly string[];
}

function done<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

const lookups = testdata<readonly LookupCase[]>("list-lookups");

describe("named lists", () => {
  for (const [kind, cases] of Object.entries(testdata<Record<ListKind, readonly ValueCase[]>>("list-values"))) {
    for (const { given, form, fault = "" } of cases) {
      it(`of kind ${kind} ${form === undefined ? "refuse" : "take"} ${JSON.stringify(given)}.`, () => {
        const read = readListValue(kind as ListKind, given);
        if (read.kind === "value") expect(read.form).to.equal(form);
        else expect([form, read.fault.includes(fault)]).to.deep.equal([undefined, true]);
      });
    }

    it(`of kind ${kind} keep the form of a value that is in this form already.`, () => {
      for (const { form } of cases) {
        if (form !== undefined) expect(readListValue(kind as ListKind, form)).to.deep.equal({ kind: "value", form });
      }
    });
  }

  it("refuse values of more than 256 characters, as given or in the form in which they compare.", () => {
    for (const text of ["x".repeat(257), "ﷺ".repeat(20), `${"a.".repeat(127)}com`]) {
      expect(readListValue("text", text).kind === "fault" || text.length <= 256, text).to.equal(true);
    }
    expect(readListValue("host", `${"a.".repeat(127)}com`).kind).to.equal("fault");
  });

  for (const { kind, values, ...expected } of lookups) {
    const list = listFrom("some", kind, values);
    for (const [want, texts] of Object.entries(expected)) {
      for (const text of texts) {
        it(`of kind ${kind} say ${want} for ${JSON.stringify(text)}, as the naive form does.`, () => {
          expect(list.lookUp(text, fold(text))).to.equal(want);
          expect(naiveListed(list, text)).to.equal(want === "unreadable" ? undefined : want === "listed");
        });
      }
    }
  }

  it("agree with the naive form on any text.", () => {
    const parts = [...' .@:/\\<>,;[]*%"a1é\u200b\u00adß．', "xn--", "example.com", "http://", "https:", "10.0.0.1"];
    const text = fc.array(fc.constantFrom(...parts), { maxLength: 8 }).map((all) => all.join(""));
    for (const kind of ["text", "host", "email_domain"] as const) {
      const values = ["a", "example.com", "*.a", "*.xn--9ca.example.com", "10.0.0.1"];
      const list = listFrom("some", kind, values);
      fc.assert(
        fc.property(text, (given) => {
          const found = list.lookUp(given, fold(given));
          expect(found === "unreadable" ? undefined : found === "listed").to.equal(naiveListed(list, given));
        }),
        { numRuns: 3_000 },
      );
    }
  });

  it("merge, subtract and sort values as sets of texts.", () => {
    const values = fc.array(fc.string({ unit: "binary", maxLength: 3 }), { maxLength: 60 });
    fc.assert(
      fc.property(values, values, (one, other) => {
        const naive = (texts: Iterable<string>): SortedValues => [...new Set(texts)].sort();
        const [a, b] = [done(sortedValues(one)), done(sortedValues(other))];
        expect(a).to.deep.equal(naive(one));
        expect(done(union(a, b))).to.deep.equal(naive([...a, ...b]));
        expect(done(difference(a, b))).to.deep.equal(a.filter((each) => !b.includes(each)));
      }),
    );
    const many = Array.from({ length: 30_001 }, (_, index) => `v${(index * 7_919) % 20_011}`);
    expect(done(sortedValues(many))).to.deep.equal([...new Set(many)].sort());
  });

  it("have the SHA-256 of the RFC 8785 array of their values as digest.", () => {
    const naive = (values: SortedValues): string => createHash("sha256").update(canonicalJson(values)).digest("hex");
    const many = done(sortedValues(Array.from({ length: 4_500 }, (_, index) => `"${index}"\u2028é\\`)));
    for (const values of [[], ["a"], many]) expect(done(digestOfValues(values))).to.equal(naive(values));
  });
});

describe("conditions on named lists", () => {
  const tool = toolFrom({
    type: "object",
    properties: {
      to: { type: "string" },
      all: { type: "array", items: { type: "string" } },
      amount: { type: "number" },
    },
  });
  const rule = (decision: string, field: string, operator: string, value: string, type = "argument") => ({
    type,
    tool: "pay",
    decision,
    conditions: { rules: [{ field, operator, value }] },
  });
  const decide = (decision: string, operator: string, args: object, [field = ""] = Object.keys(args)) =>
    evaluateRule(rule(decision, field, operator, "domains"), tool, args as never);

  it("fire for a rule that restricts, and never for one that allows, on a text that the list cannot read.", () => {
    for (const operator of ["in_list", "not_in_list"]) {
      const { decision, reasons } = decide("block", operator, { to: "a@x.y, b@example.com" });
      expect([decision, reasons[0]?.code]).to.deep.equal(["block", "ARGUMENT_WRONG_TYPE"]);
      expect(reasons[0]?.message).to.equal('`to` is text, not string that the list "domains" can compare');
      expect(decide("allow", operator, { to: "a@x.y, b@example.com" }).decision).to.equal(undefined);
    }
  });

  it("need one element of an array to restrict, and every one to allow.", () => {
    const mixed = { all: ["a@example.com", "a@evil.net"] };
    const listed = { all: ["a@example.com", "b@example.com"] };
    expect(decide("block", "in_list", mixed).decision).to.equal("block");
    expect(decide("block", "not_in_list", mixed).decision).to.equal("block");
    expect(decide("block", "not_in_list", listed).decision).to.equal(undefined);
    expect(decide("allow", "in_list", mixed).decision).to.equal(undefined);
    expect(decide("allow", "in_list", listed).decision).to.equal("allow");
    expect(decide("allow", "in_list", { all: [] }).decision).to.equal(undefined);
  });

  it("name the lists that their rules looked into, with digests, whether the rules fired or not.", () => {
    expect(decide("block", "in_list", { to: "a@evil.net" }).lists).to.deep.equal([
      { name: "domains", digest: "domains *.corp.example,example.com", matched: [] },
    ]);
    expect(evaluateRule(rule("block", "to", "==", "x"), tool, {}).lists).to.deep.equal([]);
  });

  it("name the values of their lists that texts matched, once each, sorted, the first 10.", () => {
    const matched = (operator: string, args: object) =>
      decide("block", operator, args).lists.flatMap((list) => list.matched);
    const to = "A@EXAMPLE.com";
    for (const operator of ["in_list", "not_in_list"]) expect(matched(operator, { to })).to.deep.equal(["example.com"]);
    expect(
      matched("not_in_list", { all: [to, "b@x.y.corp.example", "c@corp.example", to, "d@evil.net"] }),
    ).to.deep.equal(["*.corp.example", "example.com"]);
    expect(matched("not_in_list", { to: "no address" })).to.deep.equal([]);
    const when = 'args.all.exists(x, in_list(x, "names") || in_list(x, "domains"))';
    const { lists } = evaluateRule({ type: "action", tool: "pay", decision: "block", when }, tool, {
      all: ["EUR", "ＵＳＤ"],
    } as never);
    expect(lists.find(({ name }) => name === "names")?.matched).to.deep.equal(["usd"]);
  });

  it("note the uses of one task apart, and then with all others.", () => {
    const some = listFrom("some", "text", ["a", "b"]);
    const lists = new UsedLists({ get: (name) => (name === "some" ? some : undefined), names: () => ["some"] });
    lists.lookUp(some, "a", "a");
    const { result, lists: within } = lists.during(() => [lists.lookUp(some, "b", "b"), lists.use("none")]);
    expect(result).to.deep.equal(["listed", undefined]);
    const none = { name: "none", digest: undefined, matched: [] };
    expect(within).to.deep.equal([none, { name: "some", digest: some.digest, matched: ["b"] }]);
    expect(lists.used).to.deep.equal([none, { name: "some", digest: some.digest, matched: ["a", "b"] }]);
    expect(() =>
      lists.during(() => {
        throw new Error("broken");
      }),
    ).to.throw("broken");
    expect(lists.used).to.have.length(2);
  });

  it("do not compile for a list that does not exist; the nearest name is suggested.", () => {
    for (const type of ["argument", "metadata"]) {
      const result = rulesCompiled([ruleFrom(rule("block", "to", "in_list", "domain", type))], lookup(tool));
      const [violation] = result.kind === "invalid" ? result.violations : [];
      expect(violation).to.deep.equal({
        path: "rules[0].conditions.rules[0].value",
        reason: "LIST_NOT_FOUND",
        message: "there is no list `domain`; create it first; did you mean `domains`?",
        suggestion: "domains",
      });
    }
  });

  it("do not compile on numbers.", () => {
    const result = rulesCompiled([ruleFrom(rule("block", "amount", "in_list", "names"))], lookup(tool));
    expect(result.kind === "invalid" && result.violations[0]?.reason).to.equal("OPERATOR_NOT_FITTING");
  });

  it("stop at the budget of a decision, and fire then, unless they allow.", () => {
    const all = Array.from({ length: 20_000 }, (_, index) => `a@${index}.example.com`);
    const blocked = decide("block", "in_list", { all });
    expect([blocked.decision, blocked.reasons[0]?.code]).to.deep.equal(["block", "CHECK_TOO_LONG"]);
    expect(decide("allow", "in_list", { all }).decision).to.equal(undefined);
  });

  it("are looked up by `in_list` in expressions, which fail closed on a text that the list cannot read.", () => {
    const ask = (decision: string, when: string, args: object) =>
      evaluateRule({ type: "action", tool: "pay", decision, when }, tool, args as never);
    const unknown = '!in_list(args.to, "domains")';
    expect(ask("block", unknown, { to: "a@example.com" }).decision).to.equal(undefined);
    const { decision, lists } = ask("block", unknown, { to: "a@evil.net" });
    expect([decision, lists.map(({ name }) => name)]).to.deep.equal(["block", ["domains"]]);
    for (const when of [unknown, 'in_list(args.to, "domains")']) {
      expect(ask("block", when, { to: "a@x.y, b@z.w" }).decision).to.equal("block");
      expect(ask("allow", when, { to: "a@x.y, b@z.w" }).decision).to.equal(undefined);
    }
    expect(ask("block", 'args.all.exists(x, in_list(x, "names"))', { all: ["EUR", "ＵＳＤ"] }).decision).to.equal(
      "block",
    );
  });
});
