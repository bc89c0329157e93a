import { type JsonObject, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import {
  type Condition,
  OnMissing,
  OtherCurrency,
  type Rule,
  RuleType,
  SequenceMode,
  Weekday,
} from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision as DecisionEnum, Scope } from "../../../gen/agentcontrol/v1/resources_pb.js";
import type { Decision, MandateSource, ToolLookup, ToolSchema } from "../../policy/types.ts";
import type { PastAgent, TestedAction } from "../mandate-test.ts";
import { naiveMillionths, naivePayment } from "./naive-budgets.ts";
import {
  type ArgumentTypes,
  isHeld,
  type Json,
  judgeArgument,
  metadataHolds,
  type NaiveCondition,
} from "./naive-conditions.ts";
import { naiveBudgetResetsAt, naiveResetsAt } from "./naive-limits.ts";
import { naiveListed } from "./naive-lists.ts";
import { foldNaively, matchesAny, NaivePatterns } from "./naive-patterns.ts";
import { naiveFits } from "./naive-schema.ts";
import { type NaiveWhen, NaiveWhens } from "./naive-when.ts";

/*
 * A second evaluator of mandates, written from the description of the rules and made to be read. It shares no code with
 * the compiled rules. Semantic rules, which ask a model, are left out.
 */

/** Result of one rule on one action. */
export interface NaiveResult {
  /** Undefined where this evaluator cannot tell. */
  readonly fires: boolean | undefined;
  /** Reason, as the end of a sentence that begins with the case. */
  readonly because: string;
}

/** Result of a mandate on one action. */
export interface NaiveVerdict {
  readonly decision: Decision;
  /** One for each rule, in order. */
  readonly results: readonly NaiveResult[];
}

const DECISIONS: ReadonlyMap<DecisionEnum, Decision> = new Map([
  [DecisionEnum.ALLOW, "allow"],
  [DecisionEnum.BLOCK, "block"],
  [DecisionEnum.ESCALATE, "escalate"],
]);
const ON_MISSING: ReadonlyMap<OnMissing, string> = new Map([
  [OnMissing.IGNORE, "ignore"],
  [OnMissing.VIOLATE, "violate"],
]);
const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/** Writes a condition of the interface as the naive evaluator reads it. */
export function naiveConditionFrom({ field, operator, value, currency, onMissing }: Condition): NaiveCondition {
  const word = ON_MISSING.get(onMissing);
  return {
    field,
    operator,
    ...(value !== undefined && { value: toJson(ValueSchema, value) as Json }),
    ...(currency !== undefined && { currency }),
    ...(word !== undefined && { on_missing: word }),
  };
}

/** Returns the decision of a rule. */
export const decisionOf = ({ decision }: Rule): Decision => DECISIONS.get(decision) ?? "escalate";

/** Returns the type of a rule. Without a type, it depends on whether the tool it names has a schema. */
export function typeOf({ type, tool }: Rule, tools: ToolLookup): RuleType {
  if (type !== RuleType.UNSPECIFIED) return type;
  return tool !== undefined && tools(tool.trim()) !== undefined ? RuleType.ARGUMENT : RuleType.METADATA;
}

/** Returns the types that a tool's schema gives its arguments. */
export const typesOf = (tool: ToolSchema): ArgumentTypes =>
  new Map(tool.arguments.map(({ path, types }) => [path, types]));

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Day of the week and time of day in a time zone: `Thu` and `09:05`. */
export function shownTime(timeZone: string, atMs: number): { readonly day: string; readonly time: string } {
  const parts = clockOf(timeZone).formatToParts(atMs);
  const part = (wanted: string): string => parts.find(({ type }) => type === wanted)?.value ?? "";
  return { day: part("weekday"), time: `${part("hour")}:${part("minute")}` };
}

const clockOf = (timeZone: string): Intl.DateTimeFormat =>
  new Intl.DateTimeFormat("en-GB", {
    timeZone: timeZone.trim(),
    weekday: "short",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  });

/**
 * Tests whether the `when` of a rule ends within its steps and sizes on an action. The library has no such bounds, so that it is asked
 * about no other.
 */
export type Finishes = (index: number, tested: TestedAction) => boolean;

