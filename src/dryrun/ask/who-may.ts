import { RuleType } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { Work } from "../../async/work.ts";
import { contextOf } from "../../decision/decide.ts";
import { coversAgent } from "../../policy/coverage.ts";
import { createPolicySet } from "../../policy/policy-set.ts";
import { SEVERITY } from "../../policy/severity.ts";
import type { CompiledMandate, CompiledRule, Decision, PolicySet } from "../../policy/types.ts";
import type { AgentState } from "../../state/agents.ts";
import type { Action, DecisionReason } from "../../state/types.ts";
import type { StateJournal, WorkspaceState } from "../../state/workspace.ts";
import { decideAlone } from "../decide-in-turn.ts";
import type { DryRuns, Question } from "../dry-runs.ts";
import { coversCall } from "../trace.ts";
import { agentText, counted, type Evidence, evidenceOf, type Findings, plain, quoted, sentence } from "./answer.ts";
import { decisionsOf, ruleText } from "./rule-text.ts";

/** Maximum number of agents of one kind that the text names. */
const MAX_NAMED = 10;
/** Maximum number of distinct reasons of refusals. */
const MAX_REASONS = 100;

/** Outcome of a call for an agent, whatever the arguments of the call. */
type Standing = "allowed" | "depends" | "escalated" | "blocked";

/** Group of agents: their number, and the first of them by name. */
class Group {
  readonly #named: string[] = [];
  count = 0;

