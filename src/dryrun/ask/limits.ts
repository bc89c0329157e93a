import { RuleType } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { Work } from "../../async/work.ts";
import type { CompiledBudget } from "../../policy/budget.ts";
import { groupOfRule } from "../../policy/coverage.ts";
import { amountText } from "../../policy/decimal.ts";
import type {
  CompiledMandate,
  CompiledRule,
  CompiledVelocity,
  OrderedSpec,
  Principal,
  ScopeWord,
} from "../../policy/types.ts";
import type { AgentState } from "../../state/agents.ts";
import { readCounter } from "../../state/counters/read-counter.ts";
import type { WorkspaceState } from "../../state/workspace.ts";
import type { DryRuns, Question } from "../dry-runs.ts";
import { mandatesFor } from "../trace.ts";
import { agentText, counted, type Evidence, evidenceOf, type Findings, listed, quoted, sentence } from "./answer.ts";
import { verbOf } from "./rule-text.ts";

/** Maximum number of limits in the text; all are in the evidence. */
const MAX_SAID = 5;
const MAX_PATTERNS = 5;

/** Current state of a limit of an agent. */
interface Limit {
  readonly evidence: Evidence;
  /** True if the next action that it counts makes it fire. */
  readonly isReached: boolean;
}

/** Answers which sequence rules limit an agent, with their counts. */
export async function limitsAnswer(dryRuns: DryRuns, question: Question, agent: AgentState): Promise<Findings> {
  const limits = await dryRuns.run(
    question,
    (state, _actions, nowMs) => limitsOf(state, agent, nowMs),
    () => [],
  );
  const who = agentText(agent.registration.name, agent.agentId);
  const inactive = agent.status === "active" ? [] : [`The agent is ${agent.status}: all its actions are refused.`];
  if (limits.length === 0) return { sentences: [`No limit applies to ${who}.`, ...inactive], evidence: [] };
  const reached = limits.filter(({ isReached }) => isReached).length;
  return {
    sentences: [
      `${counted(limits.length, "limit")} ${limits.length === 1 ? "applies" : "apply"} to ${who}.`,
      ...(reached === 0 ? [] : [`The next action fires ${reached === limits.length ? "each" : reached} of them.`]),
      ...limits
        .slice(0, MAX_SAID)
        .map(({ evidence }) => `Mandate ${quoted(evidence.mandateName ?? "")}: ${evidence.text}`),
      ...(limits.length > MAX_SAID ? [`The evidence has ${limits.length - MAX_SAID} more.`] : []),
      ...inactive,
    ],
    evidence: limits.map(({ evidence }) => evidence),
  };
}

function* limitsOf(state: WorkspaceState, { agentId, departmentIds }: AgentState, nowMs: number): Work<Limit[]> {
  const limits: Limit[] = [];
  const principal: Principal = { agentId, departmentIds };
  for (const mandate of mandatesFor(state, principal)) {
    for (const rule of mandate.rules) {
      const limit = rule.type === RuleType.SEQUENCE ? limitOf(state, mandate, rule, principal, nowMs) : undefined;
      if (limit !== undefined) limits.push(limit);
      yield;
    }
  }
  return limits;
}

function limitOf(
  state: WorkspaceState,
  mandate: CompiledMandate,
  rule: CompiledRule,
  agent: Principal,
  nowMs: number,
): Limit | undefined {
  const { velocity, budget, ordered, tool, source } = rule;
  const departmentId = groupOfRule(rule)?.departmentId;
  if (departmentId !== undefined && !agent.departmentIds.includes(departmentId)) return undefined;
  const onTool = tool === undefined ? "" : `, for calls of ${quoted(source.tool?.trim() ?? tool)}`;
  const { text, isReached } = velocity
    ? velocityText(state, velocity, agent.agentId, nowMs)
    : budget
      ? budgetText(state, budget, agent.agentId, nowMs)
      : ordered
        ? orderedText(state, ordered, agent.agentId, nowMs)
        : { text: "the rule no longer compiles and holds for all that it covers", isReached: true };
  const evidence = evidenceOf(mandate, rule.path, sentence(`${verbOf(mandate, rule)} ${text}${onTool}`));
  return { evidence, isReached };
}

