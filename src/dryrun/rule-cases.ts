import type { JsonObject } from "@bufbuild/protobuf";
import { type Rule, RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision as DecisionEnum } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { Work } from "../async/work.ts";
import { isJsonObject } from "../policy/json-value.ts";
import { nameFault } from "../policy/names.ts";
import type { Decision, ToolLookup } from "../policy/types.ts";
import { budgetCases } from "./budget-cases.ts";
import { conditionCases } from "./condition-cases.ts";
import type { PastAction, TestedAction } from "./mandate-test.ts";
import { shownTime, typeOf } from "./naive/naive-evaluator.ts";
import { foldNaively, type NaivePatterns } from "./naive/naive-patterns.ts";
import { BY_TEXTS, countedOutcome, departmentVariants, OTHER_TYPE, pastOf, pastVariants } from "./past-variants.ts";
import { sampleArguments } from "./sample-arguments.ts";
import { disguisesOf, nearMisses, sampleText } from "./sample-text.ts";
import { schemaCases } from "./schema-cases.ts";
import { whenCases } from "./when/cases.ts";

/** A case of a rule, without its expected result. */
export interface Case {
  readonly name: string;
  readonly tested: TestedAction;
}

/** Cases of a rule in groups, each of which begins with the most telling case. */
export interface RuleCases {
  readonly groups: readonly (readonly Case[])[];
  /** Parts of the rule without a case, one sentence each. */
  readonly notes: readonly string[];
}

/** Everything that the cases of a rule are made from. */
export interface CaseSource {
  readonly rule: Rule;
  /** An action that the rule covers. */
  readonly base: TestedAction;
  readonly tools: ToolLookup;
  readonly patterns: NaivePatterns;
  /** Tests whether the rule fires on an action. */
  readonly fires: (tested: TestedAction) => boolean;
  /** Conditions, or other parts of a rule, that get cases of their own. */
  readonly maxGroups: number;
}

/** Maximum number of past actions of one test. */
export const MAX_HISTORY = 10_000;
/** Maximum number of action types, patterns and steps of a rule that have cases. */
const MAX_LISTED = 40;
const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MINUTE_MS = 60_000;
/** Mondays in winter and in summer, so that zones with summer time differ from those without. */
const WEEKS = [Date.UTC(2025, 0, 6), Date.UTC(2025, 6, 7)];

/** Returns an action type that a pattern covers. */
export function typeFor(pattern: string): string {
  const name = foldNaively(pattern);
  return name === "*" ? "any.action" : name.replaceAll("*", "1");
}

/** Lists the cases of a rule by its type; empty for a semantic and a provenance rule. Pauses within an expression. */
export function* casesOf(source: CaseSource): Work<RuleCases> {
  const { rule, tools, base, patterns, fires } = source;
  const type = typeOf(rule, tools);
  if (type === RuleType.SEMANTIC) return { groups: [], notes: ["a semantic rule asks a model and has no tests"] };
  if (type === RuleType.PROVENANCE) {
    return { groups: [], notes: ["a provenance rule looks at what a session observed and has no generated tests"] };
  }
  const own = casesByType(source, type);
  const tried = own.groups.flat();
  const start = tried.find(({ tested }) => fires(tested))?.tested ?? tried[0]?.tested ?? base;
  const args = argumentsFor(source, start);
  const whens = yield* whenCases({ rule, base: start, args, tools, patterns });
  const expression = whens.slice(0, source.maxGroups);
  // On an action on which the rule fires, so that only the action type or the tool can keep it from firing.
  const firing = (yield* firstFiring([...tried, ...expression.flat()], fires)) ?? base;
  const gates = [actionTypeCases(rule, firing), toolCases(rule, firing)];
  return { groups: [...own.groups, ...expression, ...gates], notes: own.notes };
}

function* firstFiring(cases: readonly Case[], fires: CaseSource["fires"]): Work<TestedAction | undefined> {
  for (const { tested } of cases) {
    if (fires(tested)) return tested;
    yield;
  }
  return undefined;
}

/** Returns the arguments of an action, or a sample of those of its tool. */
function argumentsFor({ rule, tools, patterns }: CaseSource, { action }: TestedAction): JsonObject {
  const own = action.metadata?.arguments;
  if (isJsonObject(own)) return own;
  const tool = rule.tool === undefined ? undefined : tools(rule.tool.trim());
  const schema = tool?.inputSchema as Parameters<typeof sampleArguments>[0] | undefined;
  return ((schema && sampleArguments(schema, patterns)) ?? {}) as JsonObject;
}

