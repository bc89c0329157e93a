import { distance } from "fastest-levenshtein";
import { checkPattern, MAX_PATTERN_SIZE, type PatternResult } from "./patterns.ts";

/** One fault of a mandate; the fields of the message `RuleViolation`. */
export interface RuleViolation {
  /** Place in the mandate: `rules[2].conditions.rules[0].operator`. */
  readonly path: string;
  readonly reason: RuleViolationReason;
  /** One sentence that names the value and the accepted values. */
  readonly message: string;
  /** The nearest value that would be right. */
  readonly suggestion?: string;
  /** Place in the rule's `when`, from 1; the column counts characters. */
  readonly line?: number;
  readonly column?: number;
}

/** Every reason for which a mandate does not compile, with its meaning. The words are stable. */
export const RULE_VIOLATION_REASONS = {
  APPROVER_GROUP_NOT_FOUND: "there is no approver group of the name that `approvers` gives",
  ARGUMENTS_MISSING: "a provenance rule names no arguments",
  ARGUMENT_REPEATED: "a provenance rule names an argument twice",
  CONDITIONS_MISSING: "the rule needs conditions and has none",
  CONDITION_FIELD_NOT_APPLICABLE: "the field has no meaning for a rule of this type",
  CONDITION_OPERATOR_UNKNOWN: "conditions are joined by `AND` or `OR`",
  CURRENCY_INVALID: "the currency is blank",
  CURRENCY_NOT_FITTING: "only a numeric argument has a currency",
  CURRENCY_NOT_IN_SCHEMA: "the tool's schema has no argument that tells the amount's currency",
  CURRENCY_REQUIRED: "a budget names no currency",
  DECISION_MISSING: "the rule does not say what it decides",
  DECISION_NOT_FITTING: "a rule of this type never allows",
  FIELD_INVALID: "the field is not a path",
  FIELD_MISSING: "the condition names no field",
  FIELD_NOT_IN_SCHEMA: "the tool's schema has no such argument",
  FIELD_NOT_NUMERIC: "a budget adds numbers, and the tool's schema has none there",
  FIRES_NOT_FITTING: "`seen_untrusted` is given for a kind that is compared with trusted sources alone",
  HOURS_EMPTY: "a schedule ends when it begins",
  HOURS_MISSING: "a schedule names neither days nor hours",
  KIND_NOT_FITTING: "the argument has no values of the kind",
  KIND_UNKNOWN: "there is no such kind of values",
  LIMIT_MISSING: "a limit that the rule needs is not given",
  LIMIT_OUT_OF_RANGE: "a number or a list is outside what the service accepts",
  LIST_NOT_FOUND: "there is no list of the name that the condition gives",
  MATCH_EXCLUDED: "everything that an action-type pattern covers is excluded",
  MATCH_INVALID: "an action-type pattern is blank, is no name, or has more than four `*`",
  MATCH_MISSING: "the rule needs action-type patterns and has none",
  OTHER_CURRENCY_UNKNOWN: "`other_currency` is neither `violate` nor `ignore`",
  MODE_MISSING: "a sequence rule does not say what it looks for",
  OUTCOME_REPEATED: "`count_outcomes` names a status twice",
  OUTCOME_UNKNOWN: "`count_outcomes` names what is no status of an outcome",
  OPERATOR_NOT_FITTING: "the operator does not fit the argument's type",
  OPERATOR_UNKNOWN: "there is no such operator",
  PATTERN_INVALID: "the pattern is not an RE2 expression",
  PATTERN_MISSING: "a content rule has no patterns",
  PROMPT_MISSING: "a semantic rule has no text to judge by",
  RELEASE_UNKNOWN: "`release` is neither `reported` nor `confirmed`",
  RANGE_NOT_ORDERED: "the lower end of the range is above its upper end",
  SCHEMA_NOT_CHECKABLE:
    "arguments cannot be checked against the tool's schema, for example because of a pattern that RE2 does not accept",
  SCOPE_TARGET_MISSING: "the scope needs a department or an agent and none is named",
  SCOPE_TARGET_NOT_APPLICABLE: "a department or agent is named that the scope does not use",
  SOURCES_MISSING: "a provenance rule names no trusted source",
  SOURCE_REPEATED: "a provenance rule names a source twice",
  SOURCE_UNKNOWN: "there is no such source of values",
  SUMS_MISSING: "a budget does not say which amounts it adds",
  TIME_INVALID: "the time is not written as `HH:MM`",
  TIME_ZONE_MISSING: "a schedule names no time zone",
  TIME_ZONE_UNKNOWN: "there is no such time zone",
  TOO_FEW_APPROVERS: "`approvers` asks for more people than its groups have",
  TOOL_MISSING: "a rule on arguments, or a sum of a budget, names no tool",
  ON_MISSING_UNKNOWN: "`on_missing` is neither `ignore` nor `violate`",
  TOOL_NAME_INVALID: "a rule names a tool by a name that no tool can have",
  TOOL_NOT_REGISTERED: "a rule on arguments names a tool without a registered schema",
  TYPE_MISSING: "the rule has neither a type nor a tool to choose one by",
  TYPE_UNKNOWN: "there is no such rule type",
  VALUE_MISSING: "the operator needs a value and none is given",
  VALUE_NOT_APPLICABLE: "the operator takes no value",
  VALUE_NOT_IN_ENUM: "the tool's schema does not allow the value",
  VALUE_TYPE: "the value does not have the type that the operator or the argument needs",
  WHEN_NOT_FITTING: "a part of the `when` expression does not fit where it stands",
  WHEN_SYNTAX: "the `when` expression is not written as CEL writes it",
  WHEN_TOO_LARGE: "the `when` expression is too long, has too many parts or nests too deep",
  WHEN_UNKNOWN: "the `when` expression names a variable, function or member that there is not",
  VIOLATIONS_NOT_LISTED: "the mandate has more violations than are listed",
} as const;

