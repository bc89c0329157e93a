import type { BudgetState } from "../policy/budget.ts";
import type { UsedList } from "../policy/lists/used-lists.ts";
import type { FiredMandate, GuardFinding, LimitState, ObservedMandate } from "../policy/types.ts";
import type { SealedDemand } from "../state/control-changes.ts";
import type { Reservation } from "../state/counters/budget-pots.ts";
import { type DecisionRefs, isCounted, refTextFrom } from "../state/fold.ts";
import {
  type Action,
  type CoveringContract,
  DECISION_NUMBERS,
  DEFAULT_REASON_CODE,
  type DecisionReason,
  EntryKind,
  type Outcome,
} from "../state/types.ts";
import type { EntryColumn } from "../store/sql/append-entries.ts";
import { json, listText, objectWriter } from "./canonical-object.ts";
import {
  BODY_VERSION,
  type LimitOwner,
  USUAL_MEMBERS,
  USUAL_PATH,
  USUAL_PERMISSIONS,
  USUAL_RULE,
  USUAL_SOURCE,
  usualGroup,
  usualScope,
} from "./left-out.ts";

/** The place in the log at which a decision is sealed. */
export interface DecisionPlace {
  readonly workspaceId: string;
  readonly seq: number;
  /** Epoch milliseconds. */
  readonly atMs: number;
  /** Root (base64) and size of the tree before the batch that the decision came with. */
  readonly previousRoot: string;
  readonly previousSize: number;
}

/** A decided action at its place in the log. */
interface Sealing {
  readonly action: Action;
  readonly outcome: Outcome;
  readonly place: DecisionPlace;
}

/** A decision as the log stores it. */
export interface DecisionEntry {
  readonly action: Action;
  readonly outcome: Outcome;
  readonly refs: DecisionRefs;
  /** RFC 8785 text of the entry: what is hashed, stored and shown as the receipt. */
  readonly body: string;
}

/** Form of a session's id. A caller may send any other text as its session: the text is sealed, and the action refused. */
const SESSION_ID = /^ses_[a-z2-7]{26}$/;

/** The columns of a decision's entry, each with its value. */
export const ENTRY_COLUMNS: Readonly<Record<EntryColumn, (entry: DecisionEntry) => string | number>> = {
  entry_id: ({ action }) => action.decisionId,
  kind: ({ action, outcome }) => (isCounted(action, outcome) ? EntryKind.DECISION : EntryKind.UNCOUNTED_DECISION),
  agent_id: ({ action }) => action.agentId,
  principal_id: ({ outcome: { principalId = "" } }) => principalId,
  action_type: ({ action }) => action.normalisedType,
  decision: ({ outcome }) => DECISION_NUMBERS[outcome.decision],
  ref_id: ({ refs }) => refTextFrom(refs),
  session_id: ({ action: { sessionId = "" } }) => (SESSION_ID.test(sessionId) ? sessionId : ""),
  body: ({ body }) => body,
};

/** Writes a value; undefined for the usual one, which the text leaves out. */
const unlessUsual = <T extends string | number>(value: T, usual: T): string | undefined =>
  value === usual ? undefined : json(value);

const unlessEmpty = (object: string): string | undefined => (object === "{}" ? undefined : object);

const timeText = (atMs: number | undefined) => (atMs === undefined ? undefined : json(new Date(atMs).toISOString()));

/** Writers of the members of a reason of an observing mandate, which names the mandate itself. */
const OBSERVED_REASON: Readonly<Record<string, (reason: DecisionReason) => string | undefined>> = {
  code: ({ code }) => json(code),
  message: ({ message }) => json(message),
  mandate_name: ({ mandateName }) => json(mandateName),
  rule: ({ rule }) => json(rule),
  argument: ({ argument }) => json(argument),
  value_kind: ({ valueKind }) => json(valueKind),
  would_pass: ({ wouldPass }) => json(wouldPass),
  remaining: ({ remaining }) => json(remaining),
  over: ({ over }) => json(over),
  resets_at: ({ resetsAtMs }) => timeText(resetsAtMs),
  decision: ({ decision }) => json(decision),
};

