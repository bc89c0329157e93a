import { type Condition, OnMissing } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { judgeArgument } from "./argument-condition.ts";
import { type ArgumentStep, argumentPath, argumentSteps, memberPath } from "./argument-path.ts";
import { checkOperand } from "./check-operand.ts";
import { comparableText } from "./comparable.ts";
import type { CompiledCondition } from "./compiled-condition.ts";
import { conditionText } from "./condition-text.ts";
import { nearest } from "./edit-distance.ts";
import { maskFromTypes, NULL, NUMBER, OBJECT, type TypeMask, typesFromMask } from "./json-type.ts";
import { judgeMetadata } from "./metadata-condition.ts";
import { operandFrom } from "./operand.ts";
import { OPERATOR_NAMES, OPERATORS, type Operand, type Operator } from "./operators/index.ts";
import { HELD, MISSING, NOT_HELD, type Outcome } from "./outcome.ts";
import type { FlattenedArgument } from "./types.ts";
import type { Violations } from "./violations.ts";

/** The arguments of a tool by their path. */
export type ArgumentIndex = ReadonlyMap<string, FlattenedArgument>;

/** What compiling a condition needs to know beside the condition. */
interface Scope {
  readonly condition: Condition;
  readonly path: string;
  readonly violations: Violations;
}

/** Compiles a condition on a registered tool's arguments. Notes violations and gives undefined when it does not fit. */
export function compileArgumentCondition(
  condition: Condition,
  path: string,
  known: ArgumentIndex,
  violations: Violations,
): CompiledCondition | undefined {
  const scope = { condition, path, violations };
  const operator = operatorOf(scope);
  const argument = argumentOf(scope, known);
  if (operator === undefined || argument === undefined) return undefined;
  const before = violations.count();
  checkFit(scope, operator, argument);
  const operand = operandOf(scope, operator, true);
  if (violations.count() === before) checkOperand(operand, operator, argument, known, `${path}.value`, violations);
  const siblings = currencySiblings(scope, argument, known);
  if (violations.count() > before) return undefined;
  return typedCondition(scope, operator, operand, argument, siblings, known);
}

/** Compiles a condition without a schema. Notes violations and gives undefined when it makes no sense. */
export function compileMetadataCondition(
  condition: Condition,
  path: string,
  violations: Violations,
): CompiledCondition | undefined {
  const scope = { condition, path, violations };
  const before = violations.count();
  const operator = operatorOf(scope);
  const steps = metadataSteps(scope);
  if (condition.currency !== undefined) {
    const message = "a rule without a registered schema cannot tell an amount's currency";
    violations.add(`${path}.currency`, "CONDITION_FIELD_NOT_APPLICABLE", message);
  }
  const operand = operator === undefined ? undefined : operandOf(scope, operator, false);
  if (violations.count() > before || operator === undefined || steps === undefined) return undefined;
  const matchesMissing =
    operator.untypedMatchesMissing === true && !(ignoresMissing(condition) && !asksPresence(operator));
  const plan = { steps, test: operator.untyped(operand), whenMissing: matchesMissing ? HELD : NOT_HELD } as const;
  return {
    path,
    field: condition.field,
    text: conditionText(condition.field, operator, operand, undefined),
    types: "",
    currency: undefined,
    judge: (facts) => judgeMetadata(plan, facts.arguments, facts.metadata),
  };
}

function operatorOf({ condition, path, violations }: Scope): Operator | undefined {
  const operator = OPERATORS.get(condition.operator);
  if (operator !== undefined) return operator;
  const message = condition.operator === "" ? "no operator is given" : `there is no operator \`${condition.operator}\``;
  violations.add(`${path}.operator`, "OPERATOR_UNKNOWN", message, nearest(condition.operator, OPERATOR_NAMES));
  return undefined;
}

function argumentOf({ condition, path, violations }: Scope, known: ArgumentIndex): FlattenedArgument | undefined {
  const argument = known.get(condition.field);
  if (argument !== undefined) return argument;
  if (condition.field === "") violations.add(`${path}.field`, "FIELD_MISSING", "no argument is named");
  else {
    const message = `the tool's schema has no argument \`${condition.field}\``;
    violations.add(`${path}.field`, "FIELD_NOT_IN_SCHEMA", message, nearest(condition.field, known.keys()));
  }
  return undefined;
}

