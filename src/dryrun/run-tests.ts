import { Turns } from "../async/turns.ts";
import type { BudgetWindow, PotSpec } from "../policy/budget.ts";
import { Checks, type LongCheck } from "../policy/checks.ts";
import { millionthsFrom } from "../policy/decimal.ts";
import { withLimitResets } from "../policy/limit-resets.ts";
import { argumentsFrom, normaliseName, toolNameFrom } from "../policy/names.ts";
import { heldAmount } from "../policy/outcome-status.ts";
import { createPolicySet } from "../policy/policy-set.ts";
import type {
  CompiledMandate,
  CounterSpec,
  EvaluationContext,
  OrderedSpec,
  PolicyReason,
  PolicySet,
  ToolLookup,
} from "../policy/types.ts";
import { BudgetPots, type PotAmount } from "../state/counters/budget-pots.ts";
import type { HistoryEntry } from "../state/counters/log-history.ts";
import { OrderedSequences } from "../state/counters/ordered.ts";
import { readCounter } from "../state/counters/read-counter.ts";
import { createResetReader } from "../state/counters/reset-reader.ts";
import { type Membership, type Party, VelocityWindows } from "../state/counters/windows.ts";
import type { MandateTest, PastAgent, TestedAction, TestResult } from "./mandate-test.ts";

/** Answers long checks, such as a large schema, outside of the event loop. */
export type AnswerLongChecks = (checks: readonly LongCheck[]) => Promise<ConstructorParameters<typeof Checks>[0]>;

/** Result of running one test. */
export interface TestRun {
  readonly test: MandateTest;
  readonly passed: boolean;
  readonly actual: TestResult;
  readonly reasons: readonly PolicyReason[];
}

const WORKSPACE = "wsp_test";
const COLLEAGUE = "agt_colleague";
const OTHER = "agt_other";
const DELEGATE = "agt_delegate";

/** Results of running tests; `notRun` counts the tests that did not run in time. */
export interface TestRuns {
  readonly runs: readonly TestRun[];
  readonly notRun: number;
}

/** Options of `runTests`. */
export interface RunOptions {
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds after which no further test begins. Default: none. */
  readonly maxMs?: number;
  /** Default: long checks stay unanswered, so that their rules fire unless they allow. */
  readonly answerLongChecks?: AnswerLongChecks | undefined;
}

/**
 * Decides tests with the compiled rules of a mandate alone, as if it were in mode `enforce`. Semantic rules are left out.
 * Counters are built from each test's own history, in memory. MUST NOT write anything.
 */
export async function runTests(
  tests: readonly MandateTest[],
  mandate: CompiledMandate,
  tools: ToolLookup,
  { signal, maxMs = Number.POSITIVE_INFINITY, answerLongChecks }: RunOptions = {},
): Promise<TestRuns> {
  const rules = mandate.rules.filter(({ semantic }) => semantic === undefined);
  const alone = { ...mandate, mode: "enforce", rules } as const;
  const set = createPolicySet([alone]);
  const turns = new Turns();
  const started = performance.now();
  const runs: TestRun[] = [];
  for (const test of tests) {
    signal?.throwIfAborted();
    if (performance.now() - started > maxMs) break;
    runs.push(await runTest(test, alone, set, tools, answerLongChecks));
    await turns.giveWay();
  }
  return { runs, notRun: tests.length - runs.length };
}

async function runTest(
  test: MandateTest,
  mandate: CompiledMandate,
  set: PolicySet,
  tools: ToolLookup,
  answerLongChecks: AnswerLongChecks | undefined,
): Promise<TestRun> {
  const history = new TestHistory(test, mandate);
  const context = contextFrom(test, history, tools);
  let result = set.evaluate(context);
  if (result.missingChecks.length > 0 && answerLongChecks !== undefined) {
    result = set.evaluate({
      ...context,
      checks: new Checks(await answerLongChecks(result.missingChecks), tools.lists),
    });
  }
  const decision = result.decision ?? "allow";
  const resetsAt = createResetReader(history, { decision, counts: true, nowMs: test.atMs });
  const { reasons } = withLimitResets({ policy: result, reasons: result.reasons }, test.atMs, resetsAt);
  const own = reasons.filter(({ rule }) => rule === test.rule || rule.startsWith(`${test.rule}.`));
  const resetsAtMs = own.find((reason) => reason.resetsAtMs !== undefined)?.resetsAtMs;
  const actual = { decision, fires: own.length > 0, ...(resetsAtMs !== undefined && { resetsAtMs }) };
  return { test, passed: isSame(actual, test.expected), actual, reasons };
}

// Tests of older versions do not say when a limit has room again.
const isSame = (actual: TestResult, { decision, fires, resetsAtMs = actual.resetsAtMs }: TestResult): boolean =>
  actual.decision === decision && actual.fires === fires && actual.resetsAtMs === resetsAtMs;

/** The rules whose counters a test has. */
type CountingRules = Pick<CompiledMandate, "rules">;

/** Builds the context of a tested action, in a workspace that has nothing else. */
export const contextOf = (tested: TestedAction, mandate: CountingRules, tools: ToolLookup): EvaluationContext =>
  contextFrom(tested, new TestHistory(tested, mandate), tools);

