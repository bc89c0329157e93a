import type { Rule } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { comparableName } from "./names.ts";

/** The fixed members of an approver group, and whether it has others that only an identity provider knows. */
export interface ApproverGroupSize {
  /** Members in the form in which they compare: equal for spellings of one label. */
  readonly members: ReadonlySet<string>;
  readonly hasOidcGroups: boolean;
}

/** The approver groups that rules may name. */
export interface ApproverGroupLookup {
  /** Returns a group; undefined if there is none of this name. */
  readonly sizeOf: (name: string) => ApproverGroupSize | undefined;
  /** The names of all groups. */
  readonly names: () => Iterable<string>;
}

/** Lookup without groups. */
export const NO_APPROVER_GROUPS: ApproverGroupLookup = { sizeOf: () => undefined, names: () => [] };

/** Approvals that a rule which escalates an action asks for. */
export interface ApprovalDemand {
  readonly mandateId: string;
  /** Path of the rule in the mandate: `rules[0]`. */
  readonly rule: string;
  /** Approver groups, sorted; a member of one of them counts. Empty: every operator counts. */
  readonly groups: readonly string[];
  /** Number of people, from 1. */
  readonly atLeast: number;
  /** Seconds after which people are reminded; undefined for no reminder. */
  readonly remindAfterSeconds: number | undefined;
}

/** Number of demands of one decision after which only those are kept that differ from the ones before. */
const MAX_EQUAL_DEMANDS = 100;

/** Returns the form in which members of groups compare: people by their exact name, labels as names do. */
export const memberKey = (member: string): string => (member.startsWith("oidc:") ? member : comparableName(member));

/** Returns the names of the groups in `approvers` of a rule, sorted, without duplicates. */
export const approverGroupsOf = ({ approvers }: Rule): readonly string[] =>
  [...new Set((approvers?.groups ?? []).map((name) => name.trim()))].sort();

/** Returns what a rule asks for when it escalates. A rule without `approvers` asks for one operator. */
export function demandOf(mandateId: string, { path, source }: { path: string; source: Rule }): ApprovalDemand {
  const { atLeast = 1, remindAfterSeconds } = source.approvers ?? {};
  return { mandateId, rule: path, groups: approverGroupsOf(source), atLeast, remindAfterSeconds };
}

/** Tests whether a demand is that of any escalation: one operator. */
const isPlain = ({ groups, atLeast, remindAfterSeconds }: ApprovalDemand): boolean =>
  groups.length === 0 && atLeast <= 1 && remindAfterSeconds === undefined;

/**
 * Returns the demands of the rules that escalate an action; empty if none of them names approvers, since one operator is then enough.
 */
export function demandsOf(demands: readonly ApprovalDemand[]): readonly ApprovalDemand[] {
  if (demands.every(isPlain)) return [];
  const seen = new Set<string>();
  return demands.filter((demand, index) => {
    const key = `${demandKey(demand)} ${demand.remindAfterSeconds ?? ""}`;
    const isNew = !seen.has(key);
    seen.add(key);
    return isNew || index < MAX_EQUAL_DEMANDS;
  });
}

/** Text that stands for the approvals which a demand asks for: `finance+legal/2`. Names of groups have neither `+` nor `/`. */
export const demandKey = ({ groups, atLeast }: Pick<ApprovalDemand, "groups" | "atLeast">): string =>
  `${groups.join("+")}/${atLeast}`;

/** Returns the texts that stand for some demands, each once. */
export const distinctKeys = (demands: readonly Pick<ApprovalDemand, "groups" | "atLeast">[]): readonly string[] => [
  ...new Set(demands.map(demandKey)),
];

/** Tests whether approvals that were given for some demands, by their keys, are also those that another one asks for. */
export function coversDemand(keys: readonly string[], { groups, atLeast }: ApprovalDemand): boolean {
  if (groups.length === 0 && atLeast <= 1) return true;
  return keys.some((key) => {
    const [names = "", count] = key.split("/");
    const given = names === "" ? [] : names.split("+");
    const isInside = groups.length === 0 || (given.length > 0 && given.every((name) => groups.includes(name)));
    return isInside && Number(count) >= atLeast;
  });
}

/** Describes a number of approvers in words: ``2 of `finance` or `legal` ``. */
export function approversText(groups: readonly string[], atLeast: number): string {
  return `${atLeast} of ${groups.length === 0 ? "the operators" : groups.map((name) => `\`${name}\``).join(" or ")}`;
}
