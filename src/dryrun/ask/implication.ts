import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { type Condition, OnMissing, RuleType } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { literalFrom } from "../../policy/compile/literal.ts";
import { type Comparable, comparableFrom, maskFromTypes, type TypeMask } from "../../policy/json-value.ts";
import { OPERATORS } from "../../policy/operators/index.ts";
import { literalList, type Operator } from "../../policy/operators/operator.ts";
import type { CompiledRule, ToolSchema } from "../../policy/types.ts";
import { fold } from "../../text/fold.ts";
import { canonicalJson } from "../../tree/canonical.ts";

/** The conditions of an `argument` or `metadata` rule, ready to be compared with those of another. */
export interface ComparedConditions {
  readonly isAny: boolean;
  readonly conditions: readonly ComparedCondition[];
}

interface ComparedCondition {
  readonly field: string;
  readonly operator: Operator;
  /** Equal for conditions that are written alike. */
  readonly text: string;
  /** Equal for equal values. */
  readonly value: string;
  readonly currency: string | undefined;
  /** Result on a missing value: that of the operator, false where it is ignored, else a violation. */
  readonly whenMissing: boolean | "violation";
  /** The types that the schema and the operator admit; 0 without a schema. */
  readonly accepts: TypeMask;
  readonly holds: Truth | undefined;
}

/** Known values for which a comparison holds. */
type Truth =
  | { readonly kind: "one_of" | "none_of"; readonly values: ReadonlySet<Comparable> }
  | { readonly kind: "within"; readonly ranges: readonly Range[] };

interface Range {
  readonly low: number;
  readonly high: number;
  readonly hasLow: boolean;
  readonly hasHigh: boolean;
}

/** Flags of the two rules: true for a rule that allows. */
export interface Allowing {
  readonly narrow: boolean;
  readonly broad: boolean;
}

/** Reads the conditions of a rule; undefined for a rule without a list of them. */
export function comparedConditions(
  { type, source }: CompiledRule,
  tool: ToolSchema | undefined,
): ComparedConditions | undefined {
  if (type !== RuleType.ARGUMENT && type !== RuleType.METADATA) return undefined;
  const types = new Map(type === RuleType.ARGUMENT ? tool?.arguments.map((each) => [each.path, each.types]) : []);
  const conditions = (source.conditions?.rules ?? []).map((each) =>
    comparedCondition(each, maskFromTypes(types.get(each.field) ?? [])),
  );
  const read = conditions.filter((each) => each !== undefined);
  if (read.length === 0 || read.length < conditions.length) return undefined;
  return { isAny: source.conditions?.operator === "OR", conditions: read };
}

function comparedCondition(condition: Condition, declared: TypeMask): ComparedCondition | undefined {
  const operator = OPERATORS.get(condition.operator);
  if (operator === undefined) return undefined;
  const { field, value, currency, onMissing } = condition;
  const written = value === undefined ? null : toJson(ValueSchema, value);
  const ignores = onMissing === OnMissing.IGNORE;
  return {
    field,
    operator,
    text: canonicalJson([operator.name, written, currency ?? null, onMissing]),
    value: canonicalJson(written),
    currency: currency === undefined ? undefined : fold(currency),
    whenMissing: operator.whenMissing ?? (ignores ? false : "violation"),
    accepts: declared & operator.fits,
    holds: truthOf(operator, condition),
  };
}

function truthOf(operator: Operator, { value }: Condition): Truth | undefined {
  const read = literalFrom(value, operator.shape, true);
  if (read.kind === "refused") return undefined;
  const values = literalList(read.literal);
  switch (operator.name) {
    case "==":
    case "in":
      return { kind: "one_of", values: comparables(values) };
    case "!=":
    case "not_in":
      return { kind: "none_of", values: comparables(values) };
    default: {
      const [low, high = low] = values;
      if (typeof low !== "number" || typeof high !== "number") return undefined;
      const ranges = rangesOf(operator.name, low, high);
      return ranges && { kind: "within", ranges };
    }
  }
}

const comparables = (values: readonly (string | number | boolean)[]): ReadonlySet<Comparable> =>
  new Set(values.flatMap((value) => comparableFrom(value) ?? []));

