import { isActionPattern, normaliseActionType } from "./action-pattern.ts";
import { plainFinding, sentence } from "./finding.ts";
import type { RuleBody, RuleBodyCompiler, RuleDraft } from "./rule-draft.ts";
import { checkDepartment, checkMode, sequenceGroup, windowSecondsOf } from "./sequence-fields.ts";
import type { OrderedSpec } from "./types.ts";

const MIN_STEPS = 2;
const MAX_STEPS = 20;

/**
 * Compiles an ordered sequence: it fires on the action that is its last step, when past actions of the window were the
 * others in their order. Every recorded attempt is a step, whatever was decided: what escalated may have been approved
 * and have happened, and a refused attempt shows the same intent.
 */
export const compileOrdered: RuleBodyCompiler = (draft) => {
  const { conditions, violations } = draft;
  const before = violations.count();
  checkMode(draft, "velocity", "max_count", conditions.maxCount !== undefined);
  checkMode(draft, "velocity", "match_action_types", conditions.matchActionTypes.length > 0);
  checkSteps(draft);
  const windowSeconds = windowSecondsOf(draft);
  checkDepartment(draft);
  if (violations.count() > before) return undefined;
  const steps = conditions.steps.map(normaliseActionType);
  const group = sequenceGroup(conditions);
  const key = JSON.stringify([steps, group.countDecisions, group.scope]);
  return orderedBody(draft, { key, steps, windowMs: windowSeconds * 1000, ...group });
};

function orderedBody({ rule, path }: RuleDraft, ordered: OrderedSpec): RuleBody {
  const { steps, windowMs } = ordered;
  const text = `${steps.map((step) => `\`${step}\``).join(", then ")} happened in order within ${windowMs / 1000} s`;
  const message = sentence(rule.description, text);
  return {
    ordered,
    actionTypes: steps.slice(-1),
    check: (facts) => {
      const startedAtMs = facts.readSequence(ordered);
      if (startedAtMs === undefined) return undefined;
      const from = new Date(startedAtMs + windowMs).toISOString();
      return { ...plainFinding("SEQUENCE_COMPLETED", message, path), wouldPass: `would allow from ${from}` };
    },
  };
}

function checkSteps({ conditions: { steps }, path, violations }: RuleDraft): void {
  const at = `${path}.conditions.steps`;
  if (steps.length === 0) {
    violations.add(at, "MATCH_MISSING", "an ordered sequence needs steps such as `secret.read`, `http.*`");
  } else if (steps.length < MIN_STEPS || steps.length > MAX_STEPS) {
    violations.add(at, "LIMIT_OUT_OF_RANGE", `a sequence has ${MIN_STEPS} to ${MAX_STEPS} steps, not ${steps.length}`);
  }
  steps.forEach((step, index) => {
    if (isActionPattern(step)) return;
    const message = `\`${step}\` is neither an action type nor one with a trailing \`*\``;
    violations.add(`${at}[${index}]`, "MATCH_INVALID", message);
  });
}
