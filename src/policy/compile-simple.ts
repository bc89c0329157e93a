import { plainFinding, sentence } from "./finding.ts";
import { patternMessage } from "./operand.ts";
import { compileRe2 } from "./re2-pattern.ts";
import type { RuleBodyCompiler } from "./rule-draft.ts";

const MAX_SHOWN = 80;

/** Compiles an `action` rule: it fires on every action that its action types cover. */
export const compileAction: RuleBodyCompiler = ({ rule, path }) => ({
  check: (facts) =>
    plainFinding("ACTION_MATCHED", sentence(rule.description, `\`${facts.actionType}\` is covered by the rule`), path),
});

/** Compiles a `content` rule: it fires when one of its patterns is found in the content. */
export const compileContent: RuleBodyCompiler = ({ rule, path, conditions, violations }) => {
  const at = `${path}.conditions.patterns`;
  if (conditions.patterns.length === 0)
    violations.add(at, "PATTERN_MISSING", "a content rule needs at least one pattern");
  const before = violations.count();
  const searches = conditions.patterns.map((pattern, index) => {
    const expression = compileRe2(pattern);
    if (pattern.trim() === "")
      violations.add(`${at}[${index}]`, "PATTERN_INVALID", "a blank pattern would be found in everything");
    if (expression.kind === "compiled") return { pattern, found: expression.found };
    violations.add(`${at}[${index}]`, "PATTERN_INVALID", patternMessage(pattern, expression.message));
    return { pattern, found: () => false };
  });
  if (violations.count() > before || searches.length === 0) return undefined;
  return {
    check: (facts) => {
      const search = searches.find(({ found }) => found(facts.actionContent));
      if (search === undefined) return undefined;
      const shown = search.pattern.length > MAX_SHOWN ? `${search.pattern.slice(0, MAX_SHOWN)}…` : search.pattern;
      return plainFinding("CONTENT_MATCHED", sentence(rule.description, `\`${shown}\` is found in the content`), path);
    },
  };
};

/** Compiles a `trust` rule: it fires when the agent's trust is below a limit of 0 to 100. */
export const compileTrust: RuleBodyCompiler = ({ rule, path, conditions, violations }) => {
  const { below } = conditions;
  const at = `${path}.conditions.below`;
  if (below === undefined) {
    violations.add(at, "LIMIT_MISSING", "a trust rule needs the trust it starts below");
    return undefined;
  }
  if (!(below >= 0 && below <= 100)) {
    violations.add(at, "LIMIT_OUT_OF_RANGE", `\`${below}\` is no trust; it goes from 0 to 100`);
    return undefined;
  }
  return {
    check: ({ trustTenths }) => {
      // Divided, not multiplied: 1.1 * 10 is above 11, while 11 / 10 is the very number 1.1.
      const trust = trustTenths / 10;
      if (!(trust < below)) return undefined;
      return plainFinding("TRUST_BELOW", sentence(rule.description, `trust ${trust} is below ${below}`), path);
    },
  };
};