function casesByType(source: CaseSource, type: RuleType): RuleCases {
  const { rule, base, tools, patterns, maxGroups } = source;
  switch (type) {
    case RuleType.ARGUMENT:
    case RuleType.METADATA:
      return {
        groups: conditionCases(rule, base, tools, patterns, maxGroups),
        notes: [...patternNotes(rule, patterns), ...cutNotes(rule, maxGroups)],
      };
    case RuleType.ACTION:
      return { groups: [], notes: [] };
    case RuleType.CONTENT:
      return contentCases(source);
    case RuleType.TRUST:
      return { groups: [trustCases(source)], notes: [] };
    case RuleType.SCHEDULE:
      return { groups: scheduleCases(source), notes: [] };
    case RuleType.SCHEMA:
      return casesOfSchema(source);
    default:
      return sequenceCases(source);
  }
}

function sequenceCases(source: CaseSource): RuleCases {
  switch (source.rule.conditions?.mode) {
    case SequenceMode.ORDERED:
      return orderedCases(source);
    case SequenceMode.BUDGET:
      return { groups: budgetCases(source), notes: [] };
    default:
      return countCases(source);
  }
}

function patternNotes({ conditions }: Rule, patterns: NaivePatterns): string[] {
  return (conditions?.rules ?? []).flatMap(({ operator, value, field }) => {
    const text = operator === "matches" && value?.kind.case === "stringValue" ? value.kind.value : undefined;
    if (text === undefined || sampleText(text, patterns) !== undefined) return [];
    return [`no text that matches can be derived from the pattern of \`${field}\`, so only mismatches are tested`];
  });
}

function cutNotes({ conditions }: Rule, maxGroups: number): string[] {
  const left = (conditions?.rules.length ?? 0) - maxGroups;
  return left > 0 ? [`the last ${left} conditions have no cases of their own`] : [];
}

const withAction = (base: TestedAction, change: Partial<TestedAction["action"]>): TestedAction => ({
  ...base,
  action: { ...base.action, ...change },
});

/** Lists types close to a pattern: covered, spelled otherwise, one character short and one longer. */
function typesAround(pattern: string): readonly string[] {
  const stem = foldNaively(pattern).replaceAll("*", "");
  return [typeFor(pattern), `  ${typeFor(pattern).toUpperCase()} `, stem.slice(0, -1), `${stem}1`, stem, `${stem}.1`];
}

/** Lists types close to patterns of which some are excluded: around each, and in both a pattern and an exclusion. */
function typesOf(patterns: readonly string[], excluded: readonly string[]): readonly string[] {
  const [listed, left] = [patterns.slice(0, MAX_LISTED), excluded.slice(0, MAX_LISTED)];
  const inBoth = left.flatMap((without) =>
    listed.flatMap((pattern) => [
      foldNaively(without).replaceAll("*", typeFor(pattern)),
      foldNaively(pattern).replaceAll("*", foldNaively(without).replaceAll("*", "")),
    ]),
  );
  return [...new Set([...[...listed, ...left].flatMap(typesAround), ...inBoth])].filter(isType);
}

const isType = (type: string): boolean => foldNaively(type) !== "" && nameFault(type) === undefined;

function actionTypeCases(rule: Rule, base: TestedAction): Case[] {
  const { matchActionTypes = [], excludeActionTypes = [], steps = [] } = rule.conditions ?? {};
  const types = [OTHER_TYPE, ...typesOf([...matchActionTypes, ...steps.slice(-1)], excludeActionTypes)];
  return types.map((actionType) => ({
    name: `action type \`${actionType}\``,
    tested: withAction(base, { actionType }),
  }));
}

function toolCases(rule: Rule, base: TestedAction): Case[] {
  const tool = rule.tool?.trim();
  if (tool === undefined || tool === "")
    return [{ name: "any tool", tested: withAction(base, { tool: "other_tool" }) }];
  const other = tool === tool.toUpperCase() ? tool.toLowerCase() : tool.toUpperCase();
  const { tool: _, ...action } = base.action;
  return [
    { name: "the tool in another case", tested: withAction(base, { tool: other }) },
    { name: "another tool", tested: withAction(base, { tool: `${tool}_2`.slice(-256) }) },
    { name: "no tool", tested: { ...base, action } },
  ];
}

