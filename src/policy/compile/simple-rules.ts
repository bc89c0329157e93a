import type { JsonObject } from "@bufbuild/protobuf";
import { TOO_LONG } from "../checks.ts";
import { ownValue } from "../json-value.ts";
import { PatternSet, shortened } from "../patterns.ts";
import { patternFaults } from "../schema/unchecked-patterns.ts";
import type { Decision, EvaluationContext, Finding, SchemaError, ToolSchema } from "../types.ts";
import { decisionFromEnum, type RuleBodyCompiler, type RuleDraft, ruleFinding } from "./rule-draft.ts";

const DEFAULT_MIN_CONFIDENCE = 0.5;
/** Maximum time for the guard of one rule. */
export const MAX_TIMEOUT_MS = 60_000;

/** Maximum subschemas of a schema that arguments are checked against; compiling more takes seconds. */
const MAX_SUBSCHEMAS = 2_000;

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
  let size = 0;
  conditions.patterns.forEach((pattern, index) => {
    const checked = violations.budget.checkPattern(pattern);
    if (pattern.trim() === "") {
      violations.add(`${at}[${index}]`, "PATTERN_INVALID", "a blank pattern would be found in everything");
    } else if (checked.kind === "compiled") size += checked.size;
    else violations.add(`${at}[${index}]`, "PATTERN_INVALID", `\`${shortened(pattern)}\` ${checked.message}`);
  });
  if (violations.count > before) return undefined;
  const set = new PatternSet(conditions.patterns, size);
  const isAllow = draft.decision === "allow";
  return {
    check: ({ actionContent, checks }) => {
      const found = checks.search(set, actionContent, isAllow);
      if (found === TOO_LONG) return tooLongFinding(draft, "the content takes too long to search");
      const [first] = found;
      if (first === undefined) return undefined;
      const pattern = set.patterns[first] ?? "";
      return ruleFinding(draft, "CONTENT_MATCHED", `\`${shortened(pattern)}\` is found in the content`);
    },
  };
};

/** Returns the finding of a rule whose check would take too long: the rule fires unless it allows. */
function tooLongFinding(draft: RuleDraft, text: string): Finding | undefined {
  return draft.decision === "allow" ? undefined : ruleFinding(draft, TOO_LONG, `${text}, so the rule fires`);
}

/** Compiles a `trust` rule: it fires if the agent's trust is below a limit of 0 to 100. */
export const compileTrust: RuleBodyCompiler = (draft) => {
  const { below } = draft.conditions;
  const at = `${draft.path}.conditions.below`;
  if (below === undefined) {
    draft.violations.add(at, "LIMIT_MISSING", "a trust rule needs the trust below which it fires");
    return undefined;
  }
  if (!(below >= 0 && below <= 100)) {
    draft.violations.add(at, "LIMIT_OUT_OF_RANGE", `\`${below}\` is outside the range of trust, 0 to 100`);
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
  if (tool.schemaSize > MAX_SUBSCHEMAS) {
    const text = `the schema of \`${tool.name}\` cannot be checked: it has ${tool.schemaSize} subschemas, and at most ${MAX_SUBSCHEMAS} are compiled`;
    violations.add(`${draft.path}.tool`, "SCHEMA_NOT_CHECKABLE", text);
    return undefined;
  }
  const faults = patternFaults(tool.inputSchema);
  for (const { pattern, message } of faults) {
    const text = `the schema of \`${tool.name}\` cannot be checked: the pattern \`${shortened(pattern)}\` ${message}`;
    violations.add(`${draft.path}.tool`, "SCHEMA_NOT_CHECKABLE", text);
  }
  if (faults.length > 0) return undefined;
  const toolArguments = toolArgumentsFrom(tool);
  return {
    schemaSize: tool.schemaSize,
    check: (context) => {
      const args = toolArguments(context);
      const schemaError = args === undefined ? NO_ARGUMENTS : context.checks.validate(tool, args);
      if (schemaError === undefined) return undefined;
      if (schemaError === TOO_LONG) return tooLongFinding(draft, "the arguments take too long to check");
      const { argument, message } = schemaError;
      const finding = ruleFinding(draft, "ARGUMENTS_INVALID", message);
      return argument === undefined ? finding : { ...finding, argument };
    },
  };
};

/** Creates the function that returns the arguments of an action that are checked: the same object for the same action. */
function toolArgumentsFrom(tool: ToolSchema): (context: EvaluationContext) => JsonObject | undefined {
  const isDeclared = tool.arguments.some(({ path }) => path === "tool");
  const withoutTool = new WeakMap<JsonObject, JsonObject>();
  return ({ arguments: args, metadata }) => {
    // If the metadata themselves are the arguments, their member `tool` names the tool and is not an argument.
    if (args === undefined || args !== metadata || isDeclared || ownValue(args, "tool") === undefined) return args;
    const known = withoutTool.get(args);
    if (known !== undefined) return known;
    const { tool: _tool, ...rest } = args;
    withoutTool.set(args, rest);
    return rest;
  };
}

/**
 * Compiles a `semantic` rule: it fires if the guard finds a violation. It decides `on_unavailable` if there is no verdict, or
 * if the guard's confidence in its verdict, whether a violation or none, is below `min_confidence`.
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
        const text = `the guard's confidence in its verdict is ${confidence}, and at least ${minConfidence} is needed`;
        return unavailableFinding(draft, text, whenUnavailable);
      }
      return violates ? violationFinding(draft, confidence) : undefined;
    },
  };
};

function violationFinding(draft: RuleDraft, confidence: number): Finding {
  return ruleFinding(draft, "GUARD_VIOLATION", `the guard finds a violation with a confidence of ${confidence}`);
}

function unavailableFinding(draft: RuleDraft, text: string, decision: Decision): Finding | undefined {
  if (decision === "allow") return undefined;
  return { ...ruleFinding(draft, "GUARD_UNAVAILABLE", text), decision };
}
