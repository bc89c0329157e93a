import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { type Checks, TOO_LONG } from "../checks.ts";
import { isJsonObject, NULL, ownValue, type TypeMask, typeBit } from "../json-value.ts";
import type { Test } from "../operators/operator.ts";
import type { ArgumentStep } from "../schema/argument-path.ts";
import type { ConditionResult, ConditionViolation } from "../types.ts";

/** One step of a typed condition's way to its argument. */
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
  /** The currency, as compared, and the names of the sibling arguments that may tell it. */
  readonly currency: { readonly code: string; readonly siblings: readonly string[] } | undefined;
}

/**
 * Judges a call's arguments. Over the elements of an array a violation of any one counts before a comparison that holds,
 * so that an `allow` rule needs every element to be clean.
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
  // The way ends here: the argument is missing, unless the value has a type that the schema does not admit.
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
  readonly test: Test;
  /** Result on a missing value, null included. */
  readonly whenMissing: boolean | "ARGUMENT_MISSING";
  /** True for a rule that allows: it needs every source of the value to be clean. */
  readonly isAllow: boolean;
}

type MetadataResult = MetadataPlan["whenMissing"] | typeof TOO_LONG;

/**
 * Judges the arguments, or the metadata if the arguments do not have the path's first member. Where both have it, each is judged and
 * the stricter result counts, so that neither hides the other. Holds if any element makes it hold.
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
  if (step === undefined) return checks.comparisons.looksAt(value) ? plan.test(value, checks) : TOO_LONG;
  if (step !== null) {
    return isJsonObject(value) ? walkMetadata(plan, depth + 1, ownValue(value, step), checks) : plan.whenMissing;
  }
  if (!Array.isArray(value) || value.length === 0) return plan.whenMissing;
  if (!checks.comparisons.walks(value)) return TOO_LONG;
  const results = value.map((element) => walkMetadata(plan, depth + 1, element, checks));
  return results.includes(true) || (results.find((result) => typeof result === "string") ?? false);
}
