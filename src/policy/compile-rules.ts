import { clone, create } from "@bufbuild/protobuf";
import { ConditionsSchema, type Rule, RuleSchema, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { normalisePatterns } from "./action-pattern.ts";
import { compileConditional } from "./compile-conditional.ts";
import { compileSchedule } from "./compile-schedule.ts";
import { compileSchema } from "./compile-schema.ts";
import { compileSemantic } from "./compile-semantic.ts";
import { compileSequence } from "./compile-sequence.ts";
import { compileAction, compileContent, compileTrust } from "./compile-simple.ts";
import { nearest } from "./edit-distance.ts";
import type { RuleBody, RuleBodyCompiler, RuleDraft } from "./rule-draft.ts";
import { checkActionTypes, checkApplicable, checkDecision, RULE_TYPE_WORDS, toolOf } from "./rule-fields.ts";
import type { CompiledRule, CompileResult, RuleViolation, ToolLookup } from "./types.ts";
import { createViolations, type Violations } from "./violations.ts";
import { decisionWord } from "./words.ts";

/** One rule after compiling: ready, or with everything that is wrong with it. */
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
]);

const NEEDS_TOOL: ReadonlySet<RuleType> = new Set([RuleType.ARGUMENT, RuleType.SCHEMA]);

/**
 * Compiles rules against the registered tools. A rule with a tool and no type becomes an `argument` rule if the tool has a
 * schema, else a `metadata` rule. MUST NOT throw on any rules; what is wrong comes back all together.
 */
export function compileRules(rules: readonly Rule[], tools: ToolLookup): CompileResult {
  const compiled: CompiledRule[] = [];
  const violations: RuleViolation[] = [];
  rules.forEach((rule, index) => {
    const result = compileRule(rule, index, tools);
    if (result.kind === "compiled") compiled.push(result.rule);
    else violations.push(...result.violations);
  });
  return violations.length === 0 ? { kind: "compiled", rules: compiled } : { kind: "invalid", violations };
}

/** Compiles the rule at a place in its mandate. */
export function compileRule(rule: Rule, index: number, tools: ToolLookup): RuleResult {
  const violations = createViolations();
  const draft = draftFrom(rule, `rules[${index}]`, tools, violations);
  const body = draft === undefined ? undefined : bodyFrom(draft, tools);
  if (draft === undefined || body === undefined || violations.count() > 0) {
    return { kind: "invalid", violations: violations.sorted() };
  }
  return { kind: "compiled", rule: ruleFrom(draft, body, index) };
}

function draftFrom(rule: Rule, path: string, tools: ToolLookup, violations: Violations): RuleDraft | undefined {
  const decision = decisionWord(rule.decision);
  if (decision === undefined) {
    violations.add(`${path}.decision`, "DECISION_MISSING", "the rule must decide `allow`, `block` or `escalate`");
  }
  const name = toolOf(rule);
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
  // Without a decision the rule is compiled as if it blocked, so that everything else wrong with it is found too.
  const conditions = rule.conditions ?? create(ConditionsSchema);
  return { rule, type, path, decision: decision ?? "block", tool, conditions, violations };
}

function typeFromTool(name: string | undefined, isRegistered: boolean): RuleType | undefined {
  if (name === undefined) return undefined;
  return isRegistered ? RuleType.ARGUMENT : RuleType.METADATA;
}

function hasTool({ rule, type, tool, path, violations }: RuleDraft, tools: ToolLookup): boolean {
  if (!NEEDS_TOOL.has(type) || tool !== undefined) return true;
  const at = `${path}.tool`;
  const name = toolOf(rule);
  if (name === undefined) {
    const message = `a rule of type \`${RULE_TYPE_WORDS.get(type)}\` needs the tool whose arguments it looks at`;
    violations.add(at, "TOOL_MISSING", message);
    return false;
  }
  const message = `no tool \`${name}\` is registered`;
  violations.add(at, "TOOL_NOT_REGISTERED", message, nearest(name, tools.names ?? []));
  return false;
}

function bodyFrom(draft: RuleDraft, tools: ToolLookup): RuleBody | undefined {
  const at = `${draft.path}.conditions`;
  checkDecision(draft);
  checkApplicable(draft.type, draft.conditions, at, draft.violations);
  checkActionTypes(draft.type, draft.conditions, at, draft.violations);
  return hasTool(draft, tools) ? COMPILERS.get(draft.type)?.(draft) : undefined;
}

function ruleFrom(draft: RuleDraft, body: RuleBody, index: number): CompiledRule {
  return {
    index,
    path: draft.path,
    type: draft.type,
    decision: draft.decision,
    tool: toolOf(draft.rule),
    actionTypes: body.actionTypes ?? normalisePatterns(draft.conditions.matchActionTypes),
    stale: false,
    source: ruleWithType(draft.rule, draft.type),
    velocity: body.velocity,
    ordered: body.ordered,
    semantic: body.semantic,
    check: body.check,
  };
}

/** A copy of a rule with the type that the compiler chose. */
export function ruleWithType(rule: Rule, type: RuleType): Rule {
  const copy = clone(RuleSchema, rule);
  copy.type = type;
  return copy;
}
