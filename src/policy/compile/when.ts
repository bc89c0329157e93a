import { RuleType } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { TOO_LONG } from "../checks.ts";
import type { ListLookup } from "../lists/named-list.ts";
import type { CompiledRule, EvaluationContext, Finding } from "../types.ts";
import { type CompiledWhen, compileWhen } from "../when/compile-when.ts";
import type { WhenTools } from "../when/functions.ts";
import type { Run } from "../when/run.ts";
import { foldText } from "../when/text.ts";
import { Fault } from "../when/values.ts";
import { type RuleDraft, ruleFinding } from "./rule-draft.ts";

/** Maximum characters of an expression that a reason shows. */
const MAX_SHOWN = 500;

/** Steps of one lookup: a host has up to 128 covering values, each found by some 17 comparisons. */
const LOOKUP_STEPS = 200;

/** The `when` of a rule, ready to be evaluated. */
export interface RuleWhen {
  readonly compiled: CompiledWhen;
  /**
   * Returns the finding if the rule may fire, else undefined. An expression without a result, since a member is missing or it takes
   * too long, counts as true for `block` and `escalate`, and as false for `allow`.
   */
  readonly check: (context: EvaluationContext) => Finding | undefined;
}

/** Compiles the `when` of a rule; undefined if the rule has none or it does not compile, which is noted. */
export function compileRuleWhen(draft: RuleDraft): RuleWhen | undefined {
  const { rule, path, tool, violations, decision, lists } = draft;
  if (rule.when === undefined) return undefined;
  const { budget } = violations;
  const compilation = compileWhen(rule.when, {
    tool,
    checkPattern: (pattern) => budget.checkPattern(pattern, { ignoreCase: false }),
    findNearest: (text, candidates) => budget.nearest(text, candidates),
    findList: listsFinder(lists),
  });
  if (compilation.kind === "invalid") {
    for (const { reason, message, suggestion, line, column } of compilation.problems) {
      // In the message too: errors of requests and of files have no place within a member.
      const placed = `line ${line}, column ${column}: ${message}`;
      violations.addAt(`${path}.when`, reason, placed, { line, column }, suggestion);
    }
    return undefined;
  }
  const compiled = compilation.when;
  const shown = rule.when.length > MAX_SHOWN ? `${rule.when.slice(0, MAX_SHOWN)}…`.toWellFormed() : rule.when;
  const holds = ruleFinding(draft, "WHEN_HELD", `\`${shown}\` is true`);
  const finding: Finding = { ...holds, rule: `${path}.when` };
  const check = (context: EvaluationContext): Finding | undefined => {
    const result = compiled.judge(context);
    if (result === true) return finding;
    if (result === false || decision === "allow") return undefined;
    const code = result instanceof Fault ? "WHEN_HELD" : TOO_LONG;
    const text = `\`${shown}\` has no result, so it counts as true: ${result.message}`;
    const unclear = { ...ruleFinding(draft, code, text), rule: `${path}.when` };
    return result instanceof Fault && result.argument !== undefined && result.argument !== ""
      ? { ...unclear, argument: result.argument }
      : unclear;
  };
  return { compiled, check };
}

/** Creates the search for the lists that expressions name. */
export const listsFinder =
  (lists: ListLookup): NonNullable<WhenTools["findList"]> =>
  (name) =>
    lists.get(name) === undefined ? undefined : (run, text) => lookUp(run, name, text);

/** Looks a text up in a list as it is at the decision's place in the log; undefined for a text that the list cannot read. */
function lookUp(run: Run, name: string, text: string): boolean | undefined {
  const { lists } = run.context.checks;
  const list = lists.use(name);
  if (list === undefined) return undefined;
  run.take(LOOKUP_STEPS);
  const found = lists.lookUp(list, text, foldText(run, text));
  return found === "unreadable" ? undefined : found === "listed";
}

/** Returns the check of a rule that fires only if its `when` may and its own check does. */
export function checkWithWhen(draft: RuleDraft, check: CompiledRule["check"], when: RuleWhen): CompiledRule["check"] {
  // Such a rule has no condition of its own.
  const isAlone = draft.type === RuleType.ACTION && draft.conditions.matchActionTypes.length === 0;
  if (isAlone) return when.check;
  return (context, reading, answer, pot) => {
    const held = when.check(context);
    if (held === undefined) return undefined;
    const finding = check(context, reading, answer, pot);
    return finding && { ...finding, others: [...(finding.others ?? []), held] };
  };
}