function contentCases({ rule, base, patterns }: CaseSource): RuleCases {
  const notes: string[] = [];
  const at = (name: string, actionContent: string): Case => ({ name, tested: withAction(base, { actionContent }) });
  const listed = (rule.conditions?.patterns ?? []).slice(0, MAX_LISTED);
  const groups = listed.map((pattern, index) => {
    const sample = sampleText(pattern, patterns);
    if (sample === undefined) {
      notes.push(`no text that matches can be derived from \`patterns[${index}]\`, so only mismatches are tested`);
    }
    const misses = nearMisses(pattern, sample ?? "", patterns);
    const texts =
      sample === undefined
        ? []
        : [
            sample,
            `see ${sample} there`,
            sample.toUpperCase(),
            sample.toLowerCase(),
            ...disguisesOf(sample).map(([, disguised]) => disguised),
          ];
    return [...texts, ...misses].map((text) => at(`content ${JSON.stringify(text)}`, text));
  });
  return { groups, notes };
}

function trustCases({ rule, base }: CaseSource): Case[] {
  const tenths = (rule.conditions?.below ?? 0) * 10;
  const tried = [Math.ceil(tenths) - 1, Math.ceil(tenths), Math.floor(tenths), Math.ceil(tenths) + 1, 0, 1000];
  const trusts = [...new Set(tried.filter((each) => each >= 0 && each <= 1000))].map((each) => each / 10);
  return trusts.map((trust) => ({ name: `trust ${trust}`, tested: { ...base, trust } }));
}

/** Finds the time at which clocks in a zone show a time of a day in a week; undefined for a time that they skip. */
function instantOf(timeZone: string, week: number, day: number, time: string): number | undefined {
  const [hours = 0, minutes = 0] = time.split(":").map(Number);
  const wanted = day * 1440 + hours * 60 + minutes;
  let at = week + wanted * MINUTE_MS;
  for (let attempt = 0; attempt < 4; attempt++) {
    const clock = shownTime(timeZone, at);
    const [shownHours = 0, shownMinutes = 0] = clock.time.split(":").map(Number);
    const off = DAYS.indexOf(clock.day) * 1440 + shownHours * 60 + shownMinutes - wanted;
    if (off % 10_080 === 0) return at;
    // The nearer way around the week.
    at -= ((((off + 5_040) % 10_080) + 10_080) % 10_080) * MINUTE_MS - 5_040 * MINUTE_MS;
  }
  return undefined;
}

/** Lists times around both edges of each day of a week, those of one day as a group. */
function scheduleCases({ rule, base }: CaseSource): readonly (readonly Case[])[] {
  const { timeZone = "UTC", from, to } = rule.conditions ?? {};
  const edges = [from?.trim() ?? "00:00", to?.trim() ?? "24:00"];
  const around = (week: number, day: number): Case[] => {
    const instants = edges.flatMap((edge) => instantOf(timeZone, week, day, edge) ?? []);
    const [first = week, last = first] = instants;
    const times = [
      ...instants.flatMap((at) => [at - MINUTE_MS, at - 1, at, at + 1]),
      first + Math.floor((last - first) / 2),
    ];
    return times.map((atMs) => {
      const { day: shownDay, time } = shownTime(timeZone, atMs);
      return { name: `at ${new Date(atMs).toISOString()}, ${shownDay} ${time}`, tested: { ...base, atMs } };
    });
  };
  const [winter = 0, summer = 0] = WEEKS;
  return [...DAYS.keys()].map((day) => around(winter, day)).concat([...DAYS.keys()].map((day) => around(summer, day)));
}

function casesOfSchema({ rule, base, tools, patterns }: CaseSource): RuleCases {
  const tool = tools(rule.tool?.trim() ?? "");
  if (tool === undefined) return { groups: [], notes: [] };
  const { groups, isDerived } = schemaCases(tool, base, patterns);
  const note = `no arguments that fit can be derived from the schema of \`${tool.name}\`, so only missing ones are tested`;
  return { groups, notes: isDerived ? [] : [note] };
}

/** Returns a decision with which past actions count. */
const countedDecision = ({ conditions }: Rule): Decision => {
  const words: ReadonlyMap<DecisionEnum | undefined, Decision> = new Map([
    [DecisionEnum.BLOCK, "block"],
    [DecisionEnum.ESCALATE, "escalate"],
  ]);
  return words.get(conditions?.countDecisions[0]) ?? "allow";
};