function metadataSteps({ condition, path, violations }: Scope): readonly ArgumentStep[] | undefined {
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

function checkFit({ path, violations }: Scope, operator: Operator, argument: FlattenedArgument): void {
  const types = maskFromTypes(argument.types);
  const compared = asksPresence(operator) ? types : types & ~NULL;
  if (asksPresence(operator) || (compared & operator.fits) !== 0) return;
  const fitting = [...OPERATORS.values()].filter((other) => (other.fits & compared) !== 0).map((other) => other.name);
  const message = `\`${operator.name}\` does not fit \`${argument.path}\`, which is ${typeWords(types)}; it takes ${fitting.map((name) => `\`${name}\``).join(" ")}`;
  violations.add(`${path}.operator`, "OPERATOR_NOT_FITTING", message);
}

function operandOf({ condition, path, violations }: Scope, operator: Operator, isTyped: boolean): Operand {
  const read = operandFrom(condition.value, operator.shape, isTyped);
  if (read.kind === "operand") return read.operand;
  violations.add(`${path}.value`, read.reason, read.message);
  return undefined;
}

function currencySiblings(
  { condition, path, violations }: Scope,
  argument: FlattenedArgument,
  known: ArgumentIndex,
): readonly string[] {
  if (condition.currency === undefined) return [];
  const at = `${path}.currency`;
  if (comparableText(condition.currency) === "") violations.add(at, "CURRENCY_INVALID", "the currency is blank");
  if ((maskFromTypes(argument.types) & NUMBER) === 0) {
    const message = `\`${argument.path}\` is ${typeWords(maskFromTypes(argument.types))} and has no currency`;
    violations.add(at, "CURRENCY_NOT_FITTING", message);
    return [];
  }
  const { parent, name } = placeOf(argument.path);
  const names = ["currency", "currency_code", `${name}_currency`];
  const siblings = [...new Set(names)].filter((sibling) => known.has(memberPath(parent, sibling)));
  if (siblings.length === 0) {
    const wanted = names.map((sibling) => `\`${memberPath(parent, sibling)}\``).join(", ");
    violations.add(at, "CURRENCY_NOT_IN_SCHEMA", `the tool's schema has none of ${wanted}`);
  }
  for (const sibling of siblings)
    checkCurrency(condition.currency, known.get(memberPath(parent, sibling)), at, violations);
  return siblings;
}

function checkCurrency(code: string, sibling: FlattenedArgument | undefined, at: string, violations: Violations): void {
  const allowed = sibling?.enum.filter((value) => typeof value === "string") ?? [];
  if (allowed.length === 0 || allowed.some((value) => comparableText(value) === comparableText(code))) return;
  const message = `\`${sibling?.path}\` does not allow \`${code}\``;
  violations.add(at, "VALUE_NOT_IN_ENUM", message, nearest(code, allowed));
}

// The object that holds an argument, and the argument's name in it; the elements of an array have the array's place.
function placeOf(path: string): { readonly parent: string; readonly name: string } {
  const steps = argumentSteps(path) ?? [];
  const last = steps.findLastIndex((step) => step !== null);
  return { parent: argumentPath(steps.slice(0, last)), name: steps[last] ?? "" };
}

function typedCondition(
  { condition, path }: Scope,
  operator: Operator,
  operand: Operand,
  argument: FlattenedArgument,
  siblings: readonly string[],
  known: ArgumentIndex,
): CompiledCondition {
  const declared = maskFromTypes(argument.types);
  const elements = known.get(`${argument.path}[]`);
  const plan = {
    steps: typedSteps(argument.path, known),
    accepts: declared & operator.fits,
    declared,
    elements: operator.readsElements && elements ? maskFromTypes(elements.types) : undefined,
    test: operator.typed(operand),
    whenMissing: whenMissing(operator, condition),
    currency: condition.currency === undefined ? undefined : { code: comparableText(condition.currency), siblings },
  };
  return {
    path,
    field: argument.path,
    text: conditionText(argument.path, operator, operand, condition.currency),
    types: typeWords(plan.accepts),
    currency: condition.currency?.trim().toUpperCase(),
    judge: (facts) => judgeArgument(plan, facts.arguments),
  };
}

function typedSteps(path: string, known: ArgumentIndex) {
  const steps = argumentSteps(path) ?? [];
  return steps.map((step, index) => {
    const parent = known.get(argumentPath(steps.slice(0, index)));
    return { step, from: index === 0 || parent === undefined ? OBJECT : maskFromTypes(parent.types) };
  });
}

function whenMissing(operator: Operator, condition: Condition): Outcome {
  if (operator.whenMissing !== undefined) return operator.whenMissing ? HELD : NOT_HELD;
  return ignoresMissing(condition) ? NOT_HELD : MISSING;
}

function ignoresMissing(condition: Condition): boolean {
  return condition.onMissing === OnMissing.IGNORE;
}

function asksPresence(operator: Operator): boolean {
  return operator.whenMissing !== undefined;
}

/** Types in words: `string`, `number or null`. */
export function typeWords(types: TypeMask): string {
  const names = typesFromMask(types);
  return names.length === 7 ? "of any type" : names.join(" or ") || "of no type";
}
