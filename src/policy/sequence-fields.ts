import type { Conditions } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { RuleDraft } from "./rule-draft.ts";
import type { Decision, ScopeWord } from "./types.ts";
import type { Violations } from "./violations.ts";
import { decisionWord, scopeWord } from "./words.ts";

const MAX_WINDOW_SECONDS = 2_678_400;

/** Whose past actions a sequence rule counts, and which of them. */
export interface SequenceGroup {
  readonly scope: ScopeWord;
  readonly departmentId?: string;
  /** Sorted, without duplicates; empty counts every attempt. */
  readonly countDecisions: readonly Decision[];
}

/** Reads whom and what a sequence rule counts. */
export function sequenceGroup({ scope, departmentId, countDecisions }: Conditions): SequenceGroup {
  const decisions = countDecisions.map(decisionWord).filter((word) => word !== undefined);
  return {
    scope: scopeWord(scope) ?? "agent",
    ...(departmentId !== undefined && { departmentId }),
    countDecisions: [...new Set(decisions)].sort(),
  };
}

/** A whole number within a range; notes its absence and what is outside. */
export function limitOf(
  given: bigint | undefined,
  [low, high]: readonly [number, number],
  at: string,
  violations: Violations,
): number {
  if (given === undefined) {
    violations.add(at, "LIMIT_MISSING", `a sequence rule needs a number from ${low} to ${high}`);
    return low;
  }
  if (given < low || given > high)
    violations.add(at, "LIMIT_OUT_OF_RANGE", `\`${given}\` is not from ${low} to ${high}`);
  return Number(given);
}

/** The window of a sequence rule in seconds; notes its absence and what is outside the range. */
export function windowSecondsOf({ conditions, path, violations }: RuleDraft): number {
  const at = `${path}.conditions.window_seconds`;
  return limitOf(conditions.windowSeconds, [1, MAX_WINDOW_SECONDS], at, violations);
}

/** Notes a department that is blank or goes with another scope. */
export function checkDepartment({ conditions, path, violations }: RuleDraft): void {
  const at = `${path}.conditions.department_id`;
  if (conditions.departmentId === undefined) return;
  if (scopeWord(conditions.scope) !== "department") {
    violations.add(at, "CONDITION_FIELD_NOT_APPLICABLE", "`department_id` goes with the scope `department` only");
  } else if (conditions.departmentId.trim() === "") {
    violations.add(at, "SCOPE_TARGET_MISSING", "the department is blank; leave it out for those of the acting agent");
  }
}

/** Notes a field that belongs to the other mode of a sequence rule. */
export function checkMode(draft: RuleDraft, mode: string, field: string, isSet: boolean): void {
  if (!isSet) return;
  const message = `\`${field}\` means nothing to a sequence rule of this mode; it belongs to \`${mode}\``;
  draft.violations.add(`${draft.path}.conditions.${field}`, "CONDITION_FIELD_NOT_APPLICABLE", message);
}
