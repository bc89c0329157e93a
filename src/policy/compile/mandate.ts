import type { Rule } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { compileTypes, isActionPattern, normalisePatterns } from "../action-patterns.ts";
import { comparableName } from "../names.ts";
import type {
  CompiledMandate,
  CompiledRule,
  CompileMandateOptions,
  Finding,
  MandateSource,
  ToolLookup,
} from "../types.ts";
import { CompileBudget, type RuleViolation, Violations } from "../violations.ts";
import { listsNamedBy } from "./conditions.ts";
import { coveredTools, decisionFromEnum, toolKeyOf } from "./rule-draft.ts";
import { compileRule } from "./rules.ts";

/**
 * Compiles a mandate for publishing, or again after a tool's schema changed. Without `allowStale` a mandate with violations has
 * no rules and MUST NOT be put in force. With it, a rule that blocks or escalates takes the place of each rule that does not
 * compile, and the others stay in force. MUST NOT throw on any source.
 */
export function compileMandate(
  source: MandateSource,
  tools: ToolLookup,
  { allowStale = false }: CompileMandateOptions = {},
): CompiledMandate {
  const rules: CompiledRule[] = [];
  const violations: RuleViolation[] = [...scopeViolations(source)];
  const budget = new CompileBudget();
  source.rules.forEach((rule, index) => {
    const result = compileRule(rule, index, tools, budget);
    if (result.kind === "compiled") rules.push(result.rule);
    else {
      violations.push(...result.violations);
      rules.push(staleRule(rule, index, result.violations));
    }
  });
  violations.push(...budget.unlisted());
  const isUsable = violations.length === 0 || allowStale;
  return {
    id: source.id,
    version: source.version,
    digest: source.digest,
    name: source.name,
    foldedName: comparableName(source.name),
    scope: source.scope,
    departmentId: source.departmentId,
    agentId: source.agentId,
    priority: source.priority,
    mode: source.mode,
    rules: isUsable ? rules : [],
    violations,
  };
}

/** Notes a scope without the department or agent it needs, and a target that the scope does not use. */
function scopeViolations(source: MandateSource): readonly RuleViolation[] {
  const violations = new Violations();
  const targets = [
    { scope: "agent", field: "agent_id", id: source.agentId },
    { scope: "department", field: "department_id", id: source.departmentId },
  ] as const;
  for (const { scope, field, id } of targets) {
    if (scope === source.scope && (id === undefined || id.trim() === "")) {
      violations.add(field, "SCOPE_TARGET_MISSING", `the scope \`${scope}\` needs \`${field}\``);
    } else if (scope !== source.scope && id !== undefined) {
      violations.add(field, "SCOPE_TARGET_NOT_APPLICABLE", `\`${field}\` goes with the scope \`${scope}\` only`);
    }
  }
  return violations.sorted();
}

/**
 * Builds the rule that stands in for one that no longer compiles. It covers every call of the rule's tool, or of those whose amounts a
 * budget adds, or, without a tool, every action of the rule's action types; every action if they are missing or invalid. A rule that blocked still blocks;
 * any other escalates.
 */
function staleRule(rule: Rule, index: number, [first]: readonly RuleViolation[]): CompiledRule {
  const path = `rules[${index}]`;
  const tools = coveredTools(rule);
  const { matchActionTypes: patterns = [], excludeActionTypes: excluded = [] } = rule.conditions ?? {};
  const isNarrowed = tools.length === 0 && [...patterns, ...excluded].every(isActionPattern);
  const actionTypes = isNarrowed ? normalisePatterns(patterns) : [];
  const excludedTypes = isNarrowed ? normalisePatterns(excluded) : [];
  const message = `the rule no longer compiles: ${first?.message ?? "its tool changed"}`;
  const finding: Finding = { code: "MANDATE_STALE", message, rule: path };
  return {
    index,
    path,
    tool: toolKeyOf(rule),
    tools,
    lists: listsNamedBy(rule),
    type: rule.type,
    decision: decisionFromEnum(rule.decision) === "block" ? "block" : "escalate",
    actionTypes,
    excludedTypes,
    types: compileTypes(actionTypes, excludedTypes),
    stale: true,
    source: rule,
    velocity: undefined,
    budget: undefined,
    ordered: undefined,
    semantic: undefined,
    provenance: undefined,
    patternSize: 0,
    schemaSize: 0,
    when: undefined,
    mayFire: undefined,
    check: () => finding,
    judges: undefined,
  };
}