function rangesOf(operator: string, low: number, high: number): readonly Range[] | undefined {
  const above = (bound: number, hasLow: boolean): Range => ({
    low: bound,
    hasLow,
    high: Number.POSITIVE_INFINITY,
    hasHigh: true,
  });
  const below = (bound: number, hasHigh: boolean): Range => ({
    low: Number.NEGATIVE_INFINITY,
    hasLow: true,
    high: bound,
    hasHigh,
  });
  switch (operator) {
    case ">":
      return [above(low, false)];
    case ">=":
      return [above(low, true)];
    case "<":
      return [below(low, false)];
    case "<=":
      return [below(low, true)];
    case "between":
      return [{ low, high, hasLow: true, hasHigh: true }];
    case "not_between":
      return [below(low, false), above(high, false)];
    default:
      return undefined;
  }
}

/**
 * Tests whether the broad conditions are proved to hold whenever the narrow ones do. Both MUST be of rules of the same type and
 * tool. A rule that restricts holds also where a value is missing, of a wrong type or in another currency; one that allows does not.
 */
export function conditionsImply(narrow: ComparedConditions, broad: ComparedConditions, allowing: Allowing): boolean {
  const implies = (from: ComparedCondition, to: ComparedCondition): boolean => conditionImplies(from, to, allowing);
  // Every way in which the narrow conditions can hold: one condition of an OR, all of an AND together.
  const ways = narrow.isAny ? narrow.conditions.map((each) => [each]) : [narrow.conditions];
  return ways.every((way) => {
    const isImplied = (to: ComparedCondition): boolean => way.some((from) => implies(from, to));
    return broad.isAny ? broad.conditions.some(isImplied) : broad.conditions.every(isImplied);
  });
}

function conditionImplies(from: ComparedCondition, to: ComparedCondition, allowing: Allowing): boolean {
  if (from.field !== to.field) return false;
  if (from.text === to.text) return true;
  // Without a schema values are compared by text too, so that only an identical condition is certain.
  if (from.accepts === 0 || to.accepts === 0) return false;
  if (!missingImplies(from, to, allowing) || !currencyImplies(from, to, allowing)) return false;
  return typesImply(from, to, allowing) && comparisonImplies(from, to);
}

function missingImplies(from: ComparedCondition, to: ComparedCondition, { narrow, broad }: Allowing): boolean {
  const holds = (result: boolean | "violation", isAllow: boolean): boolean =>
    result === "violation" ? !isAllow : result;
  if (holds(from.whenMissing, narrow) && !holds(to.whenMissing, broad)) return false;
  // In an array one element may be missing beside another that holds: a violation would keep an allow rule from firing.
  return !broad || to.whenMissing !== "violation" || from.whenMissing === "violation";
}

function currencyImplies(from: ComparedCondition, to: ComparedCondition, { narrow, broad }: Allowing): boolean {
  if (broad) return to.currency === undefined || to.currency === from.currency;
  return narrow || from.currency === undefined || from.currency === to.currency;
}

function typesImply(from: ComparedCondition, to: ComparedCondition, { narrow, broad }: Allowing): boolean {
  if (broad) return (from.accepts & ~to.accepts) === 0;
  // Of a type that only the broad condition compares, the narrow one holds whatever the value is.
  return narrow || to.operator.name === "exists" || (to.accepts & ~from.accepts) === 0;
}

function comparisonImplies(from: ComparedCondition, to: ComparedCondition): boolean {
  if (to.operator.name === "exists") return true;
  if (from.operator.name === to.operator.name && from.value === to.value) return true;
  if (from.operator.readsElements === true || to.operator.readsElements === true) return false;
  const { holds: narrow } = from;
  const { holds: broad } = to;
  if (narrow === undefined || broad === undefined) return false;
  switch (narrow.kind) {
    case "one_of":
      return [...narrow.values].every((value) => hasValue(broad, value));
    case "none_of":
      return broad.kind === "none_of" && [...broad.values].every((value) => narrow.values.has(value));
    default:
      if (broad.kind === "within")
        return narrow.ranges.every((each) => broad.ranges.some((other) => lies(each, other)));
      return broad.kind === "none_of" && [...broad.values].every((value) => !hasValue(narrow, value));
  }
}

function hasValue(truth: Truth, value: Comparable): boolean {
  if (truth.kind !== "within") return truth.values.has(value) === (truth.kind === "one_of");
  if (typeof value !== "number") return false;
  const point = { low: value, high: value, hasLow: true, hasHigh: true };
  return truth.ranges.some((range) => lies(point, range));
}

function lies(inner: Range, outer: Range): boolean {
  const isLow = inner.low > outer.low || (inner.low === outer.low && (outer.hasLow || !inner.hasLow));
  const isHigh = inner.high < outer.high || (inner.high === outer.high && (outer.hasHigh || !inner.hasHigh));
  return isLow && isHigh;
}
