import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { ArgumentStep } from "./argument-path.ts";
import { comparableText } from "./comparable.ts";
import { isJsonObject, NULL, ownValue, type TypeMask, typeBit } from "./json-type.ts";
import { CURRENCY_DIFFERS, CURRENCY_MISSING, HELD, NOT_HELD, type Outcome, WRONG_TYPE } from "./outcome.ts";

/** One step of a typed condition's way to its argument. */
export interface TypedStep {
  readonly step: ArgumentStep;
  /** The types that the schema gives the value the step starts from. */
  readonly from: TypeMask;
}

/** A typed condition, checked against the tool's schema. */
export interface ArgumentPlan {
  readonly steps: readonly TypedStep[];
  /** The types of the argument that both the schema and the operator admit. */
  readonly accepts: TypeMask;
  /** The types that the schema gives the argument. */
  readonly declared: TypeMask;
  /** The types an array's elements MUST have; undefined when the operator does not read them. */
  readonly elements: TypeMask | undefined;
  readonly test: (value: JsonValue) => boolean;
  /** What absence means: a violation, or the comparison's own result. */
  readonly whenMissing: Outcome;
  /** The currency, as compared, and the names of the sibling arguments that may tell it. */
  readonly currency: { readonly code: string; readonly siblings: readonly string[] } | undefined;
}

/**
 * Judges a call's arguments. Over the elements of an array a violation of any one counts before a comparison that holds,
 * so that an `allow` rule needs every element to be clean.
 */
export function judgeArgument(plan: ArgumentPlan, args: JsonObject | undefined): Outcome {
  return args === undefined ? plan.whenMissing : walk(plan, 0, args, args);
}

function walk(plan: ArgumentPlan, depth: number, value: JsonValue | undefined, parent: JsonObject): Outcome {
  const at = plan.steps[depth];
  if (at === undefined) return judgeLeaf(plan, value, parent);
  if (at.step === null) return Array.isArray(value) ? walkElements(plan, depth, value, parent) : noWay(plan, at, value);
  return isJsonObject(value) ? walk(plan, depth + 1, ownValue(value, at.step), value) : noWay(plan, at, value);
}

function walkElements(plan: ArgumentPlan, depth: number, array: readonly JsonValue[], parent: JsonObject): Outcome {
  if (array.length === 0) return plan.whenMissing;
  let result: Outcome = NOT_HELD;
  for (const element of array) {
    const outcome = walk(plan, depth + 1, element, parent);
    if (outcome > HELD) return outcome;
    if (outcome === HELD) result = HELD;
  }
  return result;
}

// The value that should lead on does not: the argument is missing, unless the value has a type the schema does not give.
function noWay(plan: ArgumentPlan, at: TypedStep, value: JsonValue | undefined): Outcome {
  if (value === undefined || value === null) return plan.whenMissing;
  return typeBit(value) & at.from ? plan.whenMissing : WRONG_TYPE;
}

function judgeLeaf(plan: ArgumentPlan, value: JsonValue | undefined, parent: JsonObject): Outcome {
  if (value === undefined || (value === null && (plan.declared & NULL) === 0)) return plan.whenMissing;
  if ((typeBit(value) & plan.accepts) === 0) return WRONG_TYPE;
  const { elements } = plan;
  if (elements !== undefined && Array.isArray(value) && value.some((element) => (typeBit(element) & elements) === 0)) {
    return WRONG_TYPE;
  }
  const money = plan.currency === undefined ? HELD : judgeCurrency(plan.currency, parent);
  if (money !== HELD) return money;
  return plan.test(value) ? HELD : NOT_HELD;
}

// Every sibling that is there must agree, so that a second one cannot contradict the one that was read.
function judgeCurrency(currency: NonNullable<ArgumentPlan["currency"]>, parent: JsonObject): Outcome {
  let outcome: Outcome = CURRENCY_MISSING;
  for (const sibling of currency.siblings) {
    const value = ownValue(parent, sibling);
    if (value === undefined || value === null) continue;
    if (typeof value !== "string" || comparableText(value) !== currency.code) return CURRENCY_DIFFERS;
    outcome = HELD;
  }
  return outcome;
}