function contextFrom(tested: TestedAction, history: TestHistory, tools: ToolLookup): EvaluationContext {
  const { action, agent, atMs, trust } = tested;
  const { metadata, actionType } = action;
  const toolName = toolNameFrom(action.tool, metadata, actionType, (name) => tools(name) !== undefined);
  return {
    agentId: agent.agentId,
    departmentIds: agent.departmentIds.toSorted(),
    actionType: normaliseName(actionType),
    actionContent: action.actionContent,
    tool: toolName === undefined ? undefined : tools(toolName),
    toolName,
    arguments: argumentsFrom(metadata),
    metadata,
    trustTenths: Math.round(trust * 10),
    nowMs: atMs,
    checks: new Checks(undefined, tools.lists),
    counterValue: (spec, { agentId }) => readCounter(history, spec, agentId, atMs),
    potValue: (budget, { agentId }) => history.budgets.read(budget, agentId, atMs),
    sequenceStartedAtMs: (spec) => history.sequences.read(spec, agent.agentId, atMs),
  };
}

/** The windows, sequences and budgets of one test, built when a rule first reads them. */
class TestHistory {
  readonly #tested: TestedAction;
  readonly #mandate: CountingRules;
  #windows: VelocityWindows | undefined;
  #sequences: OrderedSequences | undefined;
  #budgets: BudgetPots | undefined;

  constructor(tested: TestedAction, mandate: CountingRules) {
    this.#tested = tested;
    this.#mandate = mandate;
  }

  get windows(): VelocityWindows {
    this.#windows ??= this.#buildWindows();
    return this.#windows;
  }

  get sequences(): OrderedSequences {
    this.#sequences ??= this.#buildSequences();
    return this.#sequences;
  }

  get budgets(): BudgetPots {
    this.#budgets ??= this.#buildBudgets();
    return this.#budgets;
  }

  #buildBudgets(): BudgetPots {
    const budgets = new BudgetPots(membershipOf(this.#tested), WORKSPACE);
    const pots = this.#mandate.rules.flatMap(({ budget, velocity }): BudgetWindow[] => {
      if (budget !== undefined) return [budget];
      return velocity?.counter.pot === undefined ? [] : [{ ...velocity.counter, pot: velocity.counter.pot }];
    });
    budgets.require(pots);
    const { atMs } = this.#tested;
    for (let missing = budgets.missing(atMs); missing !== undefined; missing = budgets.missing(atMs)) {
      const { pot } = pots.find(({ pot: { key } }) => key === missing?.pot) ?? {};
      budgets.load(missing, { oldest: amountsOf(this.#tested, pot), left: undefined, rest: [], newest: [] });
    }
    return budgets;
  }

  #buildWindows(): VelocityWindows {
    const specs = this.#mandate.rules.flatMap(({ velocity }): CounterSpec[] =>
      velocity === undefined || velocity.counter.pot !== undefined ? [] : [velocity.counter],
    );
    const entries = entriesOf(this.#tested);
    const windows = new VelocityWindows(membershipOf(this.#tested), WORKSPACE);
    windows.require(specs, entries.length);
    const history = { expired: [], entries, nextIndex: entries.length, rest: [], source: "decision_log" } as const;
    for (;;) {
      const missing = windows.missing(this.#tested.atMs, entries.length);
      if (missing === undefined) return windows;
      windows.load(missing, history);
    }
  }

  #buildSequences(): OrderedSequences {
    const specs = this.#mandate.rules.flatMap(({ ordered }): OrderedSpec[] => (ordered ? [ordered] : []));
    const sequences = new OrderedSequences(membershipOf(this.#tested));
    sequences.require(specs);
    const replay = sequences.replay();
    replay.add(entriesOf(this.#tested));
    replay.finish();
    return sequences;
  }
}

function partiesOf({ agentId }: TestedAction["agent"]): Readonly<Record<PastAgent, Party>> {
  return {
    self: { agentId },
    colleague: { agentId: COLLEAGUE },
    other: { agentId: OTHER },
    delegate: { agentId: DELEGATE, principalId: agentId },
  };
}

/** Lists what the past actions that were allowed have in a pot after their outcomes, oldest first. */
function amountsOf({ history, agent, atMs }: TestedAction, pot: PotSpec | undefined): readonly PotAmount[] {
  const parties = partiesOf(agent);
  const amounts = history.flatMap(({ by, actionType, decision, beforeMs, count, amount = 0, outcome = "pending" }) => {
    const isCounted = pot?.counted?.matches(normaliseName(actionType)) === true ? 1 : 0;
    const millionths = pot?.counted === undefined ? millionthsFrom(amount) : isCounted;
    if (decision !== "allow" || millionths === undefined) return [];
    const held = heldAmount(outcome, millionths, undefined, pot?.outcomes);
    const paid = { at: atMs - beforeMs, ...parties[by], ...held };
    return Array.from({ length: count }, () => paid);
  });
  return amounts.sort((a, b) => a.at - b.at);
}

function entriesOf({ history, agent, atMs }: TestedAction): readonly HistoryEntry[] {
  const parties = partiesOf(agent);
  return history.flatMap(({ by, actionType, decision, beforeMs, count }) => {
    const entry = { at: atMs - beforeMs, ...parties[by], actionType: normaliseName(actionType), decision };
    return Array.from({ length: count }, () => entry);
  });
}

/** Builds the membership of the acting agent, of one in exactly its departments, and of two in no department. */
function membershipOf({ agent }: TestedAction): Membership {
  const members = [agent.agentId, COLLEAGUE];
  const departmentsOf = (agentId: string): readonly string[] =>
    members.includes(agentId) ? agent.departmentIds.toSorted() : [];
  return {
    agentCount: () => members.length + 2,
    departmentsOf,
    membersOfAny: (ids) => new Set(members.filter((each) => departmentsOf(each).some((id) => ids.includes(id)))),
  };
}
