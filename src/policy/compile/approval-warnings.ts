import type { Rule } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { argumentSteps } from "../../notation/argument-path.ts";

/** Warning about a rule in force; the fields of the message `RuleWarning`. */
export interface RuleWarning {
  /** Place in the mandate: `rules[2].conditions.rules[0].field`. */
  readonly path: string;
  readonly reason:
    | "FIELD_NOT_APPROVED"
    | "PENDING_NOT_COUNTED"
    | "PROVENANCE_BLOCKS"
    | "TEST_FAILS"
    | "TESTS_NOT_RUN"
    | "WHEN_ALWAYS_FAILS"
    | "WHEN_DOES_NOT_FILTER"
    | "WHEN_EXACT_TEXT";
  /** One sentence that says what to change. */
  readonly message: string;
  /** Place in the rule's `when`, from 1; undefined for any other warning. */
  readonly line?: number;
  readonly column?: number;
}

/** Lists the conditions that read a metadata member which approvals do not cover, in the order of the rules. */
export function approvalWarnings(rules: readonly Rule[], ignores: readonly string[]): readonly RuleWarning[] {
  return rules.flatMap(({ conditions }, index) =>
    (conditions?.rules ?? []).flatMap(({ field }, at): RuleWarning[] => {
      const [member] = argumentSteps(field) ?? [];
      if (typeof member !== "string" || !ignores.includes(member)) return [];
      const path = `rules[${index}].conditions.rules[${at}].field`;
      const message = `approvals do not cover \`${member}\`: take it out of the workspace's \`approval_ignores\``;
      return [{ path, reason: "FIELD_NOT_APPROVED", message }];
    }),
  );
}