/** Evaluates one mandate, its rules one by one, over actions that each come with their whole history. */
export class NaiveEvaluator {
  readonly #mandate: MandateSource;
  readonly #tools: ToolLookup;
  /** Indices of the rules that no longer compile; they fire on every action they cover. */
  readonly #stale: ReadonlySet<number>;
  readonly #patterns: NaivePatterns;
  readonly #types = new Map<string, ArgumentTypes>();
  readonly #finishes: Finishes;
  #whens: NaiveWhens | undefined;
  readonly #expressions = new Map<string, NaiveWhen>();

  constructor(mandate: MandateSource, tools: ToolLookup, stale: ReadonlySet<number>, finishes: Finishes) {
    this.#mandate = mandate;
    this.#finishes = finishes;
    this.#tools = tools;
    this.#patterns = new NaivePatterns((name) => tools.lists?.get(name));
    this.#stale = stale;
  }

  /** Evaluates the mandate, as if it were in mode `enforce`. The decision is `allow` when no rule fires. */
  evaluate(tested: TestedAction): NaiveVerdict | undefined {
    const isCovered = this.#coversAgent(tested);
    const results = this.#mandate.rules.map((rule, index): NaiveResult => {
      if (!isCovered) return { fires: false, because: "the mandate does not cover the agent" };
      return this.#judge(rule, index, tested);
    });
    if (results.some(({ fires }) => fires === undefined)) return undefined;
    const fired = this.#mandate.rules.filter((_, index) => results[index]?.fires).map((rule) => this.#decides(rule));
    const decision = fired.includes("block") ? "block" : fired.includes("escalate") ? "escalate" : "allow";
    return { decision, results };
  }

  /** Tests whether one rule fires; undefined where this evaluator cannot tell. */
  fires(index: number, tested: TestedAction): boolean | undefined {
    const rule = this.#mandate.rules[index];
    return rule !== undefined && this.#coversAgent(tested) && this.#judge(rule, index, tested).fires;
  }

  /**
   * Returns the time, in epoch milliseconds, from which the limit of a rule that covers an action has room for one more after it. The
   * action counts with a decision. Undefined if no action ever fits, and for any other rule.
   */
  resetsAt(index: number, tested: TestedAction, decision: Decision): number | undefined {
    const rule = this.#mandate.rules[index];
    if (rule === undefined || this.#stale.has(index) || typeOf(rule, this.#tools) !== RuleType.SEQUENCE)
      return undefined;
    const counted = countedActions(rule, tested);
    const { mode, countDecisions = [], windowSeconds = 0n, maxCount = 0n } = rule.conditions ?? {};
    if (counted === undefined || mode === SequenceMode.ORDERED) return undefined;
    if (mode === SequenceMode.BUDGET) return this.#budgetResetsAt(rule, tested, decision);
    const past = counted.map(({ beforeMs, count }) => ({ atMs: tested.atMs - beforeMs, count }));
    const isNamed = countDecisions.length === 0 || countDecisions.some((each) => DECISIONS.get(each) === decision);
    const isCounted = isNamed && (countedStatuses(rule)?.includes("pending") ?? true);
    const actions = isCounted ? [...past, { atMs: tested.atMs, count: 1 }] : past;
    const windowMs = Number(windowSeconds) * 1000;
    return naiveResetsAt({ maxCount: Number(maxCount), windowMs, actions }, tested.atMs);
  }

  #budgetResetsAt(rule: Rule, tested: TestedAction, decision: Decision): number | undefined {
    const { maxTotal = 0, windowSeconds = 0n } = rule.conditions ?? {};
    const { payment, past } = this.#spendingOf(rule, tested) ?? {};
    if (payment === undefined || past === undefined) return undefined;
    const own = payment.millionths ?? 0n;
    const isCounted = decision === "allow" && (countedStatuses(rule)?.includes("pending") ?? true);
    const reserved = isCounted ? [{ atMs: tested.atMs, millionths: own }] : [];
    const budget = {
      maxTotal: naiveMillionths(maxTotal) ?? 0n,
      windowMs: Number(windowSeconds) * 1000,
      amounts: [...past, ...reserved],
    };
    const total = past.reduce((sum, { millionths }) => sum + millionths, own);
    return total > budget.maxTotal ? naiveBudgetResetsAt(budget, own, tested.atMs) : undefined;
  }

  #decides(rule: Rule): Decision {
    const isStale = this.#stale.has(this.#mandate.rules.indexOf(rule));
    const decision = decisionOf(rule);
    return isStale && decision === "allow" ? "escalate" : decision;
  }

  #coversAgent({ agent }: TestedAction): boolean {
    const { scope, agentId, departmentId } = this.#mandate;
    if (scope === "agent") return agent.agentId === agentId;
    return scope === "workspace" || agent.departmentIds.includes(departmentId ?? "");
  }

  #judge(rule: Rule, index: number, tested: TestedAction): NaiveResult {
    const { conditions, tool } = rule;
    const type = typeOf(rule, this.#tools);
    const no = (because: string): NaiveResult => ({ fires: false, because });
    const called = this.#toolOf(tested);
    const wanted = tool?.trim().toLowerCase() ?? "";
    if (wanted !== "" && called?.toLowerCase() !== wanted) return no("the rule covers another tool");
    const summed = (conditions?.sums ?? []).map((sum) => sum.tool.trim().toLowerCase());
    const isSummed = summed.length === 0 || summed.includes(called?.toLowerCase() ?? "");
    if (wanted === "" && !isSummed) return no("the budget adds nothing of another tool");
    const patterns = conditions?.matchActionTypes ?? [];
    const excluded = conditions?.excludeActionTypes ?? [];
    const isOrdered = conditions?.mode === SequenceMode.ORDERED;
    if (this.#stale.has(index)) return this.#judgeStale(rule, tested);
    if (type === RuleType.SEMANTIC) return no("semantic rules are not asked");
    if (type === RuleType.PROVENANCE) return no("the action has no session whose values could be judged");
    const { actionType } = tested.action;
    if (patterns.length > 0 && !matchesAny(patterns, actionType)) return no("the rule covers other action types");
    if (matchesAny(excluded, actionType)) return no("the rule excludes the action type");
    if (isOrdered && !matchesAny(conditions.steps.slice(-1), actionType)) return no("the action is not the last step");
    const own = this.#judgeByType(rule, type, tested);
    if (rule.when === undefined || !own.fires) return own;
    if (!this.#finishes(index, tested)) return { fires: undefined, because: "" };
    return this.#judgeWhen(rule, rule.when, own, tested);
  }

  /** Judges the expression of a rule whose own conditions hold. Without a result it counts as true, unless the rule allows. */
  #judgeWhen(rule: Rule, when: string, own: NaiveResult, tested: TestedAction): NaiveResult {
    const { action, agent, trust, atMs } = tested;
    let expression = this.#expressions.get(when);
    if (expression === undefined) {
      this.#whens ??= new NaiveWhens((name, text) => this.#isListed(name, text));
      expression = this.#whens.of(when);
      this.#expressions.set(when, expression);
    }
    const tool = this.#toolOf(tested);
    const variables = {
      args: argumentsOf(action.metadata) ?? {},
      metadata: action.metadata ?? {},
      action: { type: foldNaively(action.actionType), content: action.actionContent, tool: tool ?? "" },
      agent: { id: agent.agentId, name: "", trust, departments: [...agent.departmentIds].sort(), framework: "" },
      principal: { id: "" },
      session: { id: "" },
      tool: { registered: tool !== undefined && this.#tools(tool) !== undefined },
    };
    const result = expression(variables, atMs);
    const fires = result ?? decisionOf(rule) !== "allow";
    const told = result === undefined ? "has no result" : `is ${result}`;
    const text = `\`when\` ${told}`;
    return { fires, because: fires && own.because !== "" ? `${own.because} and ${text}` : text };
  }

  #judgeStale({ conditions, tool }: Rule, { action }: TestedAction): NaiveResult {
    if ((conditions?.sums ?? []).some((sum) => sum.tool.trim() !== "")) {
      return { fires: true, because: "the rule no longer compiles" };
    }
    const { matchActionTypes: patterns = [], excludeActionTypes: excluded = [] } = conditions ?? {};
    const isListed = patterns.length === 0 || matchesAny(patterns, action.actionType);
    const isCovered = (tool?.trim() ?? "") !== "" || (isListed && !matchesAny(excluded, action.actionType));
    return { fires: isCovered, because: "the rule no longer compiles" };
  }

  #judgeByType(rule: Rule, type: RuleType, tested: TestedAction): NaiveResult {
    switch (type) {
      case RuleType.ARGUMENT:
      case RuleType.METADATA:
        return this.#judgeConditions(rule, type, tested);
      case RuleType.ACTION:
        return { fires: true, because: "the rule covers the action type" };
      case RuleType.CONTENT:
        return this.#judgeContent(rule, tested);
      case RuleType.TRUST:
        return judgeTrust(rule, tested);
      case RuleType.SCHEDULE:
        return judgeSchedule(rule, tested);
      case RuleType.SCHEMA:
        return this.#judgeSchema(rule, tested);
      default:
        return this.#judgeSequence(rule, tested);
    }
  }

  #judgeSequence(rule: Rule, tested: TestedAction): NaiveResult {
    switch (rule.conditions?.mode) {
      case SequenceMode.ORDERED:
        return judgeOrdered(rule, tested);
      case SequenceMode.BUDGET:
        return this.#judgeBudget(rule, tested);
      default:
        return judgeCount(rule, tested);
    }
  }

  /** Adds what the agent reserved and what others reserved on its behalf to the amounts of the action. */
  #judgeBudget(rule: Rule, tested: TestedAction): NaiveResult {
    const spending = this.#spendingOf(rule, tested);
    if (spending === undefined) return NOT_COVERED;
    const { payment, past } = spending;
    const { maxTotal = 0, otherCurrency } = rule.conditions ?? {};
    if (payment.isFaulty) return { fires: true, because: "a part of the amount cannot be added" };
    if (payment.hasOther && otherCurrency !== OtherCurrency.IGNORE) {
      return { fires: true, because: "a part of the amount is in another currency" };
    }
    const total = past.reduce((sum, { millionths }) => sum + millionths, payment.millionths ?? 0n);
    const fires = total > (naiveMillionths(maxTotal) ?? 0n);
    return { fires, because: `${Number(total) / 1_000_000} are ${fires ? "" : "not "}more than ${maxTotal}` };
  }

  /** Returns what an action pays into a budget and what was paid before; undefined if the rule does not cover the agent. */
  #spendingOf(rule: Rule, tested: TestedAction) {
    const counted = countedHistory(rule, tested, ["self", "delegate"]);
    if (counted === undefined) return undefined;
    const { sums = [], currency = "" } = rule.conditions ?? {};
    const tool = this.#toolOf(tested) ?? "";
    const named = sums.find((sum) => foldNaively(sum.tool) === foldNaively(tool))?.tool.trim() ?? tool;
    const schema = this.#tools(named);
    const types = schema === undefined ? new Map() : typesOf(schema);
    const args = argumentsOf(tested.action.metadata) as Json | undefined;
    const payment = naivePayment(sums, currency, tool, types, args);
    const statuses = countedStatuses(rule) ?? ["pending", "succeeded", "unknown"];
    const past = counted
      .filter(({ decision, outcome = "pending" }) => decision === "allow" && statuses.includes(outcome))
      .map(({ amount, count, beforeMs }) => ({
        atMs: tested.atMs - beforeMs,
        millionths: BigInt(count) * (naiveMillionths(amount ?? 0) ?? 0n),
      }));
    return { payment, past };
  }

  /** Finds the tool that an action names, else the registered tool whose name is the action type. */
  #toolOf({ action: { tool, metadata, actionType } }: TestedAction): string | undefined {
    const named = metadata?.tool;
    for (const name of [tool, typeof named === "string" ? named : undefined]) {
      if (name !== undefined && name.trim() !== "") return this.#tools(name.trim())?.name ?? name.trim();
    }
    return this.#tools(actionType.trim())?.name ?? this.#tools(foldNaively(actionType))?.name;
  }

  #judgeConditions(rule: Rule, type: RuleType, tested: TestedAction): NaiveResult {
    const { metadata } = tested.action;
    const decision = decisionOf(rule);
    const args = argumentsOf(metadata);
    const held = (rule.conditions?.rules ?? []).map(naiveConditionFrom).map((condition) => {
      const text = `\`${comparisonText(condition)}\``;
      if (type === RuleType.METADATA) {
        const holds = metadataHolds(condition, decision, args as Json, metadata as Json, this.#patterns);
        return { holds, because: `${text} ${holds ? "holds" : "does not hold"}` };
      }
      const verdict = judgeArgument(condition, this.#typesFor(rule), decision, args as Json, this.#patterns);
      const holds = isHeld(verdict, decision);
      if (verdict === "true" || verdict === "false") return { holds, because: `${text} is ${verdict}` };
      const meaning = holds ? "which counts as a violation" : "with which the rule does not allow";
      return { holds, because: `\`${condition.field}\` is ${FAULT_TEXTS[verdict]}, ${meaning}` };
    });
    const isAny = rule.conditions?.operator === "OR";
    const fires = isAny ? held.some(({ holds }) => holds) : held.every(({ holds }) => holds);
    // The conditions that settle it: those that hold if it fires, else those that do not.
    const telling = held.filter(({ holds }) => holds === fires);
    return {
      fires,
      because: telling
        .slice(0, 3)
        .map(({ because }) => because)
        .join(" and "),
    };
  }

  /** Tests whether a list has a text. Throws for a text that its kind cannot read, which makes the expression an error. */
  #isListed(name: string, text: string): boolean {
    const list = this.#tools.lists?.get(name);
    const listed = list && naiveListed(list, text);
    if (listed === undefined) throw new Error("not to be compared");
    return listed;
  }

  #typesFor({ tool }: Rule): ArgumentTypes {
    const name = tool?.trim() ?? "";
    const schema = this.#tools(name);
    const types = this.#types.get(name) ?? (schema === undefined ? new Map() : typesOf(schema));
    this.#types.set(name, types);
    return types;
  }

  #judgeContent(rule: Rule, { action }: TestedAction): NaiveResult {
    const isAllow = decisionOf(rule) === "allow";
    const found = rule.conditions?.patterns.find((pattern) =>
      this.#patterns.isFoundIn(pattern, action.actionContent, isAllow),
    );
    if (found === undefined) return { fires: false, because: "no pattern is found in the content" };
    return { fires: true, because: `\`${found.slice(0, 80)}\` is found in the content` };
  }

  #judgeSchema({ tool = "" }: Rule, { action: { metadata } }: TestedAction): NaiveResult {
    const schema = this.#tools(tool.trim());
    const args = argumentsOf(metadata);
    if (args === undefined || schema === undefined) return { fires: true, because: "the arguments are missing" };
    const isBare = args === metadata && schema.arguments.every(({ path }) => path !== "tool");
    const { tool: _tool, ...rest } = args;
    const fits = naiveFits(
      schema.inputSchema as { [key: string]: Json },
      (isBare ? rest : args) as Json,
      this.#patterns,
    );
    if (fits === undefined) return { fires: undefined, because: "" };
    return { fires: !fits, because: `the arguments ${fits ? "fit" : "do not fit"} the schema` };
  }
}

