import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { type Condition, OnMissing, type Rule, RuleType } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { type ArgumentStep, argumentPath, argumentSteps, memberPath } from "../../notation/argument-path.ts";
import { fold } from "../../text/fold.ts";
import { type Checks, TOO_LONG } from "../checks.ts";
import {
  ARRAY,
  INTEGER,
  isJsonObject,
  maskFromTypes,
  NULL,
  NUMBER,
  OBJECT,
  ownValue,
  type TypeMask,
  typeBit,
  typesFromMask,
  typeWord,
} from "../json-value.ts";
import type { ListLookup } from "../lists/named-list.ts";
import { OPERATOR_NAMES, OPERATORS } from "../operators/index.ts";
import { type Literal, literalList, type Operator, type Scalar, type Test } from "../operators/operator.ts";
import { shortened } from "../patterns.ts";
import type {
  ArgumentChange,
  CompiledRule,
  ConditionResult,
  ConditionViolation,
  EvaluationContext,
  Finding,
  FlattenedArgument,
} from "../types.ts";
import type { Violations } from "../violations.ts";
import { type ArgumentIndex, checkExpression, checkLiteral, literalFrom } from "./literal.ts";
import { describe, type RuleBodyCompiler, type RuleDraft } from "./rule-draft.ts";
import { trustedLists } from "./trusted-sources.ts";

const MAX_CONDITIONS = 100;
/** Words that join conditions. */
export const JOINTS = ["AND", "OR"];
const LISTS_AND_OBJECTS: TypeMask = ARRAY | OBJECT;
/** Maximum characters of a value, and maximum values of a list, that a receipt shows. */
const MAX_TEXT = 80;
const MAX_ITEMS = 10;

/** A condition while it is compiled. */
interface ConditionDraft {
  readonly condition: Condition;
  /** `rules[0].conditions.rules[1]`. */
  readonly path: string;
  readonly violations: Violations;
  readonly lists: ListLookup;
}

/** A condition ready to be evaluated. */
interface CompiledCondition {
  readonly path: string;
  readonly field: string;
  /** The comparison: `amount > 500 USD`. */
  readonly holds: string;
  /** A change of the argument after which the comparison is false; undefined if no change is certain. */
  readonly change: ArgumentChange | undefined;
  /** The types that the argument may have, in words. */
  readonly types: string;
  /** End of the sentence that a value is not of these types, where its content is at fault; empty without a list. */
  readonly comparedBy: string;
  /** The currency as shown; undefined for a condition without one. */
  readonly currency: string | undefined;
  /** MUST NOT throw on any context. */
  readonly judge: (context: EvaluationContext) => ConditionResult;
}

/** Compiles the conditions of an `argument` or `metadata` rule. */
export const compileConditional: RuleBodyCompiler = (draft) => {
  const before = draft.violations.count;
  checkJoint(draft);
  checkCount(draft);
  const conditions = compileConditions(draft);
  if (draft.violations.count > before) return undefined;
  const check = draft.conditions.operator === "OR" ? anyCheck(draft, conditions) : allCheck(draft, conditions);
  return { check, judges: conditions.map(({ judge }) => judge) };
};

function checkJoint({ conditions, path, violations }: RuleDraft): void {
  if (conditions.operator === "" || JOINTS.includes(conditions.operator)) return;
  const message = `conditions are joined by \`AND\` or \`OR\`, not by \`${conditions.operator}\``;
  const suggestion = violations.budget.nearest(conditions.operator, JOINTS);
  violations.add(`${path}.conditions.operator`, "CONDITION_OPERATOR_UNKNOWN", message, suggestion);
}

function checkCount({ conditions, path, violations }: RuleDraft): void {
  const { length } = conditions.rules;
  const at = `${path}.conditions.rules`;
  if (length === 0) violations.add(at, "CONDITIONS_MISSING", "the rule needs at least one condition");
  if (length <= MAX_CONDITIONS) return;
  violations.add(at, "LIMIT_OUT_OF_RANGE", `${length} conditions are more than ${MAX_CONDITIONS}`);
}

