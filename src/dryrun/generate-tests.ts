import { type Rule, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Turns } from "../async/turns.ts";
import { doInTurns } from "../async/work.ts";
import { compileMandate } from "../policy/compile/mandate.ts";
import type { MandateSource, ToolLookup } from "../policy/types.ts";
import { digestOf } from "../tree/canonical.ts";
import type { MandateTest, TestedAction, TestNote, TestSuite } from "./mandate-test.ts";
import { type Finishes, NaiveEvaluator } from "./naive/naive-evaluator.ts";
import { NaivePatterns } from "./naive/naive-patterns.ts";
import { type Case, casesOf, typeFor } from "./rule-cases.ts";
import { contextOf } from "./run-tests.ts";

/** Maximum number of tests of a mandate. */
export const MAX_TESTS = 500;
/** Maximum characters of JSON of one test, and of all tests of a mandate. */
const MAX_TEST_SIZE = 16_384;
const MAX_SUITE_SIZE = 1_572_864;
/** Maximum number of rules and conditions that are judged naively for one mandate, so that a large one ends in seconds. */
const MAX_JUDGED = 400_000;
/** Minimum number of conditions of a rule that get cases of their own, however many rules there are. */
const MIN_GROUPS = 5;
/** Conditions that take as long as one `when`. */
const WHEN_WEIGHT = 20;
/** Number of hours that are searched for one in which no schedule rule fires. */
const QUIET_HOURS = 168;
const HOUR_MS = 3_600_000;
/** A Tuesday morning. */
const START_MS = Date.UTC(2025, 0, 7, 10);

/** The department of the acting agent where the mandate names none. */
const TEST_DEPARTMENT = "dep_test";
const TEST_AGENT = "agt_test";

/**
 * Generates the tests of a mandate from its rules: boundary cases, with the decision that the naive evaluator expects. The same
 * mandate over the same schemas gives the same tests, with the same ids. `stale`: indices of the rules that no longer compile.
 * Aborts with the signal's reason.
 */
export async function generateTests(
  mandate: MandateSource,
  tools: ToolLookup,
  stale: ReadonlySet<number>,
  signal?: AbortSignal,
): Promise<TestSuite> {
  const generator = new TestGenerator(mandate, tools, stale);
  return generator.generate(signal);
}

class TestGenerator {
  readonly #mandate: MandateSource;
  readonly #tools: ToolLookup;
  readonly #stale: ReadonlySet<number>;
  readonly #evaluator: NaiveEvaluator;
  readonly #patterns: NaivePatterns;
  readonly #notes: TestNote[] = [];
  /** Rules and conditions that one evaluation judges. */
  readonly #weight: number;

