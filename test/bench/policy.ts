/*
 * What a decision of the policy core costs. Run with `node test/bench/policy.ts`. The ratios compare with the baseline of
 * the same run; they show whether mandates that do not concern an action make it dearer.
 */
import { create, fromJson, type JsonObject } from "@bufbuild/protobuf";
import { RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Checks } from "../../src/policy/checks.ts";
import { compileMandate } from "../../src/policy/compile/mandate.ts";
import { argumentsFrom } from "../../src/policy/names.ts";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import { flattenSchema } from "../../src/policy/schema/flatten.ts";
import { createToolSchema } from "../../src/policy/schema/validate.ts";
import type {
  CompiledMandate,
  EvaluationContext,
  MandateSource,
  PolicySet,
  ToolSchema,
} from "../../src/policy/types.ts";

const OTHERS = 10_000;
const ROUNDS = 200_000;

function toolNamed(name: string): ToolSchema {
  const text = { type: "string" };
  const number = { type: "number" };
  const line = { type: "object", properties: { amount: number } };
  const properties = { amount: number, currency: text, note: text, lines: { type: "array", items: line } };
  const inputSchema = { type: "object", properties };
  const flattened = flattenSchema(inputSchema);
  if (flattened.kind === "invalid") throw new Error("the schema of the benchmark does not flatten");
  return createToolSchema({ name, version: 1, digest: name, arguments: flattened.arguments, inputSchema });
}

const pay = toolNamed("pay");
const tools = (name: string): ToolSchema => (name === "pay" ? pay : { ...pay, name });

function rule(type: string, decision: string, conditions: JsonObject, tool?: string) {
  const message = { type: `RULE_TYPE_${type}`, decision: `DECISION_${decision}`, conditions, ...(tool && { tool }) };
  return create(RuleSchema, fromJson(RuleSchema, message));
}

function argumentRule(field: string, operator: string, value: unknown, tool = "pay", extra: JsonObject = {}) {
  const condition = { field, operator, value, ...extra } as JsonObject;
  return rule("ARGUMENT", "BLOCK", { rules: [condition] }, tool);
}

function mandate(id: string, rules: MandateSource["rules"], over: Partial<MandateSource> = {}): CompiledMandate {
  const source = {
    id,
    version: 1,
    digest: id,
    name: id,
    scope: "workspace",
    priority: 0,
    mode: "enforce",
    rules,
  } as const;
  const compiled = compileMandate({ ...source, ...over }, tools);
  if (compiled.violations.length > 0) throw new Error(JSON.stringify(compiled.violations));
  return compiled;
}

const velocity = {
  mode: "SEQUENCE_MODE_VELOCITY",
  match_action_types: ["payment.*"],
  max_count: "100",
  window_seconds: "60",
  scope: "SCOPE_WORKSPACE",
};

const mixed = [
  mandate("mnd_0", [argumentRule("amount", ">", 500)]),
  mandate("mnd_1", [argumentRule("amount", "between", [1000, 2000], "pay", { currency: "USD" })]),
  mandate("mnd_2", [argumentRule("note", "contains_any", ["drop", "delete"])]),
  mandate("mnd_3", [argumentRule("lines[].amount", ">=", 100)]),
  mandate("mnd_4", [argumentRule("currency", "not_in", ["usd", "eur"])]),
  mandate("mnd_5", [rule("ACTION", "BLOCK", { match_action_types: ["mail.*", "payment.refund"] })]),
  mandate("mnd_6", [rule("CONTENT", "ESCALATE", { patterns: ["drop\\s+table"] })]),
  mandate("mnd_7", [rule("SEQUENCE", "ESCALATE", velocity)]),
  mandate("mnd_8", [rule("TRUST", "ESCALATE", { below: 20 })]),
  mandate("mnd_9", [rule("METADATA", "BLOCK", { rules: [{ field: "source", operator: "==", value: "unknown" }] })]),
];

const others = (each: (index: number) => CompiledMandate): readonly CompiledMandate[] =>
  Array.from({ length: OTHERS }, (_, index) => each(index));
const otherTools = others((index) => mandate(`mnd_t${index}`, [argumentRule("amount", ">", 5, `tool-${index}`)]));
const otherAgents = others((index) =>
  mandate(`mnd_a${index}`, [rule("ACTION", "BLOCK", { match_action_types: ["*"] })], {
    scope: "agent",
    agentId: `agt_other_${index}`,
  }),
);
const otherTypes = others((index) =>
  mandate(`mnd_x${index}`, [rule("ACTION", "BLOCK", { match_action_types: [`type.${index}`] })]),
);

