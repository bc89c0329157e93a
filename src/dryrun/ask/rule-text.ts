import { RuleType } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { decisionFromEnum, RULE_TYPE_NAMES } from "../../policy/compile/rule-draft.ts";
import type { CompiledMandate, CompiledRule, Decision } from "../../policy/types.ts";
import type { CompiledWhen } from "../../policy/when/compile-when.ts";
import { expressionOf } from "../../policy/when/tree.ts";
import { listed, plain, quoted } from "./answer.ts";

const MAX_PATTERNS = 5;
const MAX_EXPRESSION = 200;

/** Verbs for the effect of a decision on an action. */
export const VERBS: Readonly<Record<Decision, string>> = { allow: "allows", block: "blocks", escalate: "escalates" };
/** Participles for the effect that a decision had on an action. */
export const DONE: Readonly<Record<Decision, string>> = { allow: "allowed", block: "blocked", escalate: "escalated" };

/** Describes the effect of a rule: `blocks`, and `would block` in a mandate that observes. */
export function verbOf({ mode }: Pick<CompiledMandate, "mode">, { decision }: Pick<CompiledRule, "decision">): string {
  return mode === "observe" ? `would ${decision}` : VERBS[decision];
}

/** Describes a rule: `an argument rule on "send_payment" that blocks`. */
export function ruleText(mandate: Pick<CompiledMandate, "mode">, rule: CompiledRule): string {
  const type = RULE_TYPE_NAMES.get(rule.type) ?? "rule";
  const article = /^a[a-z]/.test(type) ? "an" : "a";
  const tool = rule.tool === undefined ? "" : ` on ${quoted(rule.source.tool?.trim() ?? rule.tool)}`;
  const types = rule.actionTypes.length === 0 ? "" : ` for ${listed(rule.actionTypes.map(quoted), MAX_PATTERNS)}`;
  const excluded = listed(rule.excludedTypes.map(quoted), MAX_PATTERNS);
  const without = rule.excludedTypes.length === 0 ? "" : ` without ${excluded}`;
  const when = rule.when === undefined ? "" : ` when ${whenText(rule.when)}`;
  return `${article} ${type} rule${tool}${types}${without} that ${verbOf(mandate, rule)}${when}`;
}

/** Writes an expression on one line, in backticks that it cannot end. */
export function whenText({ tree }: CompiledWhen): string {
  const text = expressionOf(tree);
  const shown = text.length > MAX_EXPRESSION ? `${text.slice(0, MAX_EXPRESSION).toWellFormed()}…` : text;
  return `\`${plain(shown).replaceAll("`", "\\u0060")}\``;
}

/** Returns the decisions that a rule may make. */
export function decisionsOf({ decision, type, source }: CompiledRule): readonly Decision[] {
  if (type !== RuleType.SEMANTIC) return [decision];
  const unavailable = decisionFromEnum(source.conditions?.onUnavailable ?? 0) ?? "escalate";
  return unavailable === "allow" ? [decision] : [decision, unavailable];
}