function checkOnMissing({ condition: { onMissing }, path, violations }: ConditionDraft): void {
  if (OnMissing[onMissing] !== undefined) return;
  violations.add(
    `${path}.on_missing`,
    "ON_MISSING_UNKNOWN",
    "`on_missing` must be `ignore` or `violate`, or be left out",
  );
}

function compileConditions({
  type,
  tool,
  decision,
  conditions,
  path,
  violations,
  lists,
}: RuleDraft): readonly CompiledCondition[] {
  const known: ArgumentIndex = new Map(tool?.arguments.map((argument) => [argument.path, argument]));
  const compiled = conditions.rules.slice(0, MAX_CONDITIONS).map((condition, index) => {
    const draft = { condition, path: `${path}.conditions.rules[${index}]`, violations, lists };
    checkOnMissing(draft);
    return type === RuleType.ARGUMENT
      ? argumentCondition(draft, known, decision === "allow")
      : metadataCondition(draft, decision === "allow");
  });
  return compiled.filter((condition) => condition !== undefined);
}

/** True for `block` and `escalate` if the comparison is true or violated, for `allow` only if it is true. */
function counts(result: ConditionResult, isAllow: boolean): boolean {
  return typeof result === "string" ? !isAllow : result;
}

/**
 * Creates the check that fires if all conditions hold, and reports each. A violation comes first: it says more than a true
 * comparison.
 */
function allCheck({ rule, decision }: RuleDraft, conditions: readonly CompiledCondition[]): CompiledRule["check"] {
  const isAllow = decision === "allow";
  return (context) => {
    const violated: Finding[] = [];
    const held: Finding[] = [];
    for (const condition of conditions) {
      const result = condition.judge(context);
      if (!counts(result, isAllow)) return undefined;
      (result === true ? held : violated).push(conditionFinding(rule, condition, result, context));
    }
    const [first, ...others] = [...violated, ...held];
    return first && { ...first, others };
  };
}

/** Creates the check that fires if at least one condition holds, and reports the first that does. */
function anyCheck({ rule, decision }: RuleDraft, conditions: readonly CompiledCondition[]): CompiledRule["check"] {
  const isAllow = decision === "allow";
  return (context) => {
    const results = conditions.map((condition) => ({ condition, result: condition.judge(context) }));
    const holding = results.filter(({ result }) => counts(result, isAllow));
    const [first] = holding;
    if (first === undefined) return undefined;
    const { change: _, ...finding } = conditionFinding(rule, first.condition, first.result, context);
    const { change } = first.condition;
    return holding.length === 1 && change !== undefined ? { ...finding, change } : finding;
  };
}

function conditionFinding(
  rule: Rule,
  condition: CompiledCondition,
  result: ConditionResult,
  context: EvaluationContext,
): Finding {
  return {
    code: typeof result === "string" ? result : "CONDITION_HELD",
    message: describe(rule, resultText(condition, result, context)),
    rule: condition.path,
    argument: condition.field,
    ...(condition.change !== undefined && { change: condition.change }),
  };
}

function resultText(
  { field, types, comparedBy, currency, holds }: CompiledCondition,
  result: ConditionResult,
  { arguments: args }: EvaluationContext,
): string {
  switch (result) {
    case "ARGUMENT_MISSING":
      return `\`${field}\` is missing`;
    case "ARGUMENT_WRONG_TYPE":
      return wrongTypeText(field, foundText(field, args), types, comparedBy);
    case "CURRENCY_MISSING":
      return `\`${field}\` comes without a currency`;
    case "CURRENCY_DIFFERS":
      return `\`${field}\` is not in ${currency}`;
    case TOO_LONG:
      return `\`${field}\` takes too long to check, so the rule fires`;
    default:
      return `\`${holds}\` holds`;
  }
}

function wrongTypeText(field: string, found: string, types: string, comparedBy: string): string {
  const isText = found === "" || found.startsWith("text") || found.startsWith("a list");
  return `\`${field}\` is ${found}not ${types}${isText ? comparedBy : ""}`;
}

