import { RuleType } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { approverGroupsOf, NO_APPROVER_GROUPS } from "../approvers.ts";
import type { RuleDraft } from "./rule-draft.ts";

/** Maximum number of people that a rule asks for. */
const MAX_AT_LEAST = 20;

/** Checks `approvers` of a rule: it may escalate, its groups exist, and they have as many people as it asks for. */
export function checkApprovers(draft: RuleDraft): void {
  const { rule, type, decision, path, violations, tools } = draft;
  const { approvers } = rule;
  if (approvers === undefined) return;
  const at = `${path}.approvers`;
  // A semantic rule that blocks may still escalate when the guard gives no verdict.
  if (decision !== "escalate" && type !== RuleType.SEMANTIC) {
    const message = `\`approvers\` does not apply to a rule that decides \`${decision}\``;
    violations.add(at, "CONDITION_FIELD_NOT_APPLICABLE", message);
  }
  const lookup = tools.approverGroups ?? NO_APPROVER_GROUPS;
  approvers.groups.forEach((name, index) => {
    if (lookup.sizeOf(name.trim()) !== undefined) return;
    const message = `there is no approver group \`${name}\``;
    const nearest = violations.budget.nearest(name, lookup.names());
    violations.add(`${at}.groups[${index}]`, "APPROVER_GROUP_NOT_FOUND", message, nearest);
  });
  checkAtLeast(draft, `${at}.at_least`);
}

function checkAtLeast({ rule, violations, tools }: RuleDraft, at: string): void {
  const { atLeast = 1 } = rule.approvers ?? {};
  if (!(atLeast >= 1 && atLeast <= MAX_AT_LEAST)) {
    violations.add(at, "LIMIT_OUT_OF_RANGE", `\`${atLeast}\` is not from 1 to ${MAX_AT_LEAST}`);
    return;
  }
  const names = approverGroupsOf(rule);
  const groups = names.map((name) => tools.approverGroups?.sizeOf(name));
  // An unknown group is a violation of its own, and how many people an identity provider's group has is not known.
  if (groups.length === 0 || groups.some((group) => group === undefined || group.hasOidcGroups)) return;
  const people = new Set(groups.flatMap((group) => [...(group?.members ?? [])]));
  if (people.size >= atLeast) return;
  const named = names.map((name) => `\`${name}\``).join(" and ");
  const message = `asks for ${atLeast} people, and ${named} ${names.length > 1 ? "have" : "has"} ${people.size} in all`;
  violations.add(at, "TOO_FEW_APPROVERS", message);
}
