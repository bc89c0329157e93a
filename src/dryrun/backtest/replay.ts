import type { JsonObject } from "@bufbuild/protobuf";
import type { DecisionBody } from "../../log/receipts.ts";
import { Checks, type LongAnswers, type LongCheck } from "../../policy/checks.ts";
import { argumentsFrom, toolKey } from "../../policy/names.ts";
import type {
  Decision,
  EvaluationContext,
  GuardAnswer,
  PlanState,
  PolicyReason,
  PolicyResult,
  PolicySet,
  Principal,
  SemanticSpec,
} from "../../policy/types.ts";
import { Departments } from "../../state/agents.ts";
import { BudgetPots } from "../../state/counters/budget-pots.ts";
import { completeWindows } from "../../state/counters/log-history.ts";
import { OrderedSequences } from "../../state/counters/ordered.ts";
import { readCounter } from "../../state/counters/read-counter.ts";
import type { Party } from "../../state/counters/windows.ts";
import { VelocityWindows } from "../../state/counters/windows.ts";
import { foldChange, foldDecision } from "../../state/fold.ts";
import {
  amountChangesOf,
  capturedBy,
  isHeldBack,
  type ReportedAmount,
  type SealedOutcome,
} from "../../state/outcomes.ts";
import { type DecisionPath, EntryKind } from "../../state/types.ts";
import { requireCounters, type WorkspaceState } from "../../state/workspace.ts";
import type { Reader } from "../../store/transaction.ts";
import {
  type ProvenanceRules,
  provenanceRules,
  type RecordedProvenance,
  recordedProvenance,
} from "./recorded-provenance.ts";
import type { AuthorityFact, PlacedChange, StretchEntry } from "./stretch.ts";

/** A recorded decision, parsed. */
export interface Recorded {
  readonly entry: StretchEntry;
  readonly body: DecisionBody;
}

/** A recorded decision with the decision that would be made. */
export interface Replayed {
  readonly body: DecisionBody;
  readonly now: Decision;
  /** True if a semantic rule covers the action, then or now. */
  readonly isSemantic: boolean;
  /** True if a provenance rule covers the action of which the log has no verdict. */
  readonly lacksProvenance: boolean;
  readonly reasons: readonly PolicyReason[];
}

/** Makes checks that take too long for a turn of the event loop. */
export type MakeLongChecks = (missing: readonly LongCheck[]) => Promise<LongAnswers>;

/** Steps whose refusal is a recorded fact: the mandates were not evaluated. */
const FACTS: ReadonlySet<DecisionPath> = new Set<DecisionPath>([
  "revoked",
  "permissions",
  "delegation",
  "session",
  "intent_contract",
  "credential",
  "mcp_tool_policy",
  "unknown_tool",
  "mcp_definition",
  "halted",
]);

/** Steps whose refusal leaves open on whose behalf the agent may act: the action counts for the agent alone. */
const UNIDENTIFIED: ReadonlySet<DecisionPath> = new Set<DecisionPath>([
  "revoked",
  "delegation",
  "session",
  "credential",
  "halted",
]);

/** Amounts that an action has in the pots, if it was allowed here. */
interface Payment {
  readonly atMs: number;
  readonly party: Party;
  readonly amounts: readonly ReportedAmount[];
}

const isMembership = ({ type }: PlacedChange["change"]): boolean => type.startsWith("department_");

/**
 * Replays recorded decisions, in the order of the log, under the rules of a state of its own. Windows, sequences and trust
 * start from their values before the first decision and continue with the decisions made here; departments change as in the
 * log.
 */
export class Replay {
  readonly #state: WorkspaceState;
  readonly #policies: PolicySet;
  readonly #provenanceRules: ProvenanceRules;
  readonly #facts = new Map<string, AuthorityFact>();
  /** Agents whose trust at the beginning is known. */
  readonly #started = new Set<string>();
  /** Payments of the decisions here whose outcome may still come, in the order of the log. */
  readonly #payments = new Map<string, Payment>();
  readonly #fromSeq: number;
  readonly #longestBudgetMs: number;

