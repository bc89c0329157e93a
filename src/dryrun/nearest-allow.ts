import { type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import type { Work } from "../async/work.ts";
import { argumentSteps } from "../notation/argument-path.ts";
import { amountFrom, millionthsFrom } from "../policy/decimal.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { argumentsFrom, toolKey } from "../policy/names.ts";
import type { FlattenedArgument, ReadLimit, ToolSchema } from "../policy/types.ts";
import { withArgument } from "../policy/would-pass.ts";
import type { Action, Outcome } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { canonicalJson } from "../tree/canonical.ts";
import { decideAlone } from "./decide-in-turn.ts";
import type { TracedRule } from "./trace.ts";

/** A change of one argument with which an action is allowed. */
export interface NearestAllow {
  readonly argument: string;
  /** Undefined for a missing argument. */
  readonly from: JsonValue | undefined;
  readonly to: JsonValue;
}

/** Maximum number of values that are tried for one action. */
const MAX_TRIES = 200;
const MAX_FOUND = 20;
/** Maximum number of words that are shown for one argument. */
const MAX_WORDS = 5;
/** Decimals of the smallest change of a number that is not an integer and has fewer decimals: a cent. */
const CENT_DECIMALS = 2;
/** Decimals past which a double no longer tells neighbours apart. */
const MAX_DECIMALS = 12;

/** Values that may be allowed in place of an argument's. */
interface Candidates {
  readonly argument: string;
  readonly steps: readonly string[];
  readonly from: JsonValue | undefined;
  /** By distance from the value now: those below it, and those above it. One of each is enough. */
  readonly below: readonly number[];
  readonly above: readonly number[];
  /** Texts and booleans, in no order of distance. */
  readonly words: readonly (string | boolean)[];
}

/**
 * Looks for the smallest changes of one argument that an action is allowed with: the bounds, words and declared values of the
 * rules that cover it and of the tool, what still fits its budgets, and the values next to the bounds. Each is decided before it is
 * returned.
 */
export function* nearestAllow(
  state: WorkspaceState,
  action: Action,
  nowMs: number,
  { decision, path, tool, policy }: Outcome,
  rules: readonly TracedRule[],
): Work<readonly NearestAllow[]> {
  if (decision === "allow" || path !== "policy") return [];
  let tries = 0;
  const isAllowed = (steps: readonly string[], value: JsonValue): boolean => {
    const changed = ++tries <= MAX_TRIES ? withChanged(action, steps, value) : undefined;
    return changed !== undefined && decideAlone(state, changed, nowMs).decision === "allow";
  };
  const numbers: NearestAllow[] = [];
  const words: NearestAllow[] = [];
  for (const { argument, steps, from, below, above, words: tried } of candidatesOf(
    action,
    tool,
    rules,
    policy?.collectiveLimits ?? [],
  )) {
    for (const side of [below, above]) {
      for (const to of side) {
        yield;
        if (!isAllowed(steps, to)) continue;
        numbers.push({ argument, from, to });
        break;
      }
    }
    let found = 0;
    for (const to of tried) {
      if (found === MAX_WORDS) break;
      yield;
      if (!isAllowed(steps, to)) continue;
      words.push({ argument, from, to });
      found++;
    }
  }
  return [...numbers.sort((a, b) => changeOf(a) - changeOf(b)), ...words].slice(0, MAX_FOUND);
}

/** Returns the size of a change of a number, relative to the number. */
function changeOf({ from, to }: NearestAllow): number {
  if (typeof from !== "number" || typeof to !== "number") return Number.POSITIVE_INFINITY;
  return Math.abs(to - from) / Math.max(Math.abs(from), Number.MIN_VALUE);
}

function candidatesOf(
  { metadata }: Action,
  tool: ToolSchema | undefined,
  rules: readonly TracedRule[],
  limits: readonly ReadLimit[],
): readonly Candidates[] {
  const args = argumentsFrom(metadata) ?? {};
  const compared = comparedValues(rules);
  for (const { field, amount } of limits.flatMap((limit) => fittingAmounts(limit, tool, args))) {
    compared.set(field, [...(compared.get(field) ?? []), amount]);
  }
  const declared = new Map(tool?.arguments.map((argument) => [argument.path, argument]));
  return [...compared].flatMap(([argument, values]) => {
    const steps = (argumentSteps(argument) ?? [null]).filter((step) => step !== null);
    // Below an array there is no single value to change.
    if (argument.includes("[]") || steps.length === 0) return [];
    return [candidatesFor(argument, steps, valueAt(args, steps), values, declared.get(argument))];
  });
}

/** Collects, by argument, the values that the rules which cover the action compare it with. */
function comparedValues(rules: readonly TracedRule[]): Map<string, readonly JsonValue[]> {
  const found = new Map<string, JsonValue[]>();
  for (const { rule, covers } of rules) {
    if (!covers || rule.judges === undefined) continue;
    for (const { field, value } of rule.source.conditions?.rules ?? []) {
      const literal = value === undefined ? [] : [toJson(ValueSchema, value)].flat();
      found.set(field, [...(found.get(field) ?? []), ...literal]);
    }
  }
  return found;
}

/** An argument that pays into a budget, with the largest amount of it that fits beside the others. */
interface FittingAmount {
  readonly field: string;
  readonly amount: number;
}

/** Lists the arguments of a call that pay into a budget, each with the largest amount that fits; none where not even 0 does. */
function fittingAmounts(
  { spending }: ReadLimit,
  tool: ToolSchema | undefined,
  args: JsonObject,
): readonly FittingAmount[] {
  if (spending === undefined || tool === undefined) return [];
  const { budget, past, payment } = spending;
  const left = BigInt(budget.maxTotal) - past;
  return budget.pot.sums.flatMap(({ tool: name, field, steps, isInteger }): readonly FittingAmount[] => {
    const path = steps.filter((step) => step !== null);
    const value = valueAt(args, path);
    if (name !== toolKey(tool.name) || path.length < steps.length || typeof value !== "number") return [];
    const others = BigInt(payment.millionths ?? 0) - BigInt(millionthsFrom(value) ?? 0);
    const most = left - (others < 0n ? 0n : others);
    if (most < 0n) return [];
    return [{ field, amount: amountFrom(isInteger ? most - (most % 1_000_000n) : most) }];
  });
}

function candidatesFor(
  argument: string,
  steps: readonly string[],
  from: JsonValue | undefined,
  compared: readonly JsonValue[],
  declared: FlattenedArgument | undefined,
): Candidates {
  const all = [...compared, ...(declared?.enum ?? [])];
  const bounds = [declared?.minimum, declared?.maximum].filter((bound) => bound !== undefined);
  const numbers = [...all.filter((value) => typeof value === "number"), ...bounds];
  const centre = typeof from === "number" ? from : 0;
  const decimals = decimalsOf([...numbers, centre], declared);
  const near = [...new Set(numbers.flatMap((bound) => neighbours(bound, decimals)))]
    .filter((value) => value !== from && isDeclared(value, declared))
    .sort((a, b) => Math.abs(a - centre) - Math.abs(b - centre));
  const texts = all.filter((value) => typeof value === "string" || typeof value === "boolean");
  const flipped = typeof from === "boolean" ? [!from] : [];
  const words = [...new Set([...texts, ...flipped])].filter((value) => value !== from && isDeclared(value, declared));
  return {
    argument,
    steps,
    from,
    words,
    below: near.filter((value) => value < centre),
    above: near.filter((value) => value >= centre),
  };
}

/** Returns the decimals of the smallest change of an argument: 0 for integers, else those of the finest known value. */
function decimalsOf(values: readonly number[], declared: FlattenedArgument | undefined): number {
  if (declared !== undefined && !declared.types.includes("number")) return 0;
  const decimals = values.map((value) => /\.(\d+)$/.exec(String(value))?.[1]?.length ?? 0);
  return Math.min(MAX_DECIMALS, Math.max(CENT_DECIMALS, ...decimals));
}

/** Returns a bound and the values next to it. */
function neighbours(bound: number, decimals: number): readonly number[] {
  const unit = 10 ** -decimals;
  return [bound, Number((bound - unit).toFixed(decimals)), Number((bound + unit).toFixed(decimals))];
}

function isDeclared(value: JsonValue, declared: FlattenedArgument | undefined): boolean {
  if (declared === undefined) return true;
  const { enum: allowed, types, minimum, maximum, exclusiveMinimum, exclusiveMaximum } = declared;
  if (allowed.length > 0 && !allowed.includes(value)) return false;
  if (typeof value !== "number") return types.includes(typeof value as "string" | "boolean");
  if (!types.includes("number") && !(types.includes("integer") && Number.isSafeInteger(value))) return false;
  const isAbove = value >= (minimum ?? value) && !(value <= (exclusiveMinimum ?? Number.NEGATIVE_INFINITY));
  return isAbove && value <= (maximum ?? value) && !(value >= (exclusiveMaximum ?? Number.POSITIVE_INFINITY));
}

function valueAt(args: JsonObject, steps: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = args;
  for (const step of steps) value = isJsonObject(value) ? ownValue(value, step) : undefined;
  return value;
}

/** Returns the action with another value of one argument; undefined if a member on the path to it is not an object. */
function withChanged(action: Action, steps: readonly string[], value: JsonValue): Action | undefined {
  const changed = withArgument({ arguments: argumentsFrom(action.metadata), metadata: action.metadata }, steps, value);
  return changed && { ...action, metadata: changed.metadata, metadataText: canonicalJson(changed.metadata) };
}