const reading = { group: "ws", members: 3, count: 1, source: "decision_log" } as const;
const metadata = { arguments: { amount: 120, currency: "USD", note: "rent", lines: [{ amount: 60 }, { amount: 60 }] } };
const context: EvaluationContext = {
  // What one decision may cost.
  get checks() {
    return new Checks();
  },
  agentId: "agt_1",
  departmentIds: ["dep_1"],
  actionType: "payment.send",
  actionContent: "pay the rent of March to the landlord",
  tool: pay,
  arguments: argumentsFrom(metadata),
  metadata,
  trustTenths: 500,
  nowMs: 0,
  counterValue: () => reading,
  potValue: () => ({ group: "agt_1", members: 1, reserved: 0n, captured: 0n }),
  sequenceStartedAtMs: () => undefined,
};

/** Microseconds of one evaluation, the best of five runs. `next` gives the context of each round. */
function measure(set: PolicySet, next: (round: number) => EvaluationContext = () => context): number {
  let best = Number.POSITIVE_INFINITY;
  for (let run = 0; run < 5; run++) {
    const started = performance.now();
    for (let round = 0; round < ROUNDS; round++) set.evaluate(next(round));
    best = Math.min(best, ((performance.now() - started) * 1000) / ROUNDS);
  }
  return best;
}

function milliseconds(work: () => unknown): number {
  let best = Number.POSITIVE_INFINITY;
  for (let run = 0; run < 5; run++) {
    const started = performance.now();
    work();
    best = Math.min(best, performance.now() - started);
  }
  return best;
}

function report(name: string, figure: number, unit: string, baseline?: number): void {
  const ratio = baseline === undefined ? "" : `  ${(figure / baseline).toFixed(2)} x baseline`;
  console.log(`${name.padEnd(52)} ${figure.toFixed(2).padStart(8)} ${unit}${ratio}`);
}

const base = measure(createPolicySet(mixed));
const fresh = (round: number): EvaluationContext => ({ ...context, actionType: `payment.${round}` });
const freshBase = measure(createPolicySet(mixed), fresh);
report("10 mixed mandates", base, "us");
report("10 mixed mandates, every action type a new one", freshBase, "us");
for (const [name, more] of [
  ["tools", otherTools],
  ["agents", otherAgents],
  ["action types", otherTypes],
] as const) {
  const set = createPolicySet([...mixed, ...more]);
  report(`with 10,000 mandates on other ${name}`, measure(set), "us", base);
  report(`  every action type a new one`, measure(set, fresh), "us", freshBase);
  report(
    "  build of the whole set",
    milliseconds(() => createPolicySet([...mixed, ...more])),
    "ms",
  );
  const extra = mandate("mnd_extra", [rule("ACTION", "BLOCK", { match_action_types: ["*"] })]);
  report(
    "  one mandate more",
    milliseconds(() => set.with(extra)),
    "ms",
  );
}

/** Microseconds of one evaluation of each set, the best of five runs in turns. */
function inTurns(one: PolicySet, other: PolicySet, rounds: number): readonly [number, number] {
  const best: [number, number] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let run = 0; run < 5; run++) {
    for (const [index, set] of [one, other].entries()) {
      const started = performance.now();
      for (let round = 0; round < rounds; round++) set.evaluate(context);
      best[index] = Math.min(best[index] ?? 0, ((performance.now() - started) * 1000) / rounds);
    }
  }
  return best;
}

const WHENS = 1_000;
const when = (index: number, tool: string): CompiledMandate => {
  const expression = `args.amount > ${500 + index} && args.currency == "EUR"`;
  const source = { type: "RULE_TYPE_ACTION", decision: "DECISION_BLOCK", tool, when: expression };
  return mandate(`mnd_w${index}`, [create(RuleSchema, fromJson(RuleSchema, source))]);
};
const argumentsOf = (index: number): CompiledMandate => {
  const conditions = [
    { field: "amount", operator: ">", value: 500 + index },
    { field: "note", operator: "==", value: "EUR" },
  ];
  return mandate(`mnd_c${index}`, [rule("ARGUMENT", "BLOCK", { rules: conditions }, "pay")]);
};
const many = (count: number, each: (index: number) => CompiledMandate): PolicySet =>
  createPolicySet(Array.from({ length: count }, (_, index) => each(index)));

const [conditions, expressions] = inTurns(
  many(WHENS, argumentsOf),
  many(WHENS, (index) => when(index, "pay")),
  1_000,
);
report("1,000 argument rules of two conditions on the tool", conditions, "us");
report("1,000 `when` of two comparisons on the tool", expressions, "us", conditions);
const [few, elsewhere] = inTurns(
  many(10, (index) => when(index, "pay")),
  createPolicySet([
    ...Array.from({ length: 10 }, (_, index) => when(index, "pay")),
    ...Array.from({ length: WHENS }, (_, index) => when(index + 10, `tool-${index}`)),
  ]),
  ROUNDS,
);
report("10 `when` on the tool", few, "us");
report("  and 1,000 on other tools", elsewhere, "us", few);