/** A reason for which a mandate does not compile. */
export type RuleViolationReason = keyof typeof RULE_VIOLATION_REASONS;

/** Maximum instructions that the patterns of one mandate compile to. */
const MAX_INSTRUCTIONS = 8_000;
/** Maximum number of suggestions for one mandate; each compares a text with all candidates. */
const MAX_SUGGESTIONS = 10;
/** Maximum number of violations that are listed of one mandate, besides the first of each rule. */
const MAX_LISTED = 100;

/** Budget for compiling one mandate, all of its rules together. */
export class CompileBudget {
  #instructions = 0;
  #suggestions = 0;
  #listed = 0;
  #unlisted = 0;

  /** Instructions of the patterns so far. */
  get instructions(): number {
    return this.#instructions;
  }

  /** Checks a pattern as `checkPattern` does, and that the mandate's patterns are not too large together. */
  checkPattern(pattern: string, options?: { readonly ignoreCase: boolean }): PatternResult {
    if (this.#instructions > MAX_INSTRUCTIONS) {
      const message = `comes after patterns that compile to more than ${MAX_INSTRUCTIONS} instructions; split the mandate`;
      return { kind: "invalid", message };
    }
    const checked = checkPattern(pattern, options);
    // A refused pattern took as much time.
    this.#instructions += checked.kind === "compiled" ? checked.size : MAX_PATTERN_SIZE;
    return checked;
  }

  /** Finds the nearest candidate as `nearest` does; undefined once the mandate has had its suggestions. */
  nearest(text: string, candidates: Iterable<string>): string | undefined {
    return ++this.#suggestions > MAX_SUGGESTIONS ? undefined : nearest(text, candidates);
  }

  /** Counts a violation. Returns true if it is to be listed: the mandate has its number of them, and each rule its first. */
  lists(isFirst: boolean): boolean {
    if (isFirst || this.#listed < MAX_LISTED) {
      this.#listed++;
      return true;
    }
    this.#unlisted++;
    return false;
  }