/** Names the type of the value at a path, with a comma; empty where the path leads into an array. */
function foundText(field: string, args: JsonObject | undefined): string {
  let value: JsonValue | undefined = args;
  for (const step of argumentSteps(field) ?? [null]) {
    if (step === null) return "";
    if (!isJsonObject(value)) break;
    value = ownValue(value, step);
  }
  return value === undefined ? "" : `${typeWord(value)}, `;
}

function metadataCondition(draft: ConditionDraft, isAllow: boolean): CompiledCondition | undefined {
  const { condition, path, violations } = draft;
  const before = violations.count;
  const operator = operatorFrom(draft);
  const steps = metadataSteps(draft);
  if (condition.currency !== undefined) {
    const message = "a rule without a registered schema cannot tell an amount's currency";
    violations.add(`${path}.currency`, "CONDITION_FIELD_NOT_APPLICABLE", message);
  }
  const literal = operator && readLiteral(draft, operator, false);
  if (violations.count > before || operator === undefined || steps === undefined) return undefined;
  const plan = {
    steps,
    refuses: LISTS_AND_OBJECTS & ~operator.fits,
    readsElements: operator.readsElements === true,
    test: operator.untyped(literal, isAllow),
    whenMissing: untypedWhenMissing(condition, operator),
    isAllow,
  };
  return {
    path,
    field: condition.field,
    holds: comparisonText(condition.field, operator.name, literal, undefined),
    change: undefined,
    types: (operator.fits & ARRAY) === 0 ? "a single value" : "a single value or a list of them",
    comparedBy: listText(operator, literal),
    currency: undefined,
    judge: (context) => judgeMetadata(plan, context.arguments, context.metadata, context.checks),
  };
}

function untypedWhenMissing({ onMissing }: Condition, operator: Operator): boolean | "ARGUMENT_MISSING" {
  const matches = operator.untypedMatchesMissing === true;
  if (asksPresence(operator)) return matches;
  return onMissing === OnMissing.VIOLATE ? "ARGUMENT_MISSING" : matches && onMissing !== OnMissing.IGNORE;
}

function metadataSteps({ condition, path, violations }: ConditionDraft): readonly ArgumentStep[] | undefined {
  if (condition.field === "") {
    violations.add(`${path}.field`, "FIELD_MISSING", "no key is named");
    return undefined;
  }
  const steps = argumentSteps(condition.field);
  if (steps !== undefined) return steps;
  const message = `\`${condition.field}\` is not a key path such as \`customer.email\` or \`lines[].amount\``;
  violations.add(`${path}.field`, "FIELD_INVALID", message);
  return undefined;
}

function argumentCondition(
  draft: ConditionDraft,
  known: ArgumentIndex,
  isAllow: boolean,
): CompiledCondition | undefined {
  const { condition, path, violations } = draft;
  const operator = operatorFrom(draft);
  const argument = argumentFrom(draft, known);
  if (operator === undefined || argument === undefined) return undefined;
  const before = violations.count;
  checkFit(draft, operator, argument);
  const literal = readLiteral(draft, operator, true);
  if (violations.count === before) checkLiteral(literal, operator, argument, known, `${path}.value`, violations);
  const siblings = currencySiblings(draft, argument, known);
  if (violations.count > before) return undefined;
  const declared = maskFromTypes(argument.types);
  const elements = maskFromTypes(known.get(`${argument.path}[]`)?.types ?? ["string", "number", "boolean", "null"]);
  const plan = {
    steps: typedSteps(argument.path, known),
    accepts: declared & operator.fits,
    declared,
    elements: operator.readsElements ? elements & ~LISTS_AND_OBJECTS : undefined,
    test: operator.typed(literal, isAllow),
    whenMissing: operator.whenMissing ?? (ignoresMissing(condition) ? false : "ARGUMENT_MISSING"),
    currency: condition.currency === undefined ? undefined : { code: fold(condition.currency), siblings },
  } as const;
  return {
    path,
    field: argument.path,
    holds: comparisonText(argument.path, operator.name, literal, condition.currency),
    change: changeFrom(argument, operator, literal, condition.currency),
    types: acceptedText(plan),
    comparedBy: listText(operator, literal),
    currency: condition.currency?.trim().toUpperCase(),
    judge: (context) => judgeArgument(plan, context.arguments, context.checks),
  };
}