const writeObservedReason = objectWriter(OBSERVED_REASON);
const writeReason = objectWriter<DecisionReason>({
  ...OBSERVED_REASON,
  mandate_id: ({ mandateId }) => json(mandateId),
});

const writeBudget = objectWriter<BudgetState>({
  pot: ({ pot }) => json(pot),
  currency: ({ currency }) => json(currency),
  limit: ({ limit }) => json(limit),
  total: ({ total }) => json(total),
  reserved: ({ reserved }) => json(reserved),
  captured: ({ captured }) => json(captured),
  remaining: ({ remaining }) => json(remaining),
});

/** Writers of the members of an amount that an action reserves. */
export const RESERVATION_MEMBERS: Readonly<Record<string, (reservation: Reservation) => string | undefined>> = {
  pot: ({ pot }) => json(pot),
  millionths: ({ millionths }) => json(millionths),
  currency: ({ currency }) => json(currency),
  release: ({ release }) => json(release),
  unit: ({ unit }) => json(unit),
  outcomes: ({ outcomes }) => (outcomes === undefined ? undefined : json(outcomes)),
};

const writeReservation = objectWriter<Reservation>(RESERVATION_MEMBERS);

/** A counter or budget with the place and agent of its decision. */
interface OwnedLimit extends LimitOwner {
  readonly limit: LimitState;
}

/** Returns the group that the text names; undefined for the usual one. */
const namedGroup = ({ limit: { scope, group }, ...owner }: OwnedLimit): string | undefined =>
  group === usualGroup(scope, owner) ? undefined : group;

/** Writes a counter or budget. `remaining` is left out, because it follows from limit and count, and the counts of a budget. */
const writeLimit = objectWriter<OwnedLimit>({
  mandate_id: ({ limit }) => json(limit.mandateId),
  rule: ({ limit }) => unlessUsual(limit.rule, USUAL_RULE),
  scope: (owned) => unlessUsual<string>(owned.limit.scope, usualScope(namedGroup(owned))),
  group: (owned) => json(namedGroup(owned)),
  members: ({ limit }) => unlessUsual(limit.members, USUAL_MEMBERS),
  count: ({ limit: { count, budget } }) => (budget === undefined ? json(count) : undefined),
  limit: ({ limit: { limit, budget } }) => (budget === undefined ? json(limit) : undefined),
  budget: ({ limit: { budget } }) => budget && writeBudget(budget),
  window: ({ limit }) => json(limit.window),
  source: ({ limit }) => unlessUsual<string>(limit.source, USUAL_SOURCE),
  resets_at: ({ limit }) => timeText(limit.resetsAtMs),
});

const writeFired = objectWriter<FiredMandate>({
  mandate_id: ({ mandate }) => json(mandate.id),
  version: ({ mandate }) => json(mandate.version),
  digest: ({ mandate }) => json(mandate.digest),
  decision: ({ decision }) => json(decision),
});

const writeObserved = objectWriter<ObservedMandate>({
  mandate_id: ({ mandate }) => json(mandate.id),
  version: ({ mandate }) => json(mandate.version),
  would_decide: ({ decision }) => json(decision),
  reasons: ({ reasons }) => `[${reasons.map(writeObservedReason).join(",")}]`,
});

const guardVerdict = ({ answer }: GuardFinding) => (answer.kind === "verdict" ? answer : undefined);

