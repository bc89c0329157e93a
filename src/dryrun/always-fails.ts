import type { JsonObject } from "@bufbuild/protobuf";
import type { Work } from "../async/work.ts";
import { Checks } from "../policy/checks.ts";
import type { RuleWarning } from "../policy/compile/approval-warnings.ts";
import type { CompiledRule, ToolLookup } from "../policy/types.ts";
import type { CompiledWhen } from "../policy/when/compile-when.ts";
import { Fault } from "../policy/when/values.ts";
import type { TestedAction } from "./mandate-test.ts";
import type { Json } from "./naive/naive-conditions.ts";
import { NaivePatterns } from "./naive/naive-patterns.ts";
import { naiveFits, UnknownKeyword } from "./naive/naive-schema.ts";
import { contextOf } from "./run-tests.ts";
import { sampleArguments } from "./sample-arguments.ts";
import { whenCases } from "./when/cases.ts";

/** Rules of a mandate that compile. */
export interface SampledRules {
  /** Text before the paths of its warnings: `mandates[2].`, or empty. */
  readonly prefix: string;
  readonly rules: readonly CompiledRule[];
}

/** Maximum number of cases of one mandate, and of all mandates of a call. Rules beyond them are not warned of. */
const MAX_CASES = 300;
const MAX_ALL_CASES = 6_000;
const BASE: TestedAction = {
  action: { actionType: "any.action", actionContent: "" },
  agent: { agentId: "agt_test", departmentIds: ["dep_test"] },
  history: [],
  atMs: Date.UTC(2025, 0, 7, 10),
  trust: 50,
};

/**
 * Warns about each `when` that has no result on any of its sample arguments: it counts as true or false whatever the call is. All
 * expressions of a mandate share the steps of one action. Pauses between rules.
 */
export function* alwaysFailing(mandates: readonly SampledRules[], tools: ToolLookup): Work<readonly RuleWarning[]> {
  const warnings: RuleWarning[] = [];
  const samples = new Map<string, JsonObject>();
  let allLeft = MAX_ALL_CASES;
  for (const { prefix, rules } of mandates) {
    const checks = new Checks(undefined, tools.lists);
    let left = Math.min(MAX_CASES, allLeft);
    for (const rule of rules) {
      if (left <= 0) break;
      if (rule.when?.reads.some(({ variable }) => variable === "args") !== true) continue;
      const { tool = "" } = rule;
      const args = samples.get(tool) ?? sampleFrom(schemaOf(rule, tools));
      samples.set(tool, args);
      const { fault, tried } = yield* judgeAll(rule, rule.when, args, tools, checks);
      left -= tried;
      allLeft -= tried;
      if (fault !== undefined) {
        const message = `\`when\` has no result on any of ${tried} sample arguments: ${fault.message}`;
        warnings.push({ path: `${prefix}${rule.path}.when`, reason: "WHEN_ALWAYS_FAILS", message, line: 1, column: 1 });
      }
      yield;
    }
  }
  return warnings;
}

const schemaOf = ({ tool = "" }: CompiledRule, tools: ToolLookup): JsonObject | undefined =>
  tool === "" ? undefined : tools(tool)?.inputSchema;

/** Evaluates an expression on sample arguments. Returns its first error if there is no result on any of them. */
function* judgeAll(
  rule: CompiledRule,
  when: CompiledWhen,
  args: JsonObject,
  tools: ToolLookup,
  checks: Checks,
): Work<{ readonly fault: Fault | undefined; readonly tried: number }> {
  const { source } = rule;
  const schema = schemaOf(rule, tools);
  const action = { ...BASE.action, ...(source.tool !== undefined && { tool: source.tool.trim() }) };
  const base = { ...BASE, action };
  const patterns = new NaivePatterns((name) => tools.lists?.get(name));
  const all = (yield* whenCases({ rule: source, base, args, tools, patterns })).flat();
  const cases = all.filter(({ tested }) => schema === undefined || fits(schema, tested));
  const results = cases.map(({ tested }) => when.judge({ ...contextOf(tested, NO_RULES, tools), checks }));
  const [first] = results;
  const isFailing = first instanceof Fault && results.every((result) => result instanceof Fault);
  return { fault: isFailing ? first : undefined, tried: results.length };
}

const NO_RULES = { rules: [] };

/** Tests whether the arguments of an action fit a schema: others would say nothing about the calls that come. */
function fits(schema: JsonObject, { action }: TestedAction): boolean {
  const [root, args] = [schema, action.metadata?.arguments ?? {}] as [Parameters<typeof naiveFits>[0], Json];
  try {
    return naiveFits(root, args, new NaivePatterns()) === true;
  } catch (error) {
    if (error instanceof UnknownKeyword) return false;
    throw error;
  }
}

function sampleFrom(schema: JsonObject | undefined): JsonObject {
  if (schema === undefined) return {};
  return (sampleArguments(schema as Parameters<typeof sampleArguments>[0], new NaivePatterns()) ?? {}) as JsonObject;
}
