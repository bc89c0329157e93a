import { listAt, numberAt } from "../verify/json.ts";
import type { Part, Sentence } from "./sentence.ts";

/** Demand of a rule that names approvers. */
export interface ToldNeed {
  /** Approver groups of which one is enough; empty for any operator. */
  readonly groups: readonly string[];
  readonly atLeast: number;
}

/** Answers of people to an escalation whose rules name approvers. */
export interface ToldApprovals {
  readonly needs: readonly (ToldNeed & {
    /** Number of people who have approved and count for it. */
    readonly given: number;
  })[];
  /** The approvals that count, the oldest first. */
  readonly approvals: readonly {
    /** Name of the person or key, or its id. */
    readonly name: string;
    /** Groups that it was given for. */
    readonly groups: readonly string[];
  }[];
}

/** Tells who approved, and what each demand has: "Approved by `Ada` (`finance`): 1 of 2 of `finance`." */
export function approvedBy({ needs, approvals }: ToldApprovals): Sentence {
  const people = approvals.map(({ name, groups }): Sentence => {
    const inside: Sentence = groups.length === 0 ? [] : [" (", ...joined(groups.map(quoted), ", "), ")"];
    return [{ quoted: name }, ...inside];
  });
  const counts = needs.map(
    ({ given, ...need }): Sentence => [`${Math.min(given, need.atLeast)} of ${need.atLeast} of `, ...whom(need)],
  );
  const who: Sentence = people.length === 0 ? ["Approved by nobody yet"] : ["Approved by ", ...series(people)];
  return counts.length === 0 ? [...who, "."] : [...who, ": ", ...joined(counts, ", "), "."];
}

/** Tells the demands that a decision sealed; empty if its rules name no approvers. */
export function demanded(body: unknown): readonly Sentence[] {
  const needs = needsIn(body);
  if (needs.length === 0) return [];
  const told = needs.map((need): Sentence => [`${need.atLeast} of `, ...whom(need)]);
  return [["Its rules ask ", ...series(told), " to approve."]];
}

/** Reads the demands that a decision sealed. */
export const needsIn = (body: unknown): readonly ToldNeed[] =>
  listAt(body, "approvals_needed").map((need) => ({
    groups: listAt(need, "groups").map(String),
    atLeast: numberAt(need, "at_least") ?? 1,
  }));

const quoted = (text: string): Sentence => [{ quoted: text }];

const whom = ({ groups }: ToldNeed): Sentence =>
  groups.length === 0 ? ["the operators"] : joined(groups.map(quoted), " or ");

/** Joins parts of a sentence as a series: `a`, `b` and `c`. */
const series = (parts: readonly Sentence[]): Sentence =>
  joined([...(parts.length < 3 ? [] : [joined(parts.slice(0, -2), ", ")]), joined(parts.slice(-2), " and ")], ", ");

const joined = (parts: readonly Sentence[], between: string): Sentence =>
  parts.flatMap((part, at): Part[] => (at === 0 ? [...part] : [between, ...part]));
