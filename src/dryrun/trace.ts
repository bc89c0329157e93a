import { type JsonValue, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { type Condition, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { Work } from "../async/work.ts";
import { contextOf } from "../decision/decide.ts";
import { argumentPath, argumentSteps } from "../notation/argument-path.ts";
import { type BudgetReading, type CompiledBudget, totalOf } from "../policy/budget.ts";
import { Checks } from "../policy/checks.ts";
import { countedAgents, coversAgent, ruleCoversAgent } from "../policy/coverage.ts";
import { amountFrom } from "../policy/decimal.ts";
import { readCounters, readPots } from "../policy/evaluate.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import type { UsedList } from "../policy/lists/used-lists.ts";
import { toolKey } from "../policy/names.ts";
import type {
  CompiledMandate,
  CompiledRule,
  ConditionResult,
  EvaluationContext,
  Finding,
  Principal,
} from "../policy/types.ts";
import type { CompiledWhen } from "../policy/when/compile-when.ts";
import { valueOfRead } from "../policy/when/read-value.ts";
import type { Action } from "../state/types.ts";
import type { StateJournal, WorkspaceState } from "../state/workspace.ts";
import { type TracedValue, traceProvenance } from "./trace-provenance.ts";

/** State of a value that a rule compares; the words of the proto enum `ConditionSeen`. */
export type Seen = "present" | "missing" | "wrong_type" | "other_currency";

/** One comparison of a rule; the fields of the message `TracedCondition`. */
export interface TracedCondition {
  readonly condition: string;
  readonly path: string;
  readonly operator: string;
  readonly expected: JsonValue | undefined;
  readonly seen: Seen;
  readonly value: JsonValue | undefined;
  readonly holds: boolean;
  /** The lists that it looked into. */
  readonly lists: readonly UsedList[];
  /** Origins of the values of a provenance rule's argument. Default: none. */
  readonly values?: readonly TracedValue[];
}

/** Evaluation of an action by one rule. */
export interface TracedRule {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly covers: boolean;
  readonly fires: boolean;
  readonly conditions: readonly TracedCondition[];
}

/** The rules in force for an agent, traced for one action. */
export interface Trace {
  /** By mandate id and rule: those that cover the action first. */
  readonly rules: readonly TracedRule[];
  readonly leftOut: number;
}

/** Maximum number of rules that a trace shows. */
const MAX_RULES = 1_000;
/** Maximum characters of a value, as JSON, that a trace shows. */
const MAX_VALUE = 1_024;

/** Traces an action through every rule in force for its agent. Leaves the state as it was. */
export function* trace(state: WorkspaceState, action: Action, nowMs: number): Work<Trace> {
  const journal: StateJournal = { undo: [] };
  try {
    const context = contextOf(state, action, nowMs, journal);
    const covering: TracedRule[] = [];
    const others: TracedRule[] = [];
    let leftOut = 0;
    for (const mandate of mandatesFor(state, context)) {
      for (const rule of mandate.rules) {
        if (coversAction(mandate, rule, context)) covering.push(traceRule(mandate, rule, context));
        else if (others.length < MAX_RULES) others.push({ mandate, rule, covers: false, fires: false, conditions: [] });
        else leftOut += 1;
      }
      yield;
    }
    const all = [...covering, ...others];
    const rules = all.slice(0, MAX_RULES);
    return { rules, leftOut: leftOut + all.length - rules.length };
  } finally {
    for (const undo of journal.undo.toReversed()) undo();
  }
}

/** Returns the mandates whose scope covers the agent of an action or its principals, by id. */
export function mandatesFor(
  state: WorkspaceState,
  context: Principal & Pick<EvaluationContext, "principals">,
): readonly CompiledMandate[] {
  const agents = [context, ...(context.principals ?? [])];
  return [...state.policies.policySet().mandates()]
    .filter((mandate) => agents.some((agent) => coversAgent(mandate, agent)))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** Tests whether a rule of a mandate covers an action. */
export function coversAction(mandate: CompiledMandate, rule: CompiledRule, context: EvaluationContext): boolean {
  const counts = rule.velocity !== undefined || rule.budget !== undefined;
  const coversAgents = counts ? countedAgents(mandate, rule, context).length > 0 : ruleCoversAgent(rule, context);
  return coversAgents && coversCall(rule, context.tool?.name ?? context.toolName, context.actionType);
}

/** Tests whether a rule covers calls of a tool with a normalised action type, whoever makes them. */
export function coversCall(
  { tools, types }: Pick<CompiledRule, "tools" | "types">,
  called: string | undefined,
  actionType: string,
): boolean {
  if (tools.length > 0 && (called === undefined || !tools.includes(toolKey(called)))) return false;
  return types.matches(actionType);
}

function traceRule(mandate: CompiledMandate, rule: CompiledRule, context: EvaluationContext): TracedRule {
  const { velocity, budget } = rule;
  const reads = rule.when === undefined ? [] : whenConditions(rule, rule.when, context);
  if (velocity !== undefined) {
    const conditions = readCounters(mandate, rule, velocity, context).map(
      (reading): TracedCondition => ({
        condition: rule.path,
        path: reading.principalId === undefined ? "count" : "principal_count",
        operator: "above",
        expected: velocity.maxCount,
        seen: "present",
        value: reading.count,
        holds: rule.check(context, reading) !== undefined,
        lists: [],
      }),
    );
    return tracedLimit(mandate, rule, conditions, reads);
  }
  if (budget !== undefined) {
    const conditions = readPots(mandate, rule, budget, context).map(
      (reading): TracedCondition => ({
        condition: rule.path,
        path: reading.principalId === undefined ? "total" : "principal_total",
        operator: "above",
        expected: amountFrom(BigInt(budget.maxTotal)),
        seen: seenOfPayment(budget, reading),
        value: amountFrom(totalOf({ past: reading.reserved + reading.captured, payment: reading.payment })),
        holds: rule.check(context, undefined, undefined, reading) !== undefined,
        lists: [],
      }),
    );
    return tracedLimit(mandate, rule, conditions, reads);
  }
  const finding = rule.check(context);
  const isExpression = rule.type === RuleType.ACTION && rule.when !== undefined && rule.actionTypes.length === 0;
  const conditions = rule.stale || isExpression ? [] : conditionsOf(rule, context, finding);
  return { mandate, rule, covers: true, fires: finding !== undefined, conditions: [...conditions, ...reads] };
}

function tracedLimit(
  mandate: CompiledMandate,
  rule: CompiledRule,
  limits: readonly TracedCondition[],
  reads: readonly TracedCondition[],
): TracedRule {
  const fires = limits.some(({ holds }) => holds);
  return { mandate, rule, covers: true, fires, conditions: [...limits, ...reads] };
}

function seenOfPayment({ ignoresOthers }: CompiledBudget, { payment: { fault, other } }: BudgetReading): Seen {
  switch (fault?.code) {
    case undefined:
      return other === undefined || ignoresOthers ? "present" : "other_currency";
    case "ARGUMENT_MISSING":
      return "missing";
    case "CURRENCY_DIFFERS":
    case "CURRENCY_MISSING":
      return "other_currency";
    default:
      return "wrong_type";
  }
}

/** Traces the expression of a rule and each value that it reads from the action. */
function whenConditions(
  { path, decision }: CompiledRule,
  when: CompiledWhen,
  context: EvaluationContext,
): readonly TracedCondition[] {
  const checks = new Checks(undefined, context.checks.lists.lookup);
  const result = when.judge({ ...context, checks });
  const condition = `${path}.when`;
  const holds = typeof result === "boolean" ? result : decision !== "allow";
  const whole: TracedCondition = {
    condition,
    path: "when",
    operator: "is_true",
    expected: shown(when.expression),
    seen: typeof result === "boolean" ? "present" : "missing",
    value: typeof result === "boolean" ? result : undefined,
    holds,
    lists: checks.lists.used,
  };
  const reads = when.reads.map((read): TracedCondition => {
    const value = valueOfRead(read, context);
    const seen = value === undefined ? "missing" : "present";
    const name = argumentPath([read.variable, ...read.path]);
    const found = { seen, value: value && shown(value) } as const;
    return { condition, path: name, operator: "reads", expected: undefined, ...found, holds, lists: [] };
  });
  return [whole, ...reads];
}

function conditionsOf(
  rule: CompiledRule,
  context: EvaluationContext,
  finding: Finding | undefined,
): readonly TracedCondition[] {
  const conditions = rule.source.conditions?.rules ?? [];
  if (rule.judges !== undefined) {
    const sources = sourcesOf(rule, context);
    return rule.judges.map((judge, index) => {
      const { result, lists } = context.checks.lists.during(() => judge(context));
      return { ...traceCondition(rule, index, conditions[index], result, sources(result, index)), lists };
    });
  }
  if (rule.provenance !== undefined) return traceProvenance(rule, rule.provenance, context);
  const whole = wholeRule(rule, context);
  if (whole === undefined) return [];
  return [{ condition: rule.path, seen: "present", ...whole, holds: finding !== undefined, lists: [] }];
}

/** Returns where each condition reads its value, given its result: of the arguments and the metadata the one that decided first. */
function sourcesOf(
  { type, judges }: CompiledRule,
  context: EvaluationContext,
): (result: ConditionResult, index: number) => readonly EvaluationContext["arguments"][] {
  const { arguments: args, metadata } = context;
  if (type === RuleType.ARGUMENT || args === metadata) return () => [args];
  const alone = { ...context, metadata: args, checks: new Checks(undefined, context.checks.lists.lookup) };
  const byArguments = judges?.map((judge) => judge(alone)) ?? [];
  return (result, index) => (byArguments[index] === result ? [args, metadata] : [metadata, args]);
}

function traceCondition(
  { path, decision }: CompiledRule,
  index: number,
  condition: Condition | undefined,
  result: ConditionResult,
  sources: readonly EvaluationContext["arguments"][],
): Omit<TracedCondition, "lists"> {
  const { field = "", operator = "", value: expected } = condition ?? {};
  const value = valueAt(field, sources);
  return {
    condition: `${path}.conditions.rules[${index}]`,
    path: field,
    operator,
    expected: expected && shown(toJson(ValueSchema, expected)),
    seen: seenFrom(result, value === undefined && !field.includes("[]")),
    value: value === undefined ? undefined : shown(value),
    holds: typeof result === "string" ? decision !== "allow" : result,
  };
}

function seenFrom(result: ConditionResult, isMissing: boolean): Seen {
  switch (result) {
    case "ARGUMENT_MISSING":
      return "missing";
    case "ARGUMENT_WRONG_TYPE":
      return "wrong_type";
    case "CURRENCY_MISSING":
    case "CURRENCY_DIFFERS":
      return "other_currency";
    default:
      return isMissing ? "missing" : "present";
  }
}

/** Finds the value at a path in the first of some objects that has its first member; undefined below an array. */
function valueAt(field: string, objects: readonly EvaluationContext["arguments"][]): JsonValue | undefined {
  const steps = argumentSteps(field) ?? [];
  const [first] = steps;
  if (first === undefined || first === null) return undefined;
  let value: JsonValue | undefined = objects.find((object) => (object && ownValue(object, first)) != null);
  for (const step of steps) {
    if (step === null || !isJsonObject(value)) return undefined;
    value = ownValue(value, step);
  }
  return value;
}

/** Describes what a rule without a list of conditions compares. */
function wholeRule(
  { source, type, ordered, actionTypes }: CompiledRule,
  context: EvaluationContext,
): (Pick<TracedCondition, "path" | "operator" | "expected" | "value"> & { readonly seen?: Seen }) | undefined {
  const { conditions } = source;
  switch (type) {
    case RuleType.ACTION:
      return { path: "action_type", operator: "matches", expected: [...actionTypes], value: context.actionType };
    case RuleType.CONTENT: {
      const expected = shown([...(conditions?.patterns ?? [])]);
      return { path: "action_content", operator: "matches", expected, value: shown(context.actionContent) };
    }
    case RuleType.TRUST:
      return { path: "trust", operator: "below", expected: conditions?.below, value: context.trustTenths / 10 };
    case RuleType.SCHEDULE: {
      const { days = [], from = "00:00", to = "24:00", timeZone = "", outside = false } = conditions ?? {};
      const expected = { days: [...days], from, to, time_zone: timeZone };
      const value = new Date(context.nowMs).toISOString();
      return { path: "time", operator: outside ? "outside" : "within", expected, value };
    }
    case RuleType.SCHEMA: {
      const args = context.arguments;
      const expected = context.tool === undefined ? undefined : `${context.tool.name} v${context.tool.version}`;
      const value = args === undefined ? undefined : shown(args);
      return { path: "arguments", operator: "fits", expected, seen: args === undefined ? "missing" : "present", value };
    }
    case RuleType.SEQUENCE:
      return ordered && { path: "sequence", operator: "completes", expected: [...ordered.steps], value: undefined };
    case RuleType.SEMANTIC:
      return { path: "guard", operator: "violates", expected: conditions?.prompt, seen: "missing", value: undefined };
    default:
      return undefined;
  }
}

/** Returns a value if it is short enough to show. */
function shown(value: JsonValue): JsonValue | undefined {
  return JSON.stringify(value).length <= MAX_VALUE ? value : undefined;
}