  add({ agentId, registration }: AgentState): void {
    this.count++;
    if (this.#named.length < MAX_NAMED) this.#named.push(agentText(registration.name, agentId));
  }

  get text(): string {
    const more = this.count - this.#named.length;
    return `${this.#named.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
  }
}

/** A rule that depends on the contents of a call, with the agents for whom it may change the decision. */
interface Dependent {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly agents: Group;
}

interface Refused {
  readonly reason: DecisionReason;
  readonly agents: Group;
}

interface Standings {
  readonly groups: Readonly<Record<Standing, Group>>;
  readonly dependents: readonly Dependent[];
  readonly refused: readonly Refused[];
  readonly versions: ReadonlyMap<string, number>;
}

/** Answers which agents may make a call, the one action of the question. */
export async function whoMayAnswer(dryRuns: DryRuns, question: Question): Promise<Findings> {
  const [action] = question.actions;
  if (action === undefined) return { sentences: ["There is no active agent."], evidence: [] };
  const { groups, dependents, refused, versions } = await dryRuns.run(
    question,
    (state, _actions, nowMs) => standingsOf(state, action, nowMs, question.signal),
    () => [],
  );
  const name = quoted(action.actionType);
  const all = Object.values(groups).reduce((sum, { count }) => sum + count, 0);
  const say = ({ count, text }: Group, one: string, many: string): readonly string[] =>
    count === 0 ? [] : [`${count} ${count === 1 ? one : many}: ${text}.`];
  return {
    sentences: [
      `Of ${counted(all, "active agent")}, ${groups.allowed.count} may do ${name} now, whatever the call carries${
        groups.allowed.count === 0 ? "" : `: ${groups.allowed.text}`
      }.`,
      ...say(groups.depends, "depends on what the call carries", "depend on what the call carries"),
      ...say(groups.escalated, "would be escalated", "would be escalated"),
      ...say(groups.blocked, "is blocked", "are blocked"),
    ],
    evidence: [...dependents.filter(({ agents }) => agents.count > 0).map(dependentEvidence), ...refused.map(refusal)],
  };

  function refusal({ reason, agents }: Refused): Evidence {
    const { mandateId, mandateName, rule, message } = reason;
    const text = sentence(`for ${agents.text}: ${plain(message)}`);
    return { mandateId, mandateName, version: versions.get(mandateId ?? ""), rule, text };
  }
}

function dependentEvidence({ mandate, rule, agents }: Dependent): Evidence {
  return evidenceOf(mandate, rule.path, sentence(`for ${agents.text}: ${ruleText(mandate, rule)}`));
}

function* standingsOf(state: WorkspaceState, action: Action, nowMs: number, signal: AbortSignal): Work<Standings> {
  const { independent, dependents } = yield* splitRules(state, action, nowMs);
  const groups = { allowed: new Group(), depends: new Group(), escalated: new Group(), blocked: new Group() };
  const refused = new Map<string, Refused>();
  for (const agent of state.agents.values()) {
    yield;
    signal.throwIfAborted();
    if (agent.status !== "active") continue;
    const { decision, by, reasons } = decisionWithout(independent, state, { ...action, agentId: agent.agentId }, nowMs);
    const own = dependents.filter((each) => changes(each, agent, decision, by));
    const standing = own.length > 0 ? "depends" : STANDINGS[decision];
    groups[standing].add(agent);
    for (const { agents } of own) agents.add(agent);
    if (standing === "blocked" || standing === "escalated") note(refused, reasons[0], agent);
  }
  const mandates = [...state.policies.mandates.values()];
  const versions = new Map(mandates.map(({ compiled }) => [compiled.id, compiled.version]));
  return { groups, dependents, refused: [...refused.values()], versions };
}

const STANDINGS: Readonly<Record<Decision, Standing>> = { allow: "allowed", block: "blocked", escalate: "escalated" };

function note(refused: Map<string, Refused>, reason: DecisionReason | undefined, agent: AgentState): void {
  if (reason === undefined) return;
  const key = `${reason.code} ${reason.mandateId ?? ""} ${reason.rule ?? ""}`;
  const known = refused.get(key);
  if (known !== undefined) known.agents.add(agent);
  else if (refused.size < MAX_REASONS) {
    const agents = new Group();
    agents.add(agent);
    refused.set(key, { reason, agents });
  }
}

const BY_CONTENT: readonly RuleType[] = [
  RuleType.ARGUMENT,
  RuleType.METADATA,
  RuleType.SCHEMA,
  RuleType.CONTENT,
  RuleType.SEMANTIC,
  RuleType.PROVENANCE,
];

/** Splits the rules that cover the call into those that depend on its contents and a policy set of the others. */
function* splitRules(
  state: WorkspaceState,
  action: Action,
  nowMs: number,
): Work<{ readonly independent: PolicySet; readonly dependents: readonly Dependent[] }> {
  const { tool, toolName } = contextOf(state, action, nowMs, { undo: [] });
  const others: CompiledMandate[] = [];
  const dependents: Dependent[] = [];
  for (const mandate of state.policies.policySet().mandates()) {
    yield;
    if (mandate.mode === "observe") continue;
    const covering = mandate.rules.filter((rule) => coversCall(rule, tool?.name ?? toolName, action.normalisedType));
    const { own = [], rest = [] } = Object.groupBy(covering, ({ type, stale, when }) =>
      !stale && (when !== undefined || BY_CONTENT.includes(type)) ? "own" : "rest",
    );
    if (rest.length > 0) others.push({ ...mandate, rules: rest });
    for (const rule of own) dependents.push({ mandate, rule, agents: new Group() });
  }
  return { independent: createPolicySet(others), dependents };
}

/**
 * A decision without the rules that depend on the contents of a call, and its origin: an earlier step, a rule, or the default.
 */
interface Settled {
  readonly decision: Decision;
  readonly by: "step" | "rule" | "default";
  readonly reasons: readonly DecisionReason[];
}

/** Decides a call without the rules that depend on its contents. */
function decisionWithout(independent: PolicySet, state: WorkspaceState, action: Action, nowMs: number): Settled {
  const outcome = decideAlone(state, action, nowMs);
  // A step before the mandates decided, and none of these depends on the contents of a call.
  if (outcome.policy === undefined) return { decision: outcome.decision, by: "step", reasons: outcome.reasons };
  const journal: StateJournal = { undo: [] };
  try {
    const { decision, reasons } = independent.evaluate(contextOf(state, action, nowMs, journal));
    if (decision !== undefined) return { decision, by: "rule", reasons };
  } finally {
    for (const undo of journal.undo.toReversed()) undo();
  }
  const decision = state.settings.default_decision as Decision;
  const reasons: readonly DecisionReason[] = [
    { code: "DEFAULT", message: `no mandate matched; the workspace decides \`${decision}\` by default` },
  ];
  return { decision, by: "default", reasons };
}

/** Tests whether a rule can change the decision for an agent. */
function changes({ mandate, rule }: Dependent, agent: AgentState, decision: Decision, by: Settled["by"]): boolean {
  if (by === "step" || !coversAgent(mandate, agent)) return false;
  return decisionsOf(rule).some((each) => {
    return by === "default" ? each !== decision : SEVERITY[each] > SEVERITY[decision];
  });
}
