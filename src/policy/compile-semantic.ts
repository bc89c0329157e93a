import { plainFinding, sentence } from "./finding.ts";
import type { RuleBody, RuleBodyCompiler, RuleDraft } from "./rule-draft.ts";
import { NOT_ASKED } from "./semantic-types.ts";
import type { Decision, Finding, SemanticSpec } from "./types.ts";
import { decisionWord } from "./words.ts";

const DEFAULT_MIN_CONFIDENCE = 0.5;
const MAX_TIMEOUT_MS = 60_000;

/**
 * Compiles a `semantic` rule: it fires when the guard finds a violation and is sure enough, and decides `on_unavailable`
 * when there is no verdict. No answer at all counts as unavailable.
 */
export const compileSemantic: RuleBodyCompiler = (draft) => {
  const { conditions, path, violations } = draft;
  const at = `${path}.conditions`;
  const before = violations.count();
  const prompt = conditions.prompt?.trim() ?? "";
  if (prompt === "") violations.add(`${at}.prompt`, "PROMPT_MISSING", "a semantic rule needs the text to judge by");
  const { minConfidence = DEFAULT_MIN_CONFIDENCE, timeoutMs } = conditions;
  if (!(minConfidence >= 0 && minConfidence <= 1)) {
    violations.add(`${at}.min_confidence`, "LIMIT_OUT_OF_RANGE", `\`${minConfidence}\` is not from 0 to 1`);
  }
  if (timeoutMs !== undefined && !(timeoutMs >= 1 && timeoutMs <= MAX_TIMEOUT_MS)) {
    violations.add(`${at}.timeout_ms`, "LIMIT_OUT_OF_RANGE", `\`${timeoutMs}\` is not from 1 to ${MAX_TIMEOUT_MS}`);
  }
  if (violations.count() > before) return undefined;
  const semantic = { key: JSON.stringify([prompt, timeoutMs ?? null]), prompt, timeoutMs };
  return semanticBody(draft, semantic, minConfidence);
};

function semanticBody(draft: RuleDraft, semantic: SemanticSpec, minConfidence: number): RuleBody {
  const { rule, path, conditions } = draft;
  const whenUnavailable = decisionWord(conditions.onUnavailable) ?? "escalate";
  const passes = `would allow if the guard found no violation, or were less than ${minConfidence} sure of it`;
  return {
    semantic,
    check: (_facts, _reading, answer = NOT_ASKED) => {
      if (answer.kind === "unavailable") return unavailable(draft, answer.cause, whenUnavailable);
      const { violates, confidence } = answer;
      if (!violates || confidence < minConfidence) return undefined;
      const text = `the guard finds a violation and is ${confidence} sure of it`;
      return { ...plainFinding("GUARD_VIOLATION", sentence(rule.description, text), path), wouldPass: passes };
    },
  };
}

function unavailable({ rule, path }: RuleDraft, cause: string, decision: Decision): Finding | undefined {
  if (decision === "allow") return undefined;
  const message = sentence(rule.description, `the guard gives no verdict: ${cause.replaceAll("_", " ")}`);
  const finding = plainFinding("GUARD_UNAVAILABLE", message, path);
  return { ...finding, decision, wouldPass: "would allow if the guard answered and found no violation" };
}