function argumentFrom({ condition, path, violations }: ConditionDraft, known: ArgumentIndex) {
  const argument = known.get(condition.field);
  if (argument !== undefined) return argument;
  if (condition.field === "") violations.add(`${path}.field`, "FIELD_MISSING", "no argument is named");
  else {
    const message = `the tool's schema has no argument \`${condition.field}\``;
    violations.add(
      `${path}.field`,
      "FIELD_NOT_IN_SCHEMA",
      message,
      violations.budget.nearest(condition.field, known.keys()),
    );
  }
  return undefined;
}

function checkFit({ path, violations }: ConditionDraft, operator: Operator, argument: FlattenedArgument): void {
  if (asksPresence(operator)) return;
  const types = maskFromTypes(argument.types);
  const compared = types & ~NULL;
  if ((compared & operator.fits) !== 0) return;
  const fitting = [...OPERATORS.values()]
    .filter(({ fits }) => (fits & compared) !== 0)
    .map(({ name }) => `\`${name}\``);
  const reason = `\`${operator.name}\` does not fit \`${argument.path}\`, which is ${typesText(types)}`;
  violations.add(`${path}.operator`, "OPERATOR_NOT_FITTING", `${reason}; it takes ${fitting.join(" ")}`);
}

/** Lists the arguments beside an amount that may hold its currency. */
function currencySiblings(
  { condition, path, violations }: ConditionDraft,
  argument: FlattenedArgument,
  known: ArgumentIndex,
): readonly string[] {
  if (condition.currency === undefined) return [];
  const at = `${path}.currency`;
  if (fold(condition.currency) === "") violations.add(at, "CURRENCY_INVALID", "the currency is blank");
  if ((maskFromTypes(argument.types) & NUMBER) === 0) {
    const message = `\`${argument.path}\` is ${typesText(maskFromTypes(argument.types))} and has no currency`;
    violations.add(at, "CURRENCY_NOT_FITTING", message);
    return [];
  }
  const { parent } = placeOf(argument.path);
  const names = currencyMembers(argument.path);
  const siblings = names.filter((sibling) => known.has(memberPath(parent, sibling)));
  if (siblings.length === 0) {
    const wanted = names.map((sibling) => `\`${memberPath(parent, sibling)}\``).join(", ");
    violations.add(at, "CURRENCY_NOT_IN_SCHEMA", `the tool's schema has none of the arguments ${wanted}`);
  }
  for (const sibling of siblings) {
    checkCurrency(condition.currency, known.get(memberPath(parent, sibling)), at, violations);
  }
  return siblings;
}

/** Lists the members of an amount's object that may have its currency. */
export function currencyMembers(path: string): readonly string[] {
  return [...new Set(["currency", "currency_code", `${placeOf(path).name}_currency`])];
}

/** Notes a currency that the schema of the argument beside an amount does not allow. */
export function checkCurrency(
  code: string,
  sibling: FlattenedArgument | undefined,
  at: string,
  violations: Violations,
): void {
  const allowed = sibling?.enum.filter((value) => typeof value === "string") ?? [];
  if (allowed.length === 0 || allowed.some((value) => fold(value) === fold(code))) return;
  const message = `\`${sibling?.path}\` does not allow \`${code}\``;
  violations.add(at, "VALUE_NOT_IN_ENUM", message, violations.budget.nearest(code, allowed));
}

/** Finds the object that holds an argument, and the argument's name in it. Elements of an array have the array's place. */
export function placeOf(path: string): { readonly parent: string; readonly name: string } {
  const steps = argumentSteps(path) ?? [];
  const last = steps.findLastIndex((step) => step !== null);
  return { parent: argumentPath(steps.slice(0, last)), name: steps[last] ?? "" };
}

/** Returns the steps of a path in a schema, each with the types of the value that it starts from. */
export function typedSteps(path: string, known: ArgumentIndex): readonly TypedStep[] {
  const steps = argumentSteps(path) ?? [];
  return steps.map((step, index) => {
    const parent = known.get(argumentPath(steps.slice(0, index)));
    return { step, from: index === 0 || parent === undefined ? OBJECT : maskFromTypes(parent.types) };
  });
}