// A model may answer with half of a surrogate pair, which I-JSON (RFC 7493) cannot hold.
const writeGuard = objectWriter<GuardFinding>({
  mandate_id: ({ mandateId }) => json(mandateId),
  version: ({ version }) => json(version),
  rule: ({ rule }) => json(rule),
  violates: (guard) => json(guardVerdict(guard)?.violates),
  confidence: (guard) => json(guardVerdict(guard)?.confidence),
  reason: (guard) => json(guardVerdict(guard)?.reason.toWellFormed()),
  model: (guard) => json(guardVerdict(guard)?.model.toWellFormed()),
  unavailable: ({ answer }) => (answer.kind === "verdict" ? undefined : json(answer.cause)),
  latency_ms: ({ answer }) => json(answer.latencyMs),
});

const writeList = objectWriter<UsedList>({
  name: ({ name }) => json(name),
  digest: ({ digest }) => json(digest),
  matched: ({ matched }) => (matched.length === 0 ? undefined : json(matched)),
});

const writeDemand = objectWriter<SealedDemand>({
  mandate_id: ({ mandate_id }) => json(mandate_id),
  rule: ({ rule }) => json(rule),
  groups: ({ groups }) => json(groups),
  at_least: ({ at_least }) => json(at_least),
  remind_at: ({ remind_at }) => json(remind_at),
});

const writeAction = objectWriter<Sealing>({
  agent_id: ({ action }) => json(action.agentId),
  agent_name: ({ outcome }) => json(outcome.agentName),
  action_type: ({ action }) => json(action.actionType),
  action_content: ({ action }) => json(action.actionContent),
  // Canonical since the request came in.
  metadata: ({ action }) => action.metadataText || undefined,
  tool: ({ outcome }) => json(outcome.toolName),
  tool_version: ({ outcome }) => json(outcome.tool?.version),
  // Distinguishes the first request from a retry that names the tool elsewhere.
  tool_requested: ({ action }) => (action.isRetryable && action.tool !== undefined ? "true" : undefined),
});

const writeAuthorisation = objectWriter<Sealing>({
  permissions: ({ outcome }) => unlessUsual(outcome.permissions, USUAL_PERMISSIONS),
  collective_limits: ({ outcome: { policy }, action: { agentId }, place: { workspaceId } }) =>
    listText(policy?.collectiveLimits ?? [], (limit) => writeLimit({ limit, workspaceId, agentId })),
});

const writeContract = objectWriter<CoveringContract>({
  by_agent: ({ isByAgent }) => (isByAgent ? "true" : undefined),
  intent_contract_id: ({ contractId }) => json(contractId),
  outside: ({ isInside }) => (isInside ? undefined : "true"),
  step: ({ step }) => json(step),
});

/** Tests whether an action is covered by no contract, or only by the one that it names, made by an operator, which admits it without a plan. */
const isCoveredByName = ({ contracts }: Outcome, { intentContractId }: Action): boolean =>
  contracts.every(
    ({ contractId, isInside, step, isByAgent }) =>
      contractId === intentContractId && isInside && step === undefined && !isByAgent,
  );

const writeTrust = objectWriter<Outcome>({
  before: ({ trustBeforeTenths }) => json(trustBeforeTenths / 10),
  after: ({ trustAfterTenths }) => json(trustAfterTenths / 10),
  capped: ({ cappedTrustTenths: capped }) => (capped === undefined ? undefined : json(capped / 10)),
});

const isDefaultReason = ([first, ...others]: readonly DecisionReason[]): boolean =>
  first?.code === DEFAULT_REASON_CODE && others.length === 0;