function countCases({ rule, base }: CaseSource): RuleCases {
  const { maxCount = 0n, windowSeconds = 0n, matchActionTypes = [], excludeActionTypes = [] } = rule.conditions ?? {};
  const limit = Number(maxCount);
  const windowMs = Number(windowSeconds) * 1000;
  if (limit > MAX_HISTORY) {
    return { groups: [], notes: [`a limit above ${MAX_HISTORY} actions is not tested at its bound`] };
  }
  const { actionType } = base.action;
  const decision = countedDecision(rule);
  const outcome = countedOutcome(rule);
  const past = (count: number, change: Partial<PastAction> = {}): PastAction[] =>
    count < 1
      ? []
      : [pastOf({ actionType, decision, ...outcome, beforeMs: Math.floor(windowMs / 2), count, ...change })];
  const at = (name: string, history: PastAction[], from = base): Case => ({ name, tested: { ...from, history } });
  const counts = [limit + 1, limit, limit - 1, limit + 2, 1].filter((count) => count > 0 && count <= MAX_HISTORY);
  const bounds = [...new Set(counts)].map((count) => at(`count ${count} of ${limit}`, past(count - 1)));
  const variants = pastVariants(windowMs, rule.conditions?.countOutcomes).flatMap(([name, change]) => [
    at(`${limit} past actions ${name}`, past(limit, change)),
    at(`${limit} past actions, the first ${name}`, [...past(1, change), ...past(limit - 1)].sort(oldestFirst)),
  ]);
  const departments = departmentVariants(rule, base).flatMap(([name, from]) =>
    (["self", "colleague"] as const).map((by) =>
      at(`${limit} past actions by ${BY_TEXTS[by]}, for ${name}`, past(limit, { by }), from),
    ),
  );
  const typed = [...typesOf(matchActionTypes, excludeActionTypes), OTHER_TYPE].map((type) =>
    at(`${limit} past actions of type \`${type}\``, past(limit, { actionType: type })),
  );
  return { groups: [bounds, variants, departments, typed], notes: [] };
}

const oldestFirst = (a: PastAction, b: PastAction): number => b.beforeMs - a.beforeMs;

function orderedCases({ rule, base }: CaseSource): RuleCases {
  const { steps = [], windowSeconds = 0n, excludeActionTypes = [] } = rule.conditions ?? {};
  const windowMs = Number(windowSeconds) * 1000;
  const before = steps.slice(0, -1);
  const middle = Math.floor(windowMs / 2);
  const decision = countedDecision(rule);
  const run = (change: Partial<PastAction> = {}): PastAction[] =>
    before.map((step, index) =>
      pastOf({ actionType: typeFor(step), decision, beforeMs: middle - index * 10, ...change }),
    );
  const at = (name: string, history: PastAction[], from = base): Case => ({ name, tested: { ...from, history } });
  const whole = run();
  const missing = before.map((step, index) => at(`without the step \`${step.trim()}\``, whole.toSpliced(index, 1)));
  const swapped = before.slice(1).map((_, index) => {
    const [first, second] = [whole[index] as PastAction, whole[index + 1] as PastAction];
    const turned = [
      { ...second, beforeMs: first.beforeMs },
      { ...first, beforeMs: second.beforeMs },
    ];
    return at(`the steps ${index + 1} and ${index + 2} in turned order`, whole.toSpliced(index, 2, ...turned));
  });
  const variants = pastVariants(windowMs).flatMap(([name, change]) => [
    at(`every step ${name}`, run(change)),
    at(`the first step ${name}`, [{ ...(whole[0] as PastAction), ...change }, ...whole.slice(1)].sort(oldestFirst)),
  ]);
  const typed = before.slice(0, MAX_LISTED).flatMap((step, index) =>
    typesOf([step], excludeActionTypes).map((actionType) => {
      const changed = { ...(whole[index] as PastAction), actionType };
      return at(`step ${index + 1} as \`${actionType}\``, whole.with(index, changed));
    }),
  );
  const others = whole.flatMap((each) => [each, pastOf({ beforeMs: each.beforeMs - 1 })]);
  const departments = departmentVariants(rule, base).flatMap(([name, from]) =>
    (["self", "colleague"] as const).map((by) => at(`every step by ${BY_TEXTS[by]}, for ${name}`, run({ by }), from)),
  );
  const bounds = [
    at("every step in order", whole),
    at("no step", []),
    at("other actions in between", others),
    ...missing,
  ];
  return { groups: [bounds, swapped, variants, typed, departments], notes: [] };
}