  /** Violation that says how many more there are than are listed; empty if all are. */
  unlisted(): readonly RuleViolation[] {
    if (this.#unlisted === 0) return [];
    const message = `${this.#unlisted} more violations are not listed; correct the listed ones first`;
    return [{ path: "rules", reason: "VIOLATIONS_NOT_LISTED", message }];
  }
}

/** Violations of one rule, collected while it is compiled. */
export class Violations {
  readonly #noted: RuleViolation[] = [];
  #count = 0;
  /** Budget of the rule's mandate. */
  readonly budget: CompileBudget;

  /** `budget` default: one of its own. */
  constructor(budget = new CompileBudget()) {
    this.budget = budget;
  }

  /** Number of violations so far. */
  get count(): number {
    return this.#count;
  }

  /** Notes one violation; with a suggestion the message ends in `did you mean …?`. */
  add(path: string, reason: RuleViolationReason, message: string, suggestion?: string): void {
    this.addAt(path, reason, message, {}, suggestion);
  }

  /** Notes one violation with its place in the rule's `when`. */
  addAt(
    path: string,
    reason: RuleViolationReason,
    message: string,
    place: { readonly line?: number; readonly column?: number },
    suggestion?: string,
  ): void {
    if (!this.budget.lists(this.#count++ === 0)) return;
    if (suggestion === undefined) this.#noted.push({ path, reason, message, ...place });
    else
      this.#noted.push({ path, reason, message: `${message}; did you mean \`${suggestion}\`?`, suggestion, ...place });
  }

  /** Lists the violations, as many as the budget allows, by path (numbers in it by value), then reason. */
  sorted(): readonly RuleViolation[] {
    const placed = this.#noted.map((violation) => ({ violation, place: pieces(violation.path) }));
    placed.sort(
      ({ violation: a, place: left }, { violation: b, place: right }) =>
        comparePlaces(left, right) ||
        (a.line ?? 0) - (b.line ?? 0) ||
        (a.column ?? 0) - (b.column ?? 0) ||
        compareTexts(a.reason, b.reason) ||
        compareTexts(a.message, b.message),
    );
    return placed.map(({ violation }) => violation);
  }
}

/** Orders `rules[2]` before `rules[10]`, and a place before its parts. */
function comparePlaces(left: readonly string[], right: readonly string[]): number {
  for (let index = 0; index < Math.min(left.length, right.length); index++) {
    const [one = "", other = ""] = [left[index], right[index]];
    const difference = Number(one) - Number(other) || compareTexts(one, other);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

function pieces(path: string): readonly string[] {
  return path.match(/\d+|\D+/g) ?? [];
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Longest text that is looked up, and most candidates compared: bounds the time spent on one suggestion. */
const MAX_LENGTH = 128;
const MAX_CANDIDATES = 5000;

/**
 * Finds the candidate nearest to a text by edit distance, ignoring case. Near is within a third of the text's length, within
 * one edit of a short text, or with two letters swapped. Returns undefined if none is near; among equals, the first in
 * code-unit order.
 */
export function nearest(text: string, candidates: Iterable<string>): string | undefined {
  const wanted = text.trim().toLowerCase();
  if (wanted === "" || wanted.length > MAX_LENGTH) return undefined;
  const reach = Math.max(1, Math.floor(wanted.length / 3));
  let best: { readonly candidate: string; readonly edits: number } | undefined;
  for (const candidate of [...candidates].slice(0, MAX_CANDIDATES)) {
    if (Math.abs(candidate.length - wanted.length) > reach) continue;
    const edits = distance(wanted, candidate.toLowerCase());
    const isNear = edits <= reach || (edits === 2 && letters(wanted) === letters(candidate.toLowerCase()));
    if (!isNear || (best !== undefined && edits > best.edits)) continue;
    if (best === undefined || edits < best.edits || candidate < best.candidate) best = { candidate, edits };
  }
  return best?.candidate;
}

function letters(text: string): string {
  return [...text].sort().join("");
}