const writeDecision = objectWriter<Sealing>({
  type: () => '"decision"',
  v: () => json(BODY_VERSION),
  decision_id: ({ action }) => json(action.decisionId),
  // Place in the log.
  workspace_id: ({ place }) => json(place.workspaceId),
  seq: ({ place }) => json(place.seq),
  at: ({ place }) => json(new Date(place.atMs).toISOString()),
  previous_root: ({ place }) => json(place.previousRoot),
  previous_size: ({ place }) => json(place.previousSize),
  // The attempt and its authority.
  action: writeAction,
  key_id: ({ action }) => json(action.keyId),
  key_ended: ({ outcome }) => (outcome.isKeyEnded ? "true" : undefined),
  session_id: ({ action }) => json(action.sessionId),
  trace_id: ({ action }) => json(action.trace?.traceId),
  // By their names in logs with OpenTelemetry's trace context. Notices of the decision belong to the same place.
  span_id: ({ action }) => json(action.trace?.spanId),
  trace_flags: ({ action: { trace } }) => trace && json(trace.isSampled ? "01" : "00"),
  on_behalf_of: ({ action }) => json(action.onBehalfOf),
  // The request names it, or else its grant.
  principal_id: ({ action, outcome }) => (action.onBehalfOf === undefined ? json(outcome.principalId) : undefined),
  grant_id: ({ action }) => json(action.grantId),
  intent_contract_id: ({ action }) => json(action.intentContractId),
  authority: ({ outcome }) => (outcome.authority.length === 0 ? undefined : json(outcome.authority)),
  contracts: ({ outcome, action }) =>
    isCoveredByName(outcome, action) ? undefined : listText(outcome.contracts, writeContract),
  replay_of: ({ action }) => json(action.replayOf),
  edit_of: ({ action }) => json(action.editOf),
  // Claim and outcome of an allowed action.
  claim_id: ({ action, outcome }) => (outcome.decision === "allow" ? json(action.claimId) : undefined),
  outcome_due_at: ({ outcome: { outcomeDueAtMs: at } }) =>
    at === undefined ? undefined : json(new Date(at).toISOString()),
  // The decision and its reasons.
  decision: ({ outcome }) => json(outcome.decision),
  decision_path: ({ outcome }) => unlessUsual<string>(outcome.path, USUAL_PATH),
  reasons: ({ outcome: { reasons } }) =>
    isDefaultReason(reasons) ? undefined : `[${reasons.map(writeReason).join(",")}]`,
  trust: ({ outcome }) => writeTrust(outcome),
  trust_kept: ({ action }) => (action.keepsTrust === true ? "true" : undefined),
  authorisation: (sealing) => unlessEmpty(writeAuthorisation(sealing)),
  policy_digest: ({ outcome }) => json(outcome.policyDigest),
  policy_name: ({ outcome }) => json(outcome.policyName),
  mandates: ({ outcome }) => listText(outcome.policy?.fired ?? [], writeFired),
  observed: ({ outcome }) => listText(outcome.policy?.observed ?? [], writeObserved),
  guards: ({ outcome }) => listText(outcome.policy?.guards ?? [], writeGuard),
  lists: ({ outcome }) => listText(outcome.policy?.lists ?? [], writeList),
  reserved: ({ outcome }) => listText(outcome.reservations, writeReservation),
  // Approval.
  action_digest: ({ outcome }) => json(outcome.actionDigest),
  digest_ignores: ({ outcome }) => (outcome.digestIgnores.length === 0 ? undefined : json(outcome.digestIgnores)),
  escalation_id: ({ outcome }) => json(outcome.escalationId),
  escalation_expires_at: ({ outcome: { escalationExpiresAtMs } }) => timeText(escalationExpiresAtMs),
  approvals_needed: ({ outcome }) => listText(outcome.demands, writeDemand),
  presented_escalation_id: ({ action }) => json(action.escalationId),
  used_escalation_id: ({ outcome }) => json(outcome.usedEscalationId),
});

/**
 * Writes the entry of a decision in its RFC 8785 form: the text that is hashed, stored and shown as its receipt. It names
 * the mandates that fired or would have, the state of every counter that was evaluated, the tool with its version, and the
 * digest of the policy set in force. Lists that are empty, the reason that no mandate matched, and what `left-out.ts` names
 * are left out; `receipts.ts` puts them back.
 */
export function decisionBody(action: Action, outcome: Outcome, place: DecisionPlace): string {
  return writeDecision({ action, outcome, place });
}