function velocityText(state: WorkspaceState, velocity: CompiledVelocity, agentId: string, nowMs: number) {
  const { counter, maxCount, windowSeconds } = velocity;
  const { count, group, members } = readCounter(state, counter, agentId, nowMs);
  // The reading counts the action at hand, but here there is none.
  const past = count - 1;
  const remaining = Math.max(0, maxCount - past);
  const without = counter.excluded.length === 0 ? "" : ` without ${listed(counter.excluded.map(quoted), MAX_PATTERNS)}`;
  const types = `${listed(counter.patterns.map(quoted), MAX_PATTERNS)}${without}`;
  const counts = counter.pot?.outcomes?.map((status) => `${status} outcomes`) ?? counter.countDecisions;
  const of = counts.length === 0 ? "" : `, counting ${counts.join(" and ")} alone,`;
  const by = groupText(counter.scope, group, members);
  const resetsAtMs = remaining > 0 ? undefined : resetsAt(state, velocity, agentId, nowMs);
  const fits = resetsAtMs === undefined ? "" : `; one more fits from ${new Date(resetsAtMs).toISOString()}`;
  const text = `more than ${maxCount} of ${types}${of} in ${windowSeconds} s by ${by}; ${past} counted, ${remaining} left${fits}`;
  return { text, isReached: remaining === 0 };
}

/** Returns when one more action fits a limit that is reached, between two actions. */
function resetsAt(
  { windows, budgets }: WorkspaceState,
  { counter, maxCount }: CompiledVelocity,
  agentId: string,
  nowMs: number,
): number | undefined {
  const { pot, windowMs } = counter;
  if (pot !== undefined) return budgets.resetsAt({ pot, windowMs }, agentId, nowMs, BigInt(maxCount) - 1n);
  return windows.resetsAt(counter, agentId, nowMs, { maxCount, isCounted: false });
}

function budgetText(state: WorkspaceState, budget: CompiledBudget, agentId: string, nowMs: number) {
  const { pot, currency, windowMs, maxTotal } = budget;
  const { group, members, reserved, captured } = state.budgets.read(budget, agentId, nowMs);
  const left = BigInt(maxTotal) - reserved - captured;
  const sums = listed(
    pot.sums.map(({ tool, field }) => quoted(`${tool} ${field}`)),
    MAX_PATTERNS,
  );
  const amount = (millionths: bigint): string => `${amountText(millionths)} ${currency}`;
  const spent = `${amount(reserved)} reserved, ${amount(captured)} paid, ${amount(left < 0n ? 0n : left)} left`;
  const by = groupText(pot.scope, group, members);
  const resetsAtMs = left > 0n ? undefined : state.budgets.resetsAt(budget, agentId, nowMs, BigInt(maxTotal) - 1n);
  const fits = resetsAtMs === undefined ? "" : `; more fits from ${new Date(resetsAtMs).toISOString()}`;
  return {
    text: `more than ${amount(BigInt(maxTotal))} of ${sums} in ${windowMs / 1000} s by ${by}; ${spent}${fits}`,
    isReached: left <= 0n,
  };
}

function groupText(scope: ScopeWord, group: string, members: number): string {
  if (scope === "workspace") return `the workspace (${counted(members, "agent")})`;
  return scope === "department" ? `${quoted(group)} (${counted(members, "agent")})` : "the agent, or on its behalf";
}

function orderedText(state: WorkspaceState, ordered: OrderedSpec, agentId: string, nowMs: number) {
  const undo: (() => void)[] = [];
  const startedAtMs = state.sequences.read(ordered, agentId, nowMs, undo);
  for (const step of undo.toReversed()) step();
  const steps = ordered.steps.map(quoted).join(", then ");
  const seen =
    startedAtMs === undefined
      ? "the steps before the last have not happened"
      : `all but the last happened, from ${new Date(startedAtMs).toISOString()}`;
  const by = ordered.scope === "agent" ? "the agent" : `the ${ordered.scope}`;
  const text = `${steps} in ${ordered.windowMs / 1000} s by ${by}; ${seen}`;
  return { text, isReached: startedAtMs !== undefined };
}