function operatorFrom({ condition, path, violations }: ConditionDraft): Operator | undefined {
  const operator = OPERATORS.get(condition.operator);
  if (operator !== undefined) return operator;
  const message = condition.operator === "" ? "no operator is given" : `there is no operator \`${condition.operator}\``;
  violations.add(
    `${path}.operator`,
    "OPERATOR_UNKNOWN",
    message,
    violations.budget.nearest(condition.operator, OPERATOR_NAMES),
  );
  return undefined;
}

function readLiteral(draft: ConditionDraft, operator: Operator, isTyped: boolean): Literal {
  const { condition, path, violations } = draft;
  const read = literalFrom(condition.value, operator.shape, isTyped);
  if (read.kind === "literal") {
    checkExpression(read.literal, operator, `${path}.value`, violations);
    if (operator.shape === "list") checkList(draft, String(read.literal));
    return read.literal;
  }
  violations.add(`${path}.value`, read.reason, read.message);
  return undefined;
}

/** A text in quotes that may be the name of a list. */
const QUOTED_NAME = /["']([a-z0-9._-]{1,63})["']/g;

/**
 * Returns the names of the lists that a rule compares with, whether it compiles or not. Of an expression that looks into lists it MAY
 * return other texts.
 */
export function listsNamedBy({ conditions, when = "" }: Rule): readonly string[] {
  const named = (conditions?.rules ?? []).flatMap(({ operator, value }) =>
    OPERATORS.get(operator)?.shape === "list" && value?.kind.case === "stringValue" ? [value.kind.value] : [],
  );
  const quoted = when.includes("in_list") ? [...when.matchAll(QUOTED_NAME)].map(([, name = ""]) => name) : [];
  return [...new Set([...named, ...quoted, ...trustedLists(conditions?.trusted ?? [])])];
}

function checkList({ path, violations, lists }: ConditionDraft, name: string): void {
  if (lists.get(name) !== undefined) return;
  const message = `there is no list \`${shortened(name)}\`; create it first`;
  violations.add(`${path}.value`, "LIST_NOT_FOUND", message, violations.budget.nearest(name, lists.names()));
}

function ignoresMissing(condition: Condition): boolean {
  return condition.onMissing === OnMissing.IGNORE;
}

function asksPresence(operator: Operator): boolean {
  return operator.whenMissing !== undefined;
}

/** Writes types in words: `string`, `number or null`. */
function typesText(types: TypeMask): string {
  const names = typesFromMask(types);
  return names.length === 7 ? "of any type" : names.join(" or ") || "of no type";
}

/** Writes the types that a typed condition takes: `string or a list of string`. */
function acceptedText({ accepts, elements }: Pick<ArgumentPlan, "accepts" | "elements">): string {
  if (elements === undefined || (accepts & ARRAY) === 0) return typesText(accepts);
  const single = accepts & ~ARRAY;
  const list = `a list of ${typesText(elements & ~NULL)}`;
  return single === 0 ? list : `${typesText(single)} or ${list}`;
}

/** Writes what else the types need: a text that the list's kind can read. Empty for an operator on no list. */
function listText({ shape }: Operator, literal: Literal): string {
  return shape === "list" ? ` that the list ${literalText(literal)} can compare` : "";
}

/** Writes a comparison as it goes on the receipt: `amount > 500 USD`. */
function comparisonText(field: string, relation: string, literal: Literal, currency: string | undefined): string {
  const unit = currency === undefined ? "" : ` ${currency.trim().toUpperCase()}`;
  return literal === undefined ? `${field} ${relation}${unit}` : `${field} ${relation} ${literalText(literal)}${unit}`;
}

/**
 * Returns a change of the argument itself after which the comparison is false; undefined if no change is certain, as in an
 * array.
 */
function changeFrom(
  { path: field, types, enum: allowed }: FlattenedArgument,
  { opposite }: Operator,
  literal: Literal,
  currency: string | undefined,
): ArgumentChange | undefined {
  const path = (argumentSteps(field) ?? [null]).filter((step) => step !== null);
  const isInteger = (maskFromTypes(types) & NUMBER) === INTEGER;
  const found = field.includes("[]") ? undefined : opposite?.(literal, { isInteger, enum: allowed });
  if (found === undefined || found.values.length === 0 || found.values.length > MAX_ITEMS) return undefined;
  return { path, values: found.values, text: comparisonText(field, found.relation, literal, currency) };
}

function literalText(literal: Literal): string {
  const values = literalList(literal);
  const items = values.slice(0, MAX_ITEMS).map(scalarText).join(", ");
  if (!Array.isArray(literal)) return items;
  return `[${items}${values.length > MAX_ITEMS ? ", …" : ""}]`;
}

function scalarText(value: Scalar): string {
  if (typeof value !== "string") return String(value);
  const points = [...value.slice(0, MAX_TEXT * 2)];
  return JSON.stringify(points.length > MAX_TEXT ? `${points.slice(0, MAX_TEXT).join("")}…` : value);
}

/** One step of a typed condition's path to its argument. */
export interface TypedStep {
  readonly step: ArgumentStep;
  /** The types that the schema gives the value the step starts from. */
  readonly from: TypeMask;
}

/** A condition checked against the tool's schema. */
export interface ArgumentPlan {
  readonly steps: readonly TypedStep[];
  /** The types of the argument that both the schema and the operator admit. */
  readonly accepts: TypeMask;
  /** The types that the schema gives the argument. */
  readonly declared: TypeMask;
  /** The types an array's elements MUST have; undefined if the operator does not read them. */
  readonly elements: TypeMask | undefined;
  readonly test: Test;
  readonly whenMissing: ConditionResult;
  /** The currency, as compared, and the names of the sibling arguments that may hold it. */
  readonly currency: { readonly code: string; readonly siblings: readonly string[] } | undefined;
}

/**
 * Judges a call's arguments. In an array, a violation of any element counts before a comparison that holds, so that an `allow`
 * rule needs every element to be clean.
 */
export function judgeArgument(plan: ArgumentPlan, args: JsonObject | undefined, checks: Checks): ConditionResult {
  return args === undefined ? plan.whenMissing : walkArgument(plan, 0, args, args, checks);
}

function walkArgument(
  plan: ArgumentPlan,
  depth: number,
  value: JsonValue | undefined,
  parent: JsonObject,
  checks: Checks,
): ConditionResult {
  const at = plan.steps[depth];
  if (at === undefined) return judgeValue(plan, value, parent, checks);
  if (at.step === null && Array.isArray(value)) return walkElements(plan, depth, value, parent, checks);
  if (at.step !== null && isJsonObject(value))
    return walkArgument(plan, depth + 1, ownValue(value, at.step), value, checks);
  // The path ends here: the argument is missing, unless the value has a type that the schema does not admit.
  if (value === undefined || value === null) return plan.whenMissing;
  return typeBit(value) & at.from ? plan.whenMissing : "ARGUMENT_WRONG_TYPE";
}

function walkElements(
  plan: ArgumentPlan,
  depth: number,
  array: readonly JsonValue[],
  parent: JsonObject,
  checks: Checks,
): ConditionResult {
  if (array.length === 0) return plan.whenMissing;
  if (!checks.comparisons.walks(array)) return TOO_LONG;
  let holds = false;
  for (const element of array) {
    const result = walkArgument(plan, depth + 1, element, parent, checks);
    if (typeof result === "string") return result;
    holds ||= result;
  }
  return holds;
}

function judgeValue(
  plan: ArgumentPlan,
  value: JsonValue | undefined,
  parent: JsonObject,
  checks: Checks,
): ConditionResult {
  if (!checks.comparisons.looksAt(value)) return TOO_LONG;
  if (value === undefined || (value === null && (plan.declared & NULL) === 0)) return plan.whenMissing;
  if ((typeBit(value) & plan.accepts) === 0) return "ARGUMENT_WRONG_TYPE";
  const { elements, currency } = plan;
  if (elements !== undefined && Array.isArray(value) && value.some((element) => (typeBit(element) & elements) === 0)) {
    return "ARGUMENT_WRONG_TYPE";
  }
  const violation = currency && currencyViolation(currency, parent, checks);
  return violation ?? plan.test(value, checks);
}

// Every sibling present must agree, so that a second one cannot contradict the first.
function currencyViolation(
  { code, siblings }: NonNullable<ArgumentPlan["currency"]>,
  parent: JsonObject,
  { comparisons }: Checks,
): ConditionViolation | typeof TOO_LONG | undefined {
  const present = siblings
    .map((name) => ownValue(parent, name))
    .filter((value) => value !== undefined && value !== null);
  if (present.length === 0) return "CURRENCY_MISSING";
  if (!present.every((value) => comparisons.looksAt(value))) return TOO_LONG;
  const agrees = present.every((value) => typeof value === "string" && comparisons.comparableFrom(value) === code);
  return agrees ? undefined : "CURRENCY_DIFFERS";
}

/** A condition without a schema. */
export interface MetadataPlan {
  readonly steps: readonly ArgumentStep[];
  /** The types that the operator cannot compare, even as text. */
  readonly refuses: TypeMask;
  /** True if the operator compares the elements of a list, which are then single values. */
  readonly readsElements: boolean;
  readonly test: Test;
  /** Result on a missing value, null included. */
  readonly whenMissing: boolean | "ARGUMENT_MISSING";
  /** True for a rule that allows: it needs every source of the value to be clean. */
  readonly isAllow: boolean;
}

type MetadataResult = MetadataPlan["whenMissing"] | "ARGUMENT_WRONG_TYPE" | typeof TOO_LONG;

/**
 * Judges the arguments, or the metadata if the arguments do not have the path's first member. Where both have it, each is
 * judged and the stricter result counts, so that neither hides the other. An array holds if any of its elements does; an element
 * of a wrong type counts before.
 */
export function judgeMetadata(
  plan: MetadataPlan,
  args: JsonObject | undefined,
  metadata: JsonObject | undefined,
  checks: Checks,
): ConditionResult {
  const [first = ""] = plan.steps;
  const has = (source: JsonObject | undefined): boolean =>
    source !== undefined && first !== null && (ownValue(source, first) ?? null) !== null;
  if (!has(args)) return walkMetadata(plan, 0, metadata, checks);
  const result = walkMetadata(plan, 0, args, checks);
  const isDecided = result !== plan.isAllow;
  if (args === metadata || isDecided || !has(metadata)) return result;
  return walkMetadata(plan, 0, metadata, checks);
}

function walkMetadata(plan: MetadataPlan, depth: number, value: JsonValue | undefined, checks: Checks): MetadataResult {
  if (value === undefined || value === null) return plan.whenMissing;
  const step = plan.steps[depth];
  if (step === undefined) return judgeUntyped(plan, value, checks);
  if (step !== null) {
    return isJsonObject(value) ? walkMetadata(plan, depth + 1, ownValue(value, step), checks) : plan.whenMissing;
  }
  if (!Array.isArray(value) || value.length === 0) return plan.whenMissing;
  if (!checks.comparisons.walks(value)) return TOO_LONG;
  const results = value.map((element) => walkMetadata(plan, depth + 1, element, checks));
  if (results.includes("ARGUMENT_WRONG_TYPE")) return "ARGUMENT_WRONG_TYPE";
  return results.includes(true) || (results.find((result) => typeof result === "string") ?? false);
}

function judgeUntyped(
  { refuses, readsElements, test }: MetadataPlan,
  value: JsonValue,
  checks: Checks,
): MetadataResult {
  if (!checks.comparisons.looksAt(value)) return TOO_LONG;
  const isWrong = (each: JsonValue, wrong: TypeMask): boolean => (typeBit(each) & wrong) !== 0;
  if (isWrong(value, refuses)) return "ARGUMENT_WRONG_TYPE";
  const elements = readsElements && Array.isArray(value) ? value : [];
  return elements.some((each) => isWrong(each, LISTS_AND_OBJECTS)) ? "ARGUMENT_WRONG_TYPE" : test(value, checks);
}
