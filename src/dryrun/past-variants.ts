import type { Rule } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { type OutcomeStatus as OutcomeStatusEnum, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { OutcomeStatus } from "../policy/outcome-status.ts";
import type { Decision } from "../policy/types.ts";
import type { PastAction, PastAgent, TestedAction } from "./mandate-test.ts";

/** A type that no sensible pattern but `*` covers. */
export const OTHER_TYPE = "unrelated.action";
const OUTCOMES: readonly OutcomeStatus[] = ["succeeded", "failed", "cancelled", "pending", "unknown"];
const DECISIONS: readonly Decision[] = ["allow", "block", "escalate"];

/** Builds a past action, by default an allowed one of the agent just now. */
export const pastOf = (change: Partial<PastAction>): PastAction => ({
  by: "self",
  actionType: OTHER_TYPE,
  decision: "allow",
  beforeMs: 0,
  count: 1,
  ...change,
});

/** Lists changes of a past action that decide whether it counts, with their names. */
export const pastVariants = (
  windowMs: number,
  outcomes: readonly OutcomeStatusEnum[] = [],
): readonly (readonly [string, Partial<PastAction>])[] => [
  ["at the far edge of the window, outside", { beforeMs: windowMs }],
  ["at the far edge of the window, inside", { beforeMs: windowMs - 1 }],
  ["just now", { beforeMs: 0 }],
  ...(["colleague", "other", "delegate"] satisfies PastAgent[]).map((by) => [`by ${BY_TEXTS[by]}`, { by }] as const),
  ...DECISIONS.map((decision) => [`decided \`${decision}\``, { decision }] as const),
  // Of a rule that names no outcomes, all of them would be alike or as its guide says.
  ...(outcomes.length === 0 ? [] : OUTCOMES).map(
    (outcome) => [`with the outcome \`${outcome}\``, { outcome }] as const,
  ),
];

/** Returns the outcome with which past actions of a rule count: the first that it names, none if it names none. */
export function countedOutcome({ conditions }: Rule): Pick<PastAction, "outcome"> {
  // The numbers of the statuses begin with 1.
  const outcome = OUTCOMES[(conditions?.countOutcomes[0] ?? 0) - 1];
  return outcome === undefined ? {} : { outcome };
}

/** Agents of past actions in words. */
export const BY_TEXTS = {
  self: "the agent",
  colleague: "an agent of its departments",
  other: "an agent of no department",
  delegate: "another agent on behalf of the agent",
} as const;

/** Lists the agent in other departments, where a rule counts departments. */
export function departmentVariants(rule: Rule, base: TestedAction): readonly (readonly [string, TestedAction])[] {
  if (rule.conditions?.scope !== Scope.DEPARTMENT) return [];
  const alone = { ...base, agent: { ...base.agent, departmentIds: [] } };
  return [["an agent in no department", alone]];
}
