import { ControlPlaneError, ErrorReason, invalidField, notFound } from "../errors.ts";
import type { FollowedDecision, FollowUpDraft } from "../log/follow-up.ts";
import type { DecisionReceipt } from "../log/receipts.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { millionthsFrom } from "../policy/decimal.ts";
import { awaitsConfirmation, isHeldBack, type OutcomeSource, type SealedOutcome } from "../state/outcomes.ts";
import type { WorkspaceState } from "../state/workspace.ts";

/** Outcome of an allowed action, as its caller reports it. */
export interface OutcomeReport {
  readonly decisionId: string;
  readonly status: "succeeded" | "failed" | "cancelled";
  readonly amount: number | undefined;
  readonly error: string | undefined;
  readonly resultDigest: string | undefined;
}

/** Caller of a claim or a report. */
export interface FollowUpCaller {
  readonly keyId: string;
  /** The agent that the key is bound to; null for a key that is bound to none. */
  readonly agentId: string | null;
  /** Party that the caller is. The gateway follows up the decisions of the agents that it acts for. */
  readonly source: Exclude<OutcomeSource, "timeout">;
  /** True once the caller has left. */
  readonly isOver: () => boolean;
}

/**
 * Throws DECISION_NOT_FOUND for a caller that may not follow up a decision, as if there were none, and NOT_ALLOWED for a decision that
 * did not allow its action.
 */
export function assertFollowable({ body }: DecisionReceipt, { keyId, agentId, source }: FollowUpCaller): void {
  const { decision_id, decision } = body;
  const isOwn = agentId === null ? source === "operator" || body.key_id === keyId : body.action.agent_id === agentId;
  if (!isOwn) throw notFound(ErrorReason.DECISION_NOT_FOUND, "decision", { decision_id });
  if (decision === "allow") return;
  const message = `decision \`${decision_id}\` did not allow its action: it was \`${decision}\``;
  throw new ControlPlaneError(ErrorReason.NOT_ALLOWED, message, { decision_id, decision });
}

/**
 * Seals the outcome of an allowed action, or finds that the same was sealed before. Resolves with the decision and all entries about
 * it. Rejects with DECISION_NOT_FOUND, NOT_ALLOWED, OUTCOME_EXISTS, and INVALID_FIELD for an amount that cannot be added or stands for
 * several, or a member that does not go with the status.
 */
export async function reportOutcome(
  log: WorkspaceLog,
  report: OutcomeReport,
  caller: FollowUpCaller,
): Promise<FollowedDecision> {
  assertReport(report);
  const { status, amount, error, resultDigest } = report;
  const step = (
    { receipt, outcome, settlement }: FollowedDecision,
    state: WorkspaceState,
  ): FollowUpDraft | undefined => {
    assertFollowable(receipt, caller);
    const standing = settlement ?? outcome;
    const settles = standing !== undefined && isOpenFor(standing, caller);
    if (standing !== undefined && !settles) {
      if (isSame(standing, report) || (outcome !== undefined && isRepeat(outcome, report, caller))) return undefined;
      throw outcomeExists(standing);
    }
    assertOneAmount(receipt, report);
    const { source } = caller;
    return {
      type: "outcome",
      status,
      amount,
      error,
      resultDigest,
      reportedBy: source === "gateway" ? "gateway" : caller.keyId,
      source,
      settles,
      unknownAt: standing?.status === "unknown" ? standing.at : undefined,
      heldPots: potsThatHold(receipt, report, caller, state),
      confirms: standing?.status === "unknown" ? undefined : standing,
    };
  };
  return log.followUp(report.decisionId, step, { isAbandoned: caller.isOver, textLength: error?.length ?? 0 });
}

/** Tests whether a caller may settle the outcome that stands: an operator an unknown one, and the gateway too one that awaits confirmation. */
function isOpenFor(standing: SealedOutcome, { source }: FollowUpCaller): boolean {
  if (standing.status === "unknown") return source === "operator";
  return source !== "agent" && awaitsConfirmation(standing);
}

/** Tests whether an agent repeats its first report, which somebody else has settled since. */
const isRepeat = (first: SealedOutcome, report: OutcomeReport, { source }: FollowUpCaller): boolean =>
  source === "agent" && isSame(first, report);

/**
 * Lists the pots that do not give back what an agent's report releases: those that took confirmed reports alone when the action was
 * decided, or do so now.
 */
function potsThatHold(
  { body: { reserved = [] } }: DecisionReceipt,
  report: OutcomeReport,
  { source }: FollowUpCaller,
  { budgets }: WorkspaceState,
): readonly string[] {
  return reserved
    .filter((amount) => isHeldBack({ ...report, source }, amount))
    .filter(({ pot, release }) => release === "confirmed" || budgets.isConfirmed(pot))
    .map(({ pot }) => pot);
}

function assertReport({ status, amount, error }: OutcomeReport): void {
  if (amount !== undefined) {
    if (status !== "succeeded") throw invalidField("amount", `goes with \`succeeded\` only, not with \`${status}\``);
    if (millionthsFrom(amount) === undefined)
      throw invalidField("amount", "must have at most six decimal places, be at most 999999999, and not be negative");
  }
  if (error !== undefined && status === "succeeded")
    throw invalidField("error", "goes with `failed` and `cancelled` only, not with `succeeded`");
}

/** Throws INVALID_FIELD for an amount of an action that reserved different ones: it cannot be told which of them it stands for. */
function assertOneAmount({ body: { reserved = [] } }: DecisionReceipt, { amount }: OutcomeReport): void {
  const amounts = reserved.filter(({ unit }) => unit === undefined).map(({ millionths }) => millionths);
  if (amount === undefined || new Set(amounts).size <= 1) return;
  throw invalidField(
    "amount",
    "must be absent: the action reserved different amounts in several budgets, and each captures its own",
  );
}

const isSame = (sealed: SealedOutcome, { status, amount, error, resultDigest }: OutcomeReport): boolean =>
  sealed.status === status &&
  sealed.amount === amount &&
  sealed.error === error &&
  sealed.result_digest === resultDigest;

function outcomeExists(standing: SealedOutcome): ControlPlaneError {
  const { decision_id, status, settles } = standing;
  const reported = `the outcome of decision \`${decision_id}\` was reported before as \`${status}\``;
  const message =
    status === "unknown"
      ? `the outcome of decision \`${decision_id}\` is \`${status}\`, because nobody reported it in time; an operator settles it`
      : awaitsConfirmation(standing)
        ? `${reported}; the gateway or an operator confirms or corrects it`
        : `${reported}; ${settles ? "that settled it" : "the first report stands"}`;
  return new ControlPlaneError(ErrorReason.OUTCOME_EXISTS, message, { decision_id, status });
}
