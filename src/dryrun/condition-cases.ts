import type { JsonObject } from "@bufbuild/protobuf";
import { type Rule, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { ToolLookup } from "../policy/types.ts";
import { type ArgumentFacts, shown, type TriedValue, valuesFor } from "./condition-values.ts";
import type { TestedAction } from "./mandate-test.ts";
import {
  type ArgumentTypes,
  currencySiblings,
  isHeld,
  type Json,
  judgeArgument,
  metadataHolds,
  type NaiveCondition,
  type PathStep,
  splitPath,
} from "./naive/naive-conditions.ts";
import { decisionOf, naiveConditionFrom, typeOf, typesOf } from "./naive/naive-evaluator.ts";
import type { NaivePatterns } from "./naive/naive-patterns.ts";
import type { Case } from "./rule-cases.ts";
import { sampleArguments, withValueAt } from "./sample-arguments.ts";

/**
 * Maximum number of values that are tried for one argument while the others are settled, and the one for a rule with many
 * conditions.
 */
const MAX_TRIED = 60;
const FEW_TRIED = 12;
const MANY_CONDITIONS = 10;

type Args = { [key: string]: Json };

/** One condition with everything that its cases need. */
interface Tried {
  readonly condition: NaiveCondition;
  readonly steps: readonly PathStep[];
  readonly values: readonly TriedValue[];
  /** Paths of the arguments that may hold the currency. */
  readonly siblings: readonly (readonly PathStep[])[];
  readonly holds: (args: Args) => boolean;
}

/** Lists the cases of an `argument` or `metadata` rule, one group for each condition. */
export function conditionCases(
  rule: Rule,
  base: TestedAction,
  tools: ToolLookup,
  patterns: NaivePatterns,
  maxGroups: number,
): readonly (readonly Case[])[] {
  const isTyped = typeOf(rule, tools) === RuleType.ARGUMENT;
  const tool = tools(rule.tool?.trim() ?? "");
  const types: ArgumentTypes = isTyped && tool !== undefined ? typesOf(tool) : new Map();
  const enums = new Map(isTyped ? tool?.arguments.map((each) => [each.path, each.enum as readonly Json[]]) : []);
  const tried = (rule.conditions?.rules ?? []).map(naiveConditionFrom).map((condition): Tried => {
    const { field } = condition;
    const facts: ArgumentFacts = {
      types: types.get(field) ?? [],
      elementTypes: types.get(`${field}[]`),
      enum: enums.get(field) ?? enums.get(`${field}[]`) ?? [],
    };
    const decision = decisionOf(rule);
    return {
      condition,
      steps: splitPath(field),
      values: valuesFor(condition, facts, patterns),
      siblings: siblingsOf(condition, types),
      holds: (args) =>
        isTyped
          ? isHeld(judgeArgument(condition, types, decision, args, patterns), decision)
          : metadataHolds(condition, decision, args, { arguments: args }, patterns),
    };
  });
  const start = (tool && sampleArguments(tool.inputSchema as Args, patterns)) ?? {};
  const priced = tried.reduce(
    (args, { condition, siblings }) => withCurrency(args, siblings, condition.currency),
    start,
  );
  const held = settle(tried, priced, true);
  const failed = settle(tried, priced, false);
  const isAny = rule.conditions?.operator === "OR";
  const around = isAny ? failed : held;
  const at = (name: string, args: Args): Case => ({ name, tested: withArguments(base, { arguments: args }) });
  // Cases of all conditions together, beside those of each alone.
  const together = isAny ? at("every condition holds", held) : at("no condition holds", failed);
  const whole = [...(tried.length > 1 ? [together] : []), ...formCases(base, held, isTyped)];
  return [...tried.slice(0, maxGroups).map((each) => casesOf(each, around, at)), whole];
}

/** Lists the paths of the arguments that may hold the currency of a condition's argument. */
export function siblingsOf(condition: NaiveCondition, types: ArgumentTypes): readonly (readonly PathStep[])[] {
  if (condition.currency === undefined) return [];
  const steps = splitPath(condition.field);
  const last = steps.findLastIndex(({ name }) => name !== null);
  const parent = steps.slice(0, last);
  return currencySiblings(condition.field, types).map((name) => [...parent, { upTo: "", name }]);
}

/** Sets the first argument that holds a currency and removes the others. */
export function withCurrency(args: Args, [first, ...others]: Tried["siblings"], currency: Json | undefined): Args {
  if (first === undefined) return args;
  const told = withValueAt(args, first, currency) as Args;
  return others.reduce((rest, other) => withValueAt(rest, other, undefined) as Args, told);
}

/** Chooses a value for each argument so that as many conditions as can be hold, or fail. */
function settle(tried: readonly Tried[], start: Args, isHeldWanted: boolean): Args {
  const most = tried.length > MANY_CONDITIONS ? FEW_TRIED : MAX_TRIED;
  const byField = Map.groupBy(tried, ({ condition }) => condition.field);
  let args = start;
  for (const [field, own] of byField) {
    const concerned = tried.filter(
      ({ condition }) => condition.field.startsWith(field) || field.startsWith(condition.field),
    );
    const score = (candidate: Args): number =>
      concerned.filter(({ holds }) => holds(candidate) === isHeldWanted).length;
    const steps = own[0]?.steps ?? [];
    let [best, bestScore] = [args, -1];
    for (const { value } of own.flatMap(({ values }) => values).slice(0, most)) {
      const candidate = withValueAt(args, steps, value) as Args;
      const reached = score(candidate);
      if (reached > bestScore) [best, bestScore] = [candidate, reached];
      if (bestScore === concerned.length) break;
    }
    args = best;
  }
  return args;
}

function casesOf(tried: Tried, around: Args, at: (name: string, args: Args) => Case) {
  const { condition, steps, values, holds } = tried;
  const name = `\`${condition.field}\``;
  const cases = values.map(({ label, value }) => at(`${name} ${label}`, withValueAt(around, steps, value) as Args));
  return [
    ...cases,
    ...currencyCases(name, tried, around, at),
    ...elementCases(name, steps, values, around, holds, at),
    ...parentCases(steps, around, at),
  ];
}

/** Lists cases of an amount's currency. The amount is one with which the currency alone decides, if there is one. */
function currencyCases(
  name: string,
  { condition: { currency }, steps, values, siblings, holds }: Tried,
  around: Args,
  at: (name: string, args: Args) => Case,
): Case[] {
  if (currency === undefined || siblings.length === 0) return [];
  const other = currency.trim().toUpperCase() === "XTS" ? "CHF" : "XTS";
  const spelled = currency === currency.toUpperCase() ? currency.toLowerCase() : currency.toUpperCase();
  const isDecided = (args: Args): boolean =>
    holds(withCurrency(args, siblings, currency)) !== holds(withCurrency(args, siblings, other));
  const amounts = values.map(({ value }) => withValueAt(around, steps, value) as Args);
  const priced = amounts.find(isDecided) ?? around;
  const told = (value: Json | undefined): Args => withCurrency(priced, siblings, value);
  const [first, second] = siblings;
  return [
    at(`${name} in another currency`, told(other)),
    at(`${name} without a currency`, told(undefined)),
    at(`${name} in the currency in another case and with blanks`, told(` ${spelled} `)),
    at(`${name} with a currency that is no text`, told(7)),
    ...siblings.map((sibling) =>
      at(
        `${name} with its currency in \`${sibling.at(-1)?.name}\``,
        withValueAt(told(undefined), sibling, currency) as Args,
      ),
    ),
    ...(first === undefined || second === undefined
      ? []
      : [at(`${name} with two currencies`, withValueAt(told(currency), second, other) as Args)]),
  ];
}

/**
 * Lists arrays with an element for which the condition holds and one for which it does not, in both orders; and an empty array.
 */
function elementCases(
  name: string,
  steps: readonly PathStep[],
  values: readonly TriedValue[],
  around: Args,
  holds: Tried["holds"],
  at: (name: string, args: Args) => Case,
): Case[] {
  const last = steps.findLastIndex((step) => step.name === null);
  if (last < 0) return [];
  const array = steps.slice(0, last);
  const elementWith = (isHolding: boolean): Json | undefined => {
    const found = values
      .filter(({ value }) => value !== undefined)
      .map(({ value }) => withValueAt(around, steps, value) as Args)
      .find((args) => holds(args) === isHolding);
    return found && firstElement(found, array);
  };
  const [held, failed] = [elementWith(true), elementWith(false)];
  const empty = at(`${name} of an empty list`, withValueAt(around, array, []) as Args);
  if (held === undefined || failed === undefined) return [empty];
  return [
    at(`${name} of the first element holds`, withValueAt(around, array, [held, failed]) as Args),
    at(`${name} of the last element holds`, withValueAt(around, array, [failed, held]) as Args),
    empty,
  ];
}

/** Returns the first element of the array at a path. */
function firstElement(args: Args, steps: readonly PathStep[]): Json | undefined {
  let value: Json | undefined = args;
  for (const { name } of steps) {
    if (name === null) value = Array.isArray(value) ? value[0] : undefined;
    else
      value =
        typeof value === "object" && value !== null && !Array.isArray(value) && Object.hasOwn(value, name)
          ? value[name]
          : undefined;
  }
  return Array.isArray(value) ? value[0] : undefined;
}

function parentCases(steps: readonly PathStep[], around: Args, at: (name: string, args: Args) => Case): Case[] {
  const parents = steps.slice(0, -1).map((_, index) => steps.slice(0, index + 1));
  return parents.flatMap((parent) =>
    [undefined, null, "text", 7].map((value) =>
      at(`\`${parent.at(-1)?.upTo}\` ${shown(value)}`, withValueAt(around, parent, value) as Args),
    ),
  );
}

/** Lists cases of the places in which a call may have its arguments. */
function formCases(base: TestedAction, held: Args, isTyped: boolean): Case[] {
  const cases = [
    { name: "no metadata", tested: withArguments(base, undefined) },
    { name: "arguments as the metadata itself", tested: withArguments(base, held) },
    { name: "no arguments", tested: withArguments(base, { arguments: {} }) },
  ];
  if (isTyped) return cases;
  return [...cases, { name: "metadata beside arguments", tested: withArguments(base, { ...held, arguments: {} }) }];
}

function withArguments(base: TestedAction, metadata: Args | undefined): TestedAction {
  const { metadata: _, ...action } = base.action;
  return { ...base, action: { ...action, ...(metadata !== undefined && { metadata: metadata as JsonObject }) } };
}