const FAULT_TEXTS = {
  missing: "missing",
  "wrong type": "of the wrong type",
  "without currency": "an amount without a currency",
  "in another currency": "an amount in another currency",
} as const;

/** Maximum characters of a value that a sentence shows. */
const MAX_SHOWN = 60;

/** Writes a condition for people: `amount > 500 EUR`. */
function comparisonText({ field, operator, value, currency }: NaiveCondition): string {
  const text = value === undefined ? "" : JSON.stringify(value);
  const short = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…`.toWellFormed() : text;
  return [field, operator, short, currency?.trim().toUpperCase() ?? ""].filter((part) => part !== "").join(" ");
}

/** Returns the arguments of a call: `metadata.arguments`, else the metadata itself. */
function argumentsOf(metadata: JsonObject | undefined): JsonObject | undefined {
  const nested = metadata?.arguments;
  return isObject(nested) ? nested : metadata;
}

function judgeTrust({ conditions }: Rule, { trust }: TestedAction): NaiveResult {
  const below = conditions?.below ?? 0;
  return { fires: trust < below, because: `trust ${trust} is ${trust < below ? "" : "not "}below ${below}` };
}

/** Judges a schedule rule. Times of day compare as texts. */
function judgeSchedule({ conditions }: Rule, { atMs }: TestedAction): NaiveResult {
  const { timeZone = "UTC", days = [], outside = false } = conditions ?? {};
  const from = conditions?.from?.trim() ?? "00:00";
  const to = conditions?.to?.trim() ?? "24:00";
  const { day, time } = shownTime(timeZone, atMs);
  const names = days.map((each) => Weekday[each]);
  const begins = (name = ""): boolean => days.length === 0 || names.includes(name.toUpperCase());
  const dayBefore = DAYS[(DAYS.indexOf(day) + 6) % 7];
  const isInside =
    from < to
      ? begins(day) && from <= time && time < to
      : (begins(day) && from <= time) || (begins(dayBefore) && time < to);
  const where = isInside ? "inside" : "outside of";
  return { fires: isInside !== outside, because: `${day} ${time} in ${timeZone.trim()} is ${where} the hours` };
}

/**
 * Lists the past actions by some agents that a sequence rule counts, oldest first; with scope `department` also those of colleagues,
 * and with scope `workspace` all. Undefined if the rule does not cover the agent.
 */
function countedHistory({ conditions }: Rule, { agent, history }: TestedAction, counted: readonly PastAgent[]) {
  const {
    scope = Scope.AGENT,
    departmentId,
    windowSeconds = 0n,
    countDecisions = [],
    excludeActionTypes = [],
  } = conditions ?? {};
  if (departmentId !== undefined && !agent.departmentIds.includes(departmentId)) return undefined;
  const groups: readonly PastAgent[] =
    scope === Scope.DEPARTMENT && agent.departmentIds.length > 0 ? [...counted, "colleague"] : counted;
  const wanted = countDecisions.map((each) => DECISIONS.get(each));
  return history
    .filter(({ by }) => scope === Scope.WORKSPACE || groups.includes(by))
    .filter(({ beforeMs }) => beforeMs < Number(windowSeconds) * 1000)
    .filter(({ actionType }) => !matchesAny(excludeActionTypes, actionType))
    .filter(({ decision }) => wanted.length === 0 || wanted.includes(decision))
    .toSorted((a, b) => b.beforeMs - a.beforeMs);
}

const NOT_COVERED: NaiveResult = { fires: false, because: "the rule counts a department that the agent is not in" };

/** Lists what a velocity rule counts: what the agent did and what others did on its behalf. */
function countedActions(rule: Rule, tested: TestedAction) {
  const { matchActionTypes = [] } = rule.conditions ?? {};
  const statuses = countedStatuses(rule);
  return countedHistory(rule, tested, ["self", "delegate"])
    ?.filter(({ actionType }) => matchesAny(matchActionTypes, actionType))
    .filter(({ outcome = "pending" }) => statuses === undefined || statuses.includes(outcome));
}

const STATUSES = ["", "succeeded", "failed", "cancelled", "pending", "unknown"];

/** Lists the statuses of outcomes that a rule names; undefined if it names none. */
function countedStatuses({ conditions }: Rule): readonly string[] | undefined {
  const named = (conditions?.countOutcomes ?? []).map((status) => STATUSES[status] ?? "");
  return named.length === 0 ? undefined : named;
}

function judgeCount(rule: Rule, tested: TestedAction): NaiveResult {
  const matching = countedActions(rule, tested);
  if (matching === undefined) return NOT_COVERED;
  const { maxCount = 0n } = rule.conditions ?? {};
  const count = matching.reduce((sum, past) => sum + past.count, 1);
  const fires = count > Number(maxCount);
  return { fires, because: `${count} matching actions are ${fires ? "" : "not "}more than ${maxCount}` };
}

/**
 * Takes each step by the first action after the step before it. The latest run is found from its end. What others did on behalf of
 * the agent is none of its steps.
 */
function judgeOrdered(rule: Rule, tested: TestedAction): NaiveResult {
  const counted = countedHistory(rule, tested, ["self"]);
  if (counted === undefined) return NOT_COVERED;
  const waiting = (rule.conditions?.steps ?? []).slice(0, -1);
  for (const { actionType, count } of counted) {
    for (let time = 0; time < count; time++) {
      const [next] = waiting;
      if (next === undefined || !matchesAny([next], actionType)) break;
      waiting.shift();
    }
  }
  const [missing] = waiting;
  if (missing === undefined) return { fires: true, because: "the steps happened in order within the window" };
  return { fires: false, because: `the step \`${missing.trim()}\` did not happen in its turn within the window` };
}
