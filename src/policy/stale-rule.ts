import type { Rule } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { isActionPattern, normalisePatterns } from "./action-pattern.ts";
import { plainFinding } from "./finding.ts";
import { toolOf } from "./rule-fields.ts";
import type { CompiledRule, RuleViolation } from "./types.ts";

/**
 * The rule that stands for one that no longer compiles: it escalates every call of the rule's tool, or, when the rule has
 * no tool, every action that the rule narrows to, which is every action when it does not narrow.
 */
export function createStaleRule(rule: Rule, index: number, violations: readonly RuleViolation[]): CompiledRule {
  const path = `rules[${index}]`;
  const tool = toolOf(rule);
  const first = violations[0];
  const finding = plainFinding(
    "MANDATE_STALE",
    `the rule no longer compiles: ${first?.message ?? "its tool changed"}`,
    path,
  );
  return {
    index,
    path,
    type: rule.type,
    decision: "escalate",
    tool,
    actionTypes: tool === undefined ? narrowing(rule) : [],
    stale: true,
    source: rule,
    ...{ velocity: undefined, ordered: undefined, semantic: undefined },
    check: () => finding,
  };
}

function narrowing(rule: Rule): readonly string[] {
  const patterns = rule.conditions?.matchActionTypes ?? [];
  return patterns.every(isActionPattern) ? normalisePatterns(patterns) : [];
}