  constructor(mandate: MandateSource, tools: ToolLookup, stale: ReadonlySet<number>) {
    this.#mandate = mandate;
    this.#tools = tools;
    this.#stale = stale;
    this.#patterns = new NaivePatterns((name) => tools.lists?.get(name));
    this.#evaluator = new NaiveEvaluator(mandate, tools, stale, finishesFrom(mandate, tools));
    this.#weight = mandate.rules.reduce(
      (sum, { conditions, when }) => sum + 1 + (conditions?.rules.length ?? 0) + (when === undefined ? 0 : WHEN_WEIGHT),
      0,
    );
  }

  async generate(signal?: AbortSignal): Promise<TestSuite> {
    const turns = new Turns();
    const quiet = this.#quietAction();
    const rules: (readonly Case[])[] = [];
    for (const [index, rule] of this.#mandate.rules.entries()) {
      signal?.throwIfAborted();
      rules.push(await this.#casesOf(rule, index, quiet, turns));
    }
    const tests = new SuiteBuilder();
    let judged = 0;
    let left = 0;
    for (const { index, each } of inTurns(rules)) {
      signal?.throwIfAborted();
      judged += this.#weight;
      if (judged > MAX_JUDGED || tests.isFull) left++;
      else this.#addTest(tests, index, each);
      await turns.giveWay();
    }
    if (left > 0) this.#note(undefined, `${left} further cases are left out: a mandate has at most ${MAX_TESTS} tests`);
    return { tests: tests.sorted(), notes: [...this.#notes, ...tests.notes] };
  }

  #note(index: number | undefined, message: string): void {
    this.#notes.push({ rule: index === undefined ? undefined : `rules[${index}]`, message });
  }

  /**
   * Builds an action by an agent that the mandate covers, at a time and with a trust at which as few rules as possible fire.
   */
  #quietAction(): TestedAction {
    const { scope, agentId = TEST_AGENT, departmentId } = this.#mandate;
    const departmentIds = scope === "department" && departmentId !== undefined ? [departmentId] : [TEST_DEPARTMENT];
    const action: TestedAction = {
      action: { actionType: "unrelated.action", actionContent: "" },
      agent: { agentId, departmentIds },
      history: [],
      atMs: START_MS,
      trust: 100,
    };
    const times = Array.from({ length: QUIET_HOURS }, (_, hour) => ({ ...action, atMs: START_MS + hour * HOUR_MS }));
    return this.#quietest(times, -1);
  }

  /** Returns, of some actions, the first on which the fewest rules fire beside one. */
  #quietest(actions: readonly TestedAction[], own: number): TestedAction {
    if (actions.length * this.#weight > MAX_JUDGED / 20) return actions[0] as TestedAction;
    let [best, fewest] = [actions[0] as TestedAction, Number.POSITIVE_INFINITY];
    for (const action of actions) {
      const results = this.#evaluator.evaluate(action)?.results ?? [];
      const firing = results.filter(({ fires }, index) => fires && index !== own).length;
      if (firing < fewest) [best, fewest] = [action, firing];
      if (fewest === 0) break;
    }
    return best;
  }

  async #casesOf(rule: Rule, index: number, quiet: TestedAction, turns: Turns): Promise<readonly Case[]> {
    if (this.#stale.has(index)) {
      this.#note(index, "the rule no longer compiles and has no tests");
      return [];
    }
    const base = this.#baseOf(rule, index, quiet);
    await turns.giveWay();
    const fires = (tested: TestedAction): boolean => this.#evaluator.fires(index, tested) === true;
    const maxGroups = Math.ceil(MAX_TESTS / this.#mandate.rules.length) + MIN_GROUPS;
    const source = { rule, base, tools: this.#tools, patterns: this.#patterns, fires, maxGroups };
    const { groups, notes } = await doInTurns(casesOf(source));
    for (const note of notes) this.#note(index, note);
    await turns.giveWay();
    return [...inTurns(distinct(groups))].map(({ each }) => each);
  }

  /** Turns the quiet action into one that the rule covers. */
  #baseOf({ conditions, tool }: Rule, index: number, quiet: TestedAction): TestedAction {
    const { departmentId, matchActionTypes = [], mode, steps = [] } = conditions ?? {};
    const departmentIds = [
      ...new Set([...quiet.agent.departmentIds, ...(departmentId === undefined ? [] : [departmentId])]),
    ];
    const agent = {
      ...quiet.agent,
      departmentIds: departmentId === undefined ? quiet.agent.departmentIds : departmentIds,
    };
    const name = tool?.trim() ?? "";
    const patterns = mode === SequenceMode.ORDERED ? steps.slice(-1) : matchActionTypes;
    const types = patterns.length === 0 ? [quiet.action.actionType] : patterns.slice(0, 20).map(typeFor);
    const actions = types.map((actionType) => ({
      ...quiet,
      agent,
      action: { ...quiet.action, actionType, ...(name !== "" && { tool: this.#tools(name)?.name ?? name }) },
    }));
    return this.#quietest(actions, index);
  }

  #addTest(tests: SuiteBuilder, index: number, { name, tested }: Case): void {
    const verdict = this.#evaluator.evaluate(tested);
    const result = verdict?.results[index];
    const rule = `rules[${index}]`;
    if (verdict === undefined || result?.fires === undefined) {
      tests.noteOnce({ rule, message: "cases are left out whose schema has keywords that the tests do not judge" });
      return;
    }
    const { fires, because } = result;
    const resetsAtMs = fires ? this.#evaluator.resetsAt(index, tested, verdict.decision) : undefined;
    const expected = { decision: verdict.decision, fires, ...(resetsAtMs !== undefined && { resetsAtMs }) };
    const ending = fires ? "the rule fires" : "the rule does not fire";
    tests.add({ name, rule, ...tested, expected, because: `${because}, so ${ending}` });
  }
}

/** Creates the test whether an expression ends within its bounds, by the compiled rules, which have them. */
function finishesFrom(mandate: MandateSource, tools: ToolLookup): Finishes {
  const compiled = compileMandate(mandate, tools, { allowStale: true });
  return (index, tested) => {
    const when = compiled.rules[index]?.when;
    return when !== undefined && !(when.judge(contextOf(tested, compiled, tools)) instanceof Error);
  };
}

/** Keeps the first of the cases with the same action, so that it has the name of the group it belongs to most. */
function distinct(groups: readonly (readonly Case[])[]): readonly (readonly Case[])[] {
  const seen = new Set<string>();
  return groups.map((cases) =>
    cases.filter(({ tested }) => {
      const text = JSON.stringify(tested);
      const isNew = !seen.has(text);
      seen.add(text);
      return isNew;
    }),
  );
}

/** Takes one item of each list in turn, until none is left. */
function* inTurns<T>(lists: readonly (readonly T[])[]): Generator<{ readonly index: number; readonly each: T }> {
  const longest = Math.max(0, ...lists.map(({ length }) => length));
  for (let turn = 0; turn < longest; turn++) {
    for (const [index, list] of lists.entries()) {
      if (turn < list.length) yield { index, each: list[turn] as T };
    }
  }
}

/** The tests of a mandate as they are collected: each action once for each rule, within the bounds. */
class SuiteBuilder {
  readonly #tests: MandateTest[] = [];
  readonly #actions = new Set<string>();
  readonly #names = new Map<string, number>();
  readonly #notes = new Map<string, TestNote>();
  #size = 0;

  get isFull(): boolean {
    return this.#tests.length >= MAX_TESTS || this.#size > MAX_SUITE_SIZE;
  }

  get notes(): readonly TestNote[] {
    return [...this.#notes.values()];
  }

  noteOnce(note: TestNote): void {
    this.#notes.set(`${note.rule} ${note.message}`, note);
  }

  add(test: Omit<MandateTest, "testId">): void {
    const { name: _name, because: _because, expected: _expected, ...tested } = test;
    const action = JSON.stringify(tested);
    if (this.#actions.has(action)) return;
    this.#actions.add(action);
    if (action.length > MAX_TEST_SIZE) {
      this.noteOnce({ rule: test.rule, message: `cases of more than ${MAX_TEST_SIZE} characters are left out` });
      return;
    }
    const key = `${test.rule} ${test.name}`;
    const count = (this.#names.get(key) ?? 0) + 1;
    this.#names.set(key, count);
    const named = count === 1 ? test : { ...test, name: `${test.name}, case ${count}` };
    const digest = digestOf(JSON.parse(JSON.stringify(named)));
    this.#tests.push({ testId: `tst_${digest.slice(0, 24)}`, ...named });
    this.#size += action.length + named.name.length + named.because.length;
  }

  /** Returns the tests by rule, in the order in which they were added. */
  sorted(): readonly MandateTest[] {
    const indexOf = ({ rule }: MandateTest): number => Number(rule.slice("rules[".length, -1));
    return this.#tests.toSorted((a, b) => indexOf(a) - indexOf(b));
  }
}
