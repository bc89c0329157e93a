import { RuleType } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { Work } from "../../async/work.ts";
import { contextOf } from "../../decision/decide.ts";
import type { CompiledMandate, CompiledRule } from "../../policy/types.ts";
import type { AgentState } from "../../state/agents.ts";
import type { Action, DecisionReason, Outcome } from "../../state/types.ts";
import type { StateJournal, WorkspaceState } from "../../state/workspace.ts";
import { decideInTurn } from "../decide-in-turn.ts";
import type { DryRuns, Question } from "../dry-runs.ts";
import { coversAction, mandatesFor } from "../trace.ts";
import { agentText, type Evidence, evidenceOf, type Findings, plain, quoted, sentence } from "./answer.ts";
import { ruleText, whenText } from "./rule-text.ts";

/** Maximum number of reasons in the text; all are in the evidence. */
const MAX_SAID = 3;

/** A rule that covers the action and could not be judged as it would be at an attempt. */
interface Unjudged {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
}

/** Answers whether an agent may do something, by deciding it. */
export async function mayAnswer(dryRuns: DryRuns, question: Question, agent: AgentState): Promise<Findings> {
  const { outcome, unjudged, versions } = await dryRuns.run(
    question,
    function* (state, actions, nowMs) {
      const [action] = actions;
      const [outcome] = yield* decideInTurn(state, actions, nowMs);
      if (action === undefined || outcome === undefined) throw new Error("the question is about one action");
      const unjudged = outcome.policy === undefined ? [] : yield* findUnjudged(state, action, nowMs);
      return { outcome, unjudged, versions: versionsOf(state, outcome) };
    },
    ({ outcome }) => [outcome],
  );
  const [action] = question.actions;
  const expressions = expressionsOf(unjudged);
  return {
    holds: outcome.decision === "allow" && expressions.length === 0,
    sentences: [
      leadOf(outcome, agent, action?.actionType ?? "", expressions),
      ...saidReasons(outcome.reasons),
      ...unjudgedSentences(unjudged),
    ],
    evidence: [
      ...outcome.reasons.map((reason) => reasonEvidence(reason, versions.get(reason.mandateId ?? ""))),
      ...(outcome.policy?.observed ?? []).flatMap(({ mandate, reasons }) =>
        reasons.map(({ rule, message }) => evidenceOf(mandate, rule, sentence(`observes only: ${plain(message)}`))),
      ),
      ...unjudged.map(({ mandate, rule }) => evidenceOf(mandate, rule.path, sentence(ruleText(mandate, rule)))),
    ],
  };
}

/** Lists the expressions that may decide otherwise for another call, each once. */
const expressionsOf = (unjudged: readonly Unjudged[]): readonly string[] => [
  ...new Set(
    unjudged.flatMap(({ mandate, rule: { when } }) =>
      mandate.mode === "observe" || when === undefined ? [] : [whenText(when)],
    ),
  ),
];

/** Maximum number of expressions in the text. */
const MAX_EXPRESSIONS = 3;

function dependsText(expressions: readonly string[]): string {
  const shown = expressions.slice(0, MAX_EXPRESSIONS);
  const more = expressions.length - shown.length;
  return `${shown.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function leadOf(
  { decision, policyName }: Outcome,
  { agentId, registration }: AgentState,
  actionType: string,
  expressions: readonly string[],
): string {
  const agent = agentText(registration.name, agentId);
  const by = policyName === undefined ? "" : ` by mandate ${quoted(policyName)}`;
  switch (decision) {
    case "allow":
      if (expressions.length > 0) {
        return `It depends on ${dependsText(expressions)}: as asked, ${agent} may do ${quoted(actionType)} now${by && `, allowed${by}`}.`;
      }
      return `Yes: ${agent} may do ${quoted(actionType)} now${by && `, allowed${by}`}.`;
    case "block":
      return `No: ${quoted(actionType)} by ${agent} would be blocked${by}.`;
    default:
      return `Not alone: ${quoted(actionType)} by ${agent} would be escalated${by}, and a person would have to approve it.`;
  }
}

/** Tells the first reasons, and the first change of an argument that would be allowed. */
function saidReasons(reasons: readonly DecisionReason[]): readonly string[] {
  const more = reasons.length - MAX_SAID;
  const would = reasons.find(({ wouldPass }) => wouldPass !== undefined)?.wouldPass;
  return [
    ...reasons.slice(0, MAX_SAID).map(({ message }) => sentence(plain(message))),
    ...(more > 0 ? [`The evidence has ${more} more ${more === 1 ? "reason" : "reasons"}.`] : []),
    ...(would === undefined ? [] : [sentence(`it ${plain(would)}`)]),
  ];
}

function unjudgedSentences(unjudged: readonly Unjudged[]): readonly string[] {
  const types = new Set(unjudged.map(({ rule }) => rule.type));
  return [
    ...(types.has(RuleType.CONTENT) ? ["Rules over the content saw an empty one."] : []),
    ...(types.has(RuleType.PROVENANCE) ? ["Provenance rules fire in a session alone, and the question has none."] : []),
    ...(types.has(RuleType.SEMANTIC) ? ["Semantic rules were not asked and count as unavailable."] : []),
  ];
}

/** Makes evidence of a reason of a decision. */
export function reasonEvidence(reason: DecisionReason, version: number | undefined): Evidence {
  const { mandateId, mandateName, rule, message, wouldPass } = reason;
  const would = wouldPass === undefined ? "" : `; ${plain(wouldPass)}`;
  return { mandateId, mandateName, version, rule, text: sentence(`${plain(message)}${would}`) };
}

function versionsOf({ policies }: WorkspaceState, { reasons }: Outcome): ReadonlyMap<string, number> {
  const ids = reasons.flatMap(({ mandateId }) => mandateId ?? []);
  return new Map(ids.map((id) => [id, policies.mandates.get(id)?.compiled.version ?? 0]));
}

const UNJUDGED: ReadonlySet<RuleType> = new Set([RuleType.CONTENT, RuleType.SEMANTIC, RuleType.PROVENANCE]);

/** Finds the rules over content and over origins, those that ask a model, and those with `when`. */
function* findUnjudged(state: WorkspaceState, action: Action, nowMs: number): Work<readonly Unjudged[]> {
  const journal: StateJournal = { undo: [] };
  try {
    const context = contextOf(state, action, nowMs, journal);
    const found: Unjudged[] = [];
    for (const mandate of mandatesFor(state, context)) {
      for (const rule of mandate.rules) {
        const isOne = UNJUDGED.has(rule.type) || (rule.when?.reads.length ?? 0) > 0;
        if (isOne && !rule.stale && coversAction(mandate, rule, context)) found.push({ mandate, rule });
      }
      yield;
    }
    return found;
  } finally {
    for (const undo of journal.undo.toReversed()) undo();
  }
}
