import type { Conditions } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { decisionFromEnum, type RuleDraft, scopeFromEnum } from "./rule-draft.ts";

/** Maximum length of a window: 31 days. */
export const MAX_WINDOW_SECONDS = 2_678_400;

/** Reads the group whose past actions a sequence rule counts, and the decisions that count. */
export function groupFrom({ scope, departmentId, countDecisions }: Conditions) {
  const decisions = countDecisions.map(decisionFromEnum).filter((decision) => decision !== undefined);
  return {
    scope: scopeFromEnum(scope) ?? "agent",
    ...(departmentId !== undefined && { departmentId }),
    countDecisions: [...new Set(decisions)].sort(),
  };
}

/** Reads the length of a window in seconds; notes a violation if it is missing or outside of what the service accepts. */
export function windowSecondsFrom(draft: RuleDraft): number {
  return limitFrom(draft, "window_seconds", draft.conditions.windowSeconds, 1, MAX_WINDOW_SECONDS);
}

/** Reads a whole number within a range; notes a violation if it is missing or outside. */
export function limitFrom(
  { path, violations }: RuleDraft,
  field: string,
  given: bigint | undefined,
  min: number,
  max: number,
): number {
  const at = `${path}.conditions.${field}`;
  if (given === undefined) {
    violations.add(at, "LIMIT_MISSING", `a sequence rule needs a number from ${min} to ${max}`);
    return min;
  }
  if (given < min || given > max) {
    violations.add(at, "LIMIT_OUT_OF_RANGE", `\`${given}\` is not from ${min} to ${max}`);
  }
  return Number(given);
}

/** Notes a department that the scope does not use, and a blank one. */
export function checkDepartment({ conditions, path, violations }: RuleDraft): void {
  const at = `${path}.conditions.department_id`;
  if (conditions.departmentId === undefined) return;
  if (scopeFromEnum(conditions.scope) !== "department") {
    violations.add(at, "CONDITION_FIELD_NOT_APPLICABLE", "`department_id` goes with the scope `department` only");
  } else if (conditions.departmentId.trim() === "") {
    violations.add(at, "SCOPE_TARGET_MISSING", "the department is blank; leave it out for those of the acting agent");
  }
}

/** Notes a field that belongs to another mode. */
export function addWrongMode({ path, violations }: RuleDraft, owners: string, field: string): void {
  const message = `\`${field}\` does not apply to a sequence rule of this mode; it belongs to ${owners}`;
  violations.add(`${path}.conditions.${field}`, "CONDITION_FIELD_NOT_APPLICABLE", message);
}
