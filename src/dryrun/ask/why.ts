import type { WhyQuestion } from "../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { ErrorReason } from "../../errors.ts";
import { readReceipt } from "../../log/read-receipts.ts";
import type { DecisionBody, SealedLimit, SealedReason } from "../../log/receipts.ts";
import { decisionFromEnum } from "../../policy/compile/rule-draft.ts";
import type { Decision } from "../../policy/types.ts";
import type { Reader } from "../../store/transaction.ts";
import { agentText, type Evidence, type Findings, plain, quoted, sentence } from "./answer.ts";
import { DONE } from "./rule-text.ts";
import { absent } from "./subjects.ts";

const DECISION_ID = /^dec_[a-z0-9]{1,60}$/;
/** Maximum number of reasons in the text; all are in the evidence. */
const MAX_SAID = 3;

/** Answers why a decision was taken, from its receipt. */
export async function whyAnswer(
  reader: Reader,
  workspaceId: string,
  { decisionId, supposed: supposedEnum = 0 }: WhyQuestion,
): Promise<Findings> {
  const supposed = decisionFromEnum(supposedEnum);
  const receipt = DECISION_ID.test(decisionId) ? await readReceipt(reader, workspaceId, decisionId) : undefined;
  const body = receipt?.body;
  if (body === undefined) throw absent("why.decision_id", ErrorReason.DECISION_NOT_FOUND, "the decision", decisionId);
  const evidence = [
    ...reasonsEvidence(body),
    ...observedEvidence(body),
    ...body.authorisation.collective_limits.map(limitEvidence),
  ];
  return {
    sentences: [...leadOf(body, supposed), ...saidReasons(body), ...escalationSentences(body)],
    evidence: [decisionEvidence(body), ...evidence],
  };
}

function leadOf(body: DecisionBody, supposed: Decision | undefined): readonly string[] {
  const { decision, decision_path, policy_name, action, at } = body;
  const wrong = supposed !== undefined && supposed !== decision ? [`It was not ${DONE[supposed]}.`] : [];
  const by =
    policy_name === undefined ? `by ${decision_path.replaceAll("_", " ")}` : `by mandate ${quoted(policy_name)}`;
  const who = agentText(action.agent_name, action.agent_id);
  return [...wrong, `${quoted(action.action_type)} by ${who} was ${DONE[decision]} ${by} at ${at}.`];
}

function saidReasons({ reasons }: DecisionBody): readonly string[] {
  const more = reasons.length - MAX_SAID;
  return [
    ...reasons.slice(0, MAX_SAID).map(({ message }) => sentence(plain(message))),
    ...(more > 0 ? [`The evidence has ${more} more ${more === 1 ? "reason" : "reasons"}.`] : []),
  ];
}

function escalationSentences({ escalation_id, used_escalation_id }: DecisionBody): readonly string[] {
  return [
    ...(escalation_id === undefined ? [] : [`A person is asked in escalation ${escalation_id}.`]),
    ...(used_escalation_id === undefined ? [] : [`It used the approval of escalation ${used_escalation_id}.`]),
  ];
}

function decisionEvidence({ decision_id, seq, decision, trust }: DecisionBody): Evidence {
  const text = `entry ${seq} of the log seals \`${decision}\`, trust ${trust.before} to ${trust.after}`;
  return { decisionId: decision_id, text: sentence(text) };
}

function reasonsEvidence({ decision_id, reasons, mandates }: DecisionBody): readonly Evidence[] {
  const versions = new Map(mandates.map(({ mandate_id, version }) => [mandate_id, version]));
  return reasons.map((reason) => sealedEvidence(reason, versions.get(reason.mandate_id ?? ""), decision_id, ""));
}

function observedEvidence({ decision_id, observed }: DecisionBody): readonly Evidence[] {
  return observed.flatMap(({ version, would_decide, reasons }) =>
    reasons.map((reason) => sealedEvidence(reason, version, decision_id, `would ${would_decide}, but observes only: `)),
  );
}

function sealedEvidence(
  { mandate_id, mandate_name, rule, message, would_pass }: SealedReason,
  version: number | undefined,
  decisionId: string,
  before: string,
): Evidence {
  const would = would_pass === undefined ? "" : `; ${plain(would_pass)}`;
  const text = sentence(`${before}${plain(message)}${would}`);
  return { mandateId: mandate_id, mandateName: mandate_name, version, rule, text, decisionId };
}

function limitEvidence({ mandate_id, rule, scope, group, window, budget, ...counts }: SealedLimit): Evidence {
  const { count, limit, remaining } = counts;
  if (budget !== undefined) {
    const spent = `${budget.total} of ${budget.limit} ${budget.currency} in ${window} s`;
    const text = `${spent} for ${scope} ${quoted(group)}, ${budget.remaining} left`;
    return { mandateId: mandate_id, rule, text: sentence(text) };
  }
  const text = `${count} of ${limit} in ${window} s for ${scope} ${quoted(group)}, ${remaining} left`;
  return { mandateId: mandate_id, rule, text: sentence(text) };
}