  /** `from`: index of the first entry, and time of the one before it. */
  constructor(own: WorkspaceState, from: { readonly seq: number; readonly lastAtMs: number }) {
    for (const agent of own.agents.values()) agent.departmentIds = [];
    const departments = new Departments(own.agents);
    // All that is recorded here stays in memory: the log holds other decisions for these actions.
    const kept = { kept: Number.POSITIVE_INFINITY, minKept: Number.POSITIVE_INFINITY };
    const windows = new VelocityWindows(departments, own.workspaceId, kept);
    const sequences = new OrderedSequences(departments);
    const budgets = new BudgetPots(departments, own.workspaceId, kept);
    this.#state = { ...own, ...from, departments, windows, sequences, budgets };
    this.#policies = own.policies.policySet();
    this.#provenanceRules = provenanceRules(own.policies);
    this.#fromSeq = from.seq;
    this.#longestBudgetMs = Math.max(0, ...own.policies.budgets().map(({ windowMs }) => windowMs));
    requireCounters(this.#state, from.seq);
  }

  /** Digest of the policy set in use. */
  get policyDigest(): string {
    return this.#policies.digest;
  }

  /** Adds a change of departments. Any other change is a fact of its time that rules do not read. */
  change(placed: PlacedChange): void {
    if (isMembership(placed.change)) foldChange(this.#state, placed);
  }

  /** Adds facts of grants and tokens that decisions name. */
  learn(facts: readonly AuthorityFact[]): void {
    for (const fact of facts) this.#facts.set(fact.id, fact);
  }

  /** Returns the grants and tokens that a decision names and that are not known yet. */
  unknownAuthority({ authority = [], key_id: keyId }: DecisionBody): readonly string[] {
    const named = [...authority.filter((id) => id.startsWith("grt_")), ...(keyId.startsWith("fed_") ? [keyId] : [])];
    return named.filter((id) => !this.#facts.has(id));
  }

  /** Tests that a decision of a time needs no history from the log. */
  isReady(atMs: number): boolean {
    const { sequences, windows, budgets } = this.#state;
    return sequences.isComplete && windows.isReady(atMs) && budgets.isReady(atMs);
  }

  /** Reads the history, from before the first decision, that a decision needs, with the outcomes of its actions up to then. */
  async complete(reader: Reader, { seq, atMs }: Pick<StretchEntry, "seq" | "atMs">): Promise<void> {
    await completeWindows(reader, this.#state, { now: () => atMs }, { outcomesBefore: seq });
  }

  /**
   * Adds the recorded outcome of an action. It changes what the action reserved here as it would have changed it live; one of an action
   * from before the first decision does what it did.
   */
  report(sealed: SealedOutcome): void {
    const { budgets } = this.#state;
    if (sealed.decision_seq < this.#fromSeq) {
      const { agent_id: agentId, principal_id: principalId } = sealed;
      budgets.settle(amountChangesOf(sealed), { agentId, principalId }, Date.parse(sealed.decided_at));
      return;
    }
    const payment = this.#payments.get(sealed.decision_id);
    if (payment === undefined) return;
    const { amounts, party, atMs } = payment;
    const outcome = reportOn(sealed, amounts);
    const reserved = amounts.map((amount) => (isHeld(outcome, amount) ? { ...amount, held: true as const } : amount));
    budgets.settle(amountChangesOf({ ...outcome, reserved }), party, atMs);
    if (sealed.status === "unknown") return;
    const after = reserved.map(({ held, ...amount }) =>
      held === true ? amount : { ...amount, captured: capturedBy(outcome, amount), was: sealed.status },
    );
    this.#payments.set(sealed.decision_id, { ...payment, amounts: after });
  }

  /** Replays one decision. The history for its time MUST be loaded. */
  async decide(recorded: Recorded, longChecks: MakeLongChecks): Promise<Replayed> {
    const { entry, body } = recorded;
    const isCounted = entry.kind === EntryKind.DECISION;
    this.#startTrust(body);
    const isFact = FACTS.has(body.decision_path) || !isCounted;
    const provenance = recordedProvenance(this.#provenanceRules, recorded);
    const policy = isFact ? undefined : await this.#evaluate(recorded, provenance, longChecks);
    const now = policy === undefined ? body.decision : this.#decisionFrom(policy, body);
    if (isCounted) this.#fold(recorded, now);
    const isSemantic = (policy?.guards.length ?? 0) > 0 || (body.guards?.length ?? 0) > 0;
    return { body, now, isSemantic, lacksProvenance: provenance.isMissing(), reasons: policy?.reasons ?? [] };
  }

  #startTrust({ action, trust }: DecisionBody): void {
    const agent = this.#state.agents.get(action.agent_id);
    if (agent === undefined || this.#started.has(agent.agentId)) return;
    this.#started.add(agent.agentId);
    agent.trustTenths = Math.round(trust.before * 10);
  }

  async #evaluate(
    recorded: Recorded,
    { findingsOf }: RecordedProvenance,
    longChecks: MakeLongChecks,
  ): Promise<PolicyResult> {
    const contextOf = (answers?: LongAnswers): EvaluationContext => ({
      ...this.#contextOf(recorded, answers),
      recordedProvenance: findingsOf,
    });
    const policy = this.#policies.evaluate(contextOf());
    if (policy.missingChecks.length === 0) return policy;
    return this.#policies.evaluate(contextOf(await longChecks(policy.missingChecks)));
  }

  #contextOf({ entry, body }: Recorded, answers: LongAnswers | undefined): EvaluationContext {
    const { agents, policies, settings, sequences, budgets } = this.#state;
    const { action } = body;
    const agent = agents.get(action.agent_id);
    if (agent === undefined) throw new Error(`agent \`${action.agent_id}\` is not in the state`);
    const { agentId, departmentIds } = agent;
    const metadata = action.metadata as JsonObject | undefined;
    const called = policies.toolCalledBy({ tool: action.tool, metadata, actionType: action.action_type });
    const nowMs = entry.atMs;
    return {
      agentId,
      agentName: agent.registration.name,
      framework: agent.registration.framework ?? undefined,
      sessionId: body.session_id ?? undefined,
      departmentIds,
      metadata,
      nowMs,
      tool: called.schema,
      actionType: entry.actionType ?? "",
      actionContent: action.action_content,
      toolName: called.name,
      arguments: argumentsFrom(metadata),
      trustTenths: Math.min(agent.trustTenths, this.#facts.get(body.key_id)?.maxTrustTenths ?? agent.trustTenths),
      checks: new Checks(answers, this.#state.lists),
      counterValue: (spec, counted) => readCounter(this.#state, spec, counted.agentId, nowMs),
      potValue: (budget, counted) => budgets.read(budget, counted.agentId, nowMs),
      sequenceStartedAtMs: (spec) => sequences.read(spec, agentId, nowMs),
      guardAnswerFor: recordedAnswers(this.#policies, body),
      planState: recordedPlanState(body),
      principals: this.#principalsOf(body),
      defaultDecision: settings.default_decision as Decision,
    };
  }

  #principalsOf(body: DecisionBody): readonly Principal[] | undefined {
    const principalId = principalIdOf(body);
    if (principalId === undefined) return undefined;
    const lenders = (body.authority ?? []).flatMap((id) => this.#facts.get(id)?.grantorAgentId ?? []);
    return [...new Set([principalId, ...lenders])].flatMap((id) => this.#state.agents.get(id) ?? []);
  }

  /** Joins the decision of the mandates with recorded facts: approvals that were used, and refusals of too many escalations. */
  #decisionFrom(
    { decision = this.#state.settings.default_decision as Decision }: PolicyResult,
    body: DecisionBody,
  ): Decision {
    if (decision !== "escalate") return decision;
    if (body.decision_path === "approved") return "allow";
    return body.reasons.some(({ code }) => code === "TOO_MANY_PENDING") ? "block" : "escalate";
  }

  #fold({ entry, body }: Recorded, decision: Decision): void {
    const { seq, atMs } = entry;
    const { decision_id: decisionId, action } = body;
    const actionType = entry.actionType ?? "";
    const metadata = action.metadata as JsonObject | undefined;
    const { name } = this.#state.policies.toolCalledBy({ tool: action.tool, metadata, actionType: action.action_type });
    const { budgets } = this.#state;
    const paid = name === undefined ? [] : budgets.reservationsOf(toolKey(name), argumentsFrom(metadata));
    const reservations = decision === "allow" ? [...paid, ...budgets.countsOf(actionType)] : [];
    this.#pay(decisionId, {
      atMs,
      party: { agentId: action.agent_id, principalId: principalIdOf(body) },
      amounts: reservations,
    });
    foldDecision(this.#state, {
      seq,
      atMs,
      decisionId,
      decision,
      actionType,
      refs: { usedIds: [], ask: undefined, reservations, keepsTrust: body.trust_kept === true },
      agentId: action.agent_id,
      principalId: principalIdOf(body),
    });
  }

  /** Keeps what an action reserved while an outcome can still change what counts. */
  #pay(decisionId: string, payment: Payment): void {
    for (const [id, { atMs }] of this.#payments) {
      if (atMs > payment.atMs - this.#longestBudgetMs) break;
      this.#payments.delete(id);
    }
    if (payment.amounts.length > 0) this.#payments.set(decisionId, payment);
  }
}

/** Returns an outcome as it says something about amounts: one amount cannot stand for several different ones, and each then counts. */
function reportOn(sealed: SealedOutcome, amounts: readonly ReportedAmount[]): SealedOutcome {
  const different = new Set(amounts.filter(({ unit }) => unit === undefined).map(({ millionths }) => millionths));
  const { amount, ...rest } = sealed;
  return different.size <= 1 && amount !== undefined ? { ...rest, amount } : rest;
}

/** Tests whether an amount stays reserved until the gateway or an operator reports the outcome. */
const isHeld = (outcome: SealedOutcome, amount: ReportedAmount): boolean =>
  amount.captured === undefined && amount.release === "confirmed" && isHeldBack(outcome, amount);

/** Returns the agent on whose behalf a recorded decision counts; undefined for an agent that acted for itself. */
function principalIdOf({ decision_path, on_behalf_of, principal_id }: DecisionBody): string | undefined {
  return UNIDENTIFIED.has(decision_path) ? undefined : (on_behalf_of ?? principal_id);
}

/** Returns the recorded place of an action beside its intent contracts: contracts and their plans are facts of the time. */
function recordedPlanState({ contracts = [], intent_contract_id: named }: DecisionBody): PlanState {
  const planned = contracts.filter(({ by_agent }) => by_agent !== true);
  if (planned.some(({ outside }) => outside === true)) return "outside";
  const isNamed = named !== undefined && contracts.length === 0;
  return planned.length > 0 || isNamed ? "inside" : "none";
}

/** Looks up the recorded answer to a question of a rule in force; undefined if it was not asked. */
function recordedAnswers(policies: PolicySet, { guards }: DecisionBody): EvaluationContext["guardAnswerFor"] {
  if (guards === undefined || guards.length === 0) return undefined;
  const answers = new Map<string, GuardAnswer>();
  for (const mandate of policies.mandates()) {
    for (const { path, semantic } of semanticRules(mandate.rules)) {
      const found = guards.find(
        ({ mandate_id, version, rule }) => mandate_id === mandate.id && version === mandate.version && rule === path,
      );
      if (found !== undefined) answers.set(semantic.key, answerFrom(found));
    }
  }
  return ({ key }) => answers.get(key);
}

function semanticRules(rules: readonly { readonly path: string; readonly semantic: SemanticSpec | undefined }[]) {
  return rules.flatMap(({ path, semantic }) => (semantic === undefined ? [] : [{ path, semantic }]));
}

function answerFrom(guard: NonNullable<DecisionBody["guards"]>[number]): GuardAnswer {
  const { violates, confidence, reason = "", model = "", unavailable = "not_asked", latency_ms: latencyMs } = guard;
  if (violates === undefined || confidence === undefined) return { kind: "unavailable", cause: unavailable, latencyMs };
  return { kind: "verdict", violates, confidence, reason, model, latencyMs };
}
