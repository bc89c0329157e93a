import type { JsonObject } from "@bufbuild/protobuf";
import { ownValue } from "../json-value.ts";
import { compileRe2, patternMessage } from "../operators/text.ts";
import type { Decision, EvaluationContext, Finding, SchemaError, ToolSchema } from "../types.ts";
import { decisionFromEnum, type RuleBodyCompiler, type RuleDraft, ruleFinding } from "./rule-draft.ts";

/** Characters of a pattern that a finding shows. */
const MAX_SHOWN = 80;
const DEFAULT_MIN_CONFIDENCE = 0.5;
const MAX_TIMEOUT_MS = 60_000;

const NO_ARGUMENTS: SchemaError = { argument: undefined, message: "the arguments are missing" };

/** Compiles an `action` rule: it fires on every action that its action types cover. */
export const compileAction: RuleBodyCompiler = (draft) => ({
  check: ({ actionType }) => ruleFinding(draft, "ACTION_MATCHED", `\`${actionType}\` is covered by the rule`),
});

/** Compiles a `content` rule: it fires if one of its patterns is found in the content. */
export const compileContent: RuleBodyCompiler = (draft) => {
  const { conditions, violations } = draft;
  const at = `${draft.path}.conditions.patterns`;
  const before = violations.count;
  if (conditions.patterns.length === 0) {
    violations.add(at, "PATTERN_MISSING", "a content rule needs at least one pattern");
  }
  const searches = conditions.patterns.map((pattern, index) => {
    const expression = compileRe2(pattern);
    if (pattern.trim() === "") {
      violations.add(`${at}[${index}]`, "PATTERN_INVALID", "a blank pattern would be found in everything");
    }
    if (expression.kind === "compiled") return { pattern, found: expression.found };
    violations.add(`${at}[${index}]`, "PATTERN_INVALID", patternMessage(pattern, expression.message));
    return { pattern, found: () => false };
  });
  if (violations.count > before) return undefined;
  return {
    check: ({ actionContent }) => {
      const search = searches.find(({ found }) => found(actionContent));
      if (search === undefined) return undefined;
      const { pattern } = search;
      const shown = pattern.length > MAX_SHOWN ? `${pattern.slice(0, MAX_SHOWN)}…` : pattern;
      return ruleFinding(draft, "CONTENT_MATCHED", `\`${shown}\` is found in the content`);
    },
  };
};

/** Compiles a `trust` rule: it fires if the agent's trust is below a limit of 0 to 100. */
export const compileTrust: RuleBodyCompiler = (draft) => {
  const { below } = draft.conditions;
  const at = `${draft.path}.conditions.below`;
  if (below === undefined) {
    draft.violations.add(at, "LIMIT_MISSING", "a trust rule needs the trust it starts below");
    return undefined;
  }
  if (!(below >= 0 && below <= 100)) {
    draft.violations.add(at, "LIMIT_OUT_OF_RANGE", `\`${below}\` is no trust; it goes from 0 to 100`);
    return undefined;
  }
  return {
    check: ({ trustTenths }) => {
      // Divided, not multiplied: 1.1 * 10 is above 11, while 11 / 10 is exactly 1.1.
      const trust = trustTenths / 10;
      return trust < below ? ruleFinding(draft, "TRUST_BELOW", `trust ${trust} is below ${below}`) : undefined;
    },
  };
};

/** Compiles a `schema` rule: it fires if the arguments are missing or do not fit the tool's schema. */
export const compileSchema: RuleBodyCompiler = (draft) => {
  const { tool, violations } = draft;
  if (tool === undefined) return undefined;
  const compiled = tool.validator();
  if (compiled.kind === "invalid") {
    for (const problem of compiled.problems) {
      const message = `the schema of \`${tool.name}\` cannot be checked: ${problem}`;
      violations.add(`${draft.path}.tool`, "SCHEMA_NOT_CHECKABLE", message);
    }
    return undefined;
  }
  return {
    check: (context) => {
      const args = toolArguments(context, tool);
      const schemaError = args === undefined ? NO_ARGUMENTS : compiled.validate(args);
      if (schemaError === undefined) return undefined;
      const { argument, message } = schemaError;
      const finding = ruleFinding(draft, "ARGUMENTS_INVALID", message);
      return argument === undefined ? finding : { ...finding, argument };
    },
  };
};

/** Returns the arguments; if the metadata are the arguments, without the member `tool` by which they name the tool. */
function toolArguments({ arguments: args, metadata }: EvaluationContext, tool: ToolSchema): JsonObject | undefined {
  if (args === undefined || args !== metadata || ownValue(args, "tool") === undefined) return args;
  if (tool.arguments.some(({ path }) => path === "tool")) return args;
  const { tool: _tool, ...rest } = args;
  return rest;
}

/**
 * Compiles a `semantic` rule: it fires if the guard finds a violation, and decides `on_unavailable` if there is no verdict or
 * the guard is less sure of its verdict, either way, than `min_confidence`.
 */
export const compileSemantic: RuleBodyCompiler = (draft) => {
  const { conditions, violations } = draft;
  const at = `${draft.path}.conditions`;
  const before = violations.count;
  const prompt = conditions.prompt?.trim() ?? "";
  if (prompt === "") violations.add(`${at}.prompt`, "PROMPT_MISSING", "a semantic rule needs the text to judge by");
  const { minConfidence = DEFAULT_MIN_CONFIDENCE, timeoutMs } = conditions;
  if (!(minConfidence >= 0 && minConfidence <= 1)) {
    violations.add(`${at}.min_confidence`, "LIMIT_OUT_OF_RANGE", `\`${minConfidence}\` is not from 0 to 1`);
  }
  if (timeoutMs !== undefined && !(timeoutMs >= 1 && timeoutMs <= MAX_TIMEOUT_MS)) {
    violations.add(`${at}.timeout_ms`, "LIMIT_OUT_OF_RANGE", `\`${timeoutMs}\` is not from 1 to ${MAX_TIMEOUT_MS}`);
  }
  if (violations.count > before) return undefined;
  const whenUnavailable = decisionFromEnum(conditions.onUnavailable) ?? "escalate";
  return {
    semantic: { key: JSON.stringify([prompt, timeoutMs ?? null]), prompt, timeoutMs },
    check: (_context, _reading, answer) => {
      if (answer?.kind !== "verdict") {
        const cause = (answer?.cause ?? "not_asked").replaceAll("_", " ");
        return unavailableFinding(draft, `the guard gives no verdict: ${cause}`, whenUnavailable);
      }
      const { violates, confidence } = answer;
      if (confidence < minConfidence) {
        const text = `the guard is ${confidence} sure of its verdict, and at least ${minConfidence} is asked for`;
        return unavailableFinding(draft, text, whenUnavailable);
      }
      return violates ? violationFinding(draft, confidence) : undefined;
    },
  };
};

function violationFinding(draft: RuleDraft, confidence: number): Finding {
  return ruleFinding(draft, "GUARD_VIOLATION", `the guard finds a violation and is ${confidence} sure of it`);
}

function unavailableFinding(draft: RuleDraft, text: string, decision: Decision): Finding | undefined {
  if (decision === "allow") return undefined;
  return { ...ruleFinding(draft, "GUARD_UNAVAILABLE", text), decision };
}
