import { create } from "@bufbuild/protobuf";
import { ConditionsSchema, type Rule, RuleType } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { Work } from "../../async/work.ts";
import { compileTypes, normalisePatterns } from "../action-patterns.ts";
import { NO_LISTS } from "../lists/named-list.ts";
import { toolNameFault } from "../names.ts";
import type { CompiledRule, CompileResult, ToolLookup } from "../types.ts";
import { CompileBudget, type RuleViolation, Violations } from "../violations.ts";
import { compileConditional, listsNamedBy } from "./conditions.ts";
import { compileProvenance } from "./provenance.ts";
import {
  coveredTools,
  decisionFromEnum,
  RULE_TYPE_NAMES,
  type RuleBody,
  type RuleBodyCompiler,
  type RuleDraft,
  toolKeyOf,
  toolNameOf,
} from "./rule-draft.ts";
import { checkFields } from "./rule-fields.ts";
import { compileSchedule } from "./schedule.ts";
import { compileSequence } from "./sequence.ts";
import { compileAction, compileContent, compileSchema, compileSemantic, compileTrust } from "./simple-rules.ts";
import { checkWithWhen, compileRuleWhen, type RuleWhen } from "./when.ts";

/** Result of compiling one rule: the compiled rule, or its violations. */
export type RuleResult =
  | { readonly kind: "compiled"; readonly rule: CompiledRule }
  | { readonly kind: "invalid"; readonly violations: readonly RuleViolation[] };

const COMPILERS: ReadonlyMap<RuleType, RuleBodyCompiler> = new Map([
  [RuleType.ARGUMENT, compileConditional],
  [RuleType.METADATA, compileConditional],
  [RuleType.ACTION, compileAction],
  [RuleType.CONTENT, compileContent],
  [RuleType.SEQUENCE, compileSequence],
  [RuleType.TRUST, compileTrust],
  [RuleType.SCHEDULE, compileSchedule],
  [RuleType.SCHEMA, compileSchema],
  [RuleType.SEMANTIC, compileSemantic],
  [RuleType.PROVENANCE, compileProvenance],
]);

/** Rule types that look at the arguments of a registered tool. */
export const NEEDS_TOOL: ReadonlySet<RuleType> = new Set([RuleType.ARGUMENT, RuleType.SCHEMA, RuleType.PROVENANCE]);

/**
 * Compiles rules against the registered tools. A rule with a tool and no type becomes an `argument` rule if the tool has a
 * schema, else a `metadata` rule. MUST NOT throw on any rules; all violations come back together. Pauses between rules.
 */
export function* compileRules(rules: readonly Rule[], tools: ToolLookup): Work<CompileResult> {
  const compiled: CompiledRule[] = [];
  const violations: RuleViolation[] = [];
  const budget = new CompileBudget();
  for (const [index, rule] of rules.entries()) {
    const result = compileRule(rule, index, tools, budget);
    if (result.kind === "compiled") compiled.push(result.rule);
    else violations.push(...result.violations);
    yield;
  }
  if (violations.length === 0) return { kind: "compiled", rules: compiled };
  return { kind: "invalid", violations: [...violations, ...budget.unlisted()] };
}

/** Compiles the rule at a place in its mandate; `budget` is the mandate's. `path`: of the rule in violations. */
export function compileRule(
  rule: Rule,
  index: number,
  tools: ToolLookup,
  budget: CompileBudget,
  path = `rules[${index}]`,
): RuleResult {
  const violations = new Violations(budget);
  const before = budget.instructions;
  const draft = draftFrom(rule, path, tools, violations);
  const body = draft && compileBody(draft, tools);
  const when = draft && compileRuleWhen(draft);
  if (draft === undefined || body === undefined || violations.count > 0) {
    return { kind: "invalid", violations: violations.sorted() };
  }
  const patternSize = budget.instructions - before;
  return { kind: "compiled", rule: { ...ruleFrom(draft, body, when, index), patternSize } };
}

function draftFrom(rule: Rule, path: string, tools: ToolLookup, violations: Violations): RuleDraft | undefined {
  const decision = decisionFromEnum(rule.decision);
  if (decision === undefined) {
    violations.add(`${path}.decision`, "DECISION_MISSING", "the rule must decide `allow`, `block` or `escalate`");
  }
  const name = toolNameOf(rule);
  const fault = name === undefined ? undefined : toolNameFault(name);
  if (fault !== undefined) violations.add(`${path}.tool`, "TOOL_NAME_INVALID", `a tool's name ${fault}`);
  const tool = name === undefined ? undefined : tools(name);
  const type = rule.type === RuleType.UNSPECIFIED ? typeFromTool(name, tool !== undefined) : rule.type;
  if (type === undefined) {
    violations.add(`${path}.type`, "TYPE_MISSING", "the rule needs a type, or a tool to choose the type by");
    return undefined;
  }
  if (!COMPILERS.has(type)) {
    violations.add(`${path}.type`, "TYPE_UNKNOWN", `there is no rule type \`${type}\``);
    return undefined;
  }
  // Without a decision the rule is compiled as if it blocked, so that every other violation is found too.
  const conditions = rule.conditions ?? create(ConditionsSchema);
  return {
    rule,
    type,
    path,
    decision: decision ?? "block",
    tool,
    tools,
    conditions,
    violations,
    lists: tools.lists ?? NO_LISTS,
  };
}

function typeFromTool(name: string | undefined, isRegistered: boolean): RuleType | undefined {
  if (name === undefined) return undefined;
  return isRegistered ? RuleType.ARGUMENT : RuleType.METADATA;
}

function compileBody(draft: RuleDraft, tools: ToolLookup): RuleBody | undefined {
  checkFields(draft);
  return checkTool(draft, tools) ? COMPILERS.get(draft.type)?.(draft) : undefined;
}

function checkTool({ rule, type, tool, path, violations }: RuleDraft, tools: ToolLookup): boolean {
  if (!NEEDS_TOOL.has(type) || tool !== undefined) return true;
  const name = toolNameOf(rule);
  if (name === undefined) {
    const message = `a rule of type \`${RULE_TYPE_NAMES.get(type)}\` needs the tool whose arguments it looks at`;
    violations.add(`${path}.tool`, "TOOL_MISSING", message);
    return false;
  }
  const message = `no tool \`${name}\` is registered`;
  violations.add(`${path}.tool`, "TOOL_NOT_REGISTERED", message, violations.budget.nearest(name, tools.names ?? []));
  return false;
}

function ruleFrom(
  draft: RuleDraft,
  body: RuleBody,
  when: RuleWhen | undefined,
  index: number,
): Omit<CompiledRule, "patternSize"> {
  const { rule, type, path, decision, conditions } = draft;
  const actionTypes = body.actionTypes ?? normalisePatterns(conditions.matchActionTypes);
  const excludedTypes = normalisePatterns(conditions.excludeActionTypes);
  return {
    index,
    path,
    type,
    decision,
    source: { ...rule, type },
    tool: toolKeyOf(rule),
    tools: coveredTools(rule),
    lists: listsNamedBy(rule),
    actionTypes,
    excludedTypes,
    types: compileTypes(actionTypes, excludedTypes),
    schemaSize: body.schemaSize ?? 0,
    stale: false,
    velocity: body.velocity,
    budget: body.budget,
    ordered: body.ordered,
    semantic: body.semantic,
    provenance: body.provenance,
    when: when?.compiled,
    mayFire: when && ((context) => when.check(context) !== undefined),
    check: when === undefined ? body.check : checkWithWhen(draft, body.check, when),
    judges: body.judges,
  };
}
